"""The random numbers of a GPU, without one: in Triton's interpreter, and compiled for one."""

import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from airfl.runtime import philox
from airfl.runtime.philox import gpu, tensors
from airfl.runtime.streams import Purpose, Streams
from experiments.gpu.imitation import CUDA, imitated_gpu

ROOT = Path(__file__).parents[2]
ADDRESS = Streams(5).address(Purpose.QUANTISER, 3)
DEVICES = [0, 5, 2**40]
WITHOUT_ROUNDING = {"mov", "ld", "st", "setp", "selp", "neg", "abs", "min", "max", "and", "or", "xor"}
"""Operations on float32 whose result is exact."""

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def told(how: str, tmp_path: Path) -> Any:
    """What triton_numbers.py prints."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment["TRITON_INTERPRET"] = "1" if how == "interpreted" else "0"
    command = [sys.executable, "-m", "tests.unit.triton_numbers", how]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_triton
def test_kernels_in_tritons_interpreter_have_the_bits_of_the_cpu(tmp_path: Path) -> None:
    same = told("interpreted", tmp_path)["same"]
    assert [what for what, equal in same.items() if not equal] == []
    assert len(same) > 30


@needs_triton
def test_kernels_compiled_for_a_gpu_have_the_bits_of_the_cpu(tmp_path: Path) -> None:
    """No product is fused with a sum, no result is approximate, no small one is flushed to zero; and what the code
    computes, executed by an interpreter of PTX, is right."""
    found = told("compiled", tmp_path)
    for name, operations in found["operations"].items():
        on_floats = {operation for operation in operations if ".f32" in operation}
        for operation in on_floats:
            kind, *words = operation.split(".")
            assert kind not in ("fma", "mad", "ex2", "lg2", "sin", "cos", "rcp", "rsqrt", "div"), (name, operation)
            assert not {"ftz", "approx", "full"} & set(words), (name, operation)
            assert "rn" in words or kind in WITHOUT_ROUNDING, (name, operation)
        assert ("sqrt.rn.f32" in on_floats) == ("add 128" in name), name
    assert len(found["operations"]) >= 10
    if found["unknown"]:
        pytest.skip(f"ptx.py does not know {found['unknown']}")
    assert [what for what, equal in found["same"].items() if not equal] == []
    assert len(found["same"]) > 30


@pytest.mark.parametrize(
    ("missing", "said"),
    [(True, "since Triton is not installed"), (False, "since Triton failed: no compiler here")],
)
def test_without_triton_torch_computes_the_numbers_and_it_is_said_once(
    missing: bool, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> bool:
        raise RuntimeError("no compiler here\nand more")

    class Found:
        @staticmethod
        def find_spec(_: str) -> object:
            return None if missing else object()

    gpu.load_kernels.cache_clear()
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(gpu, "importlib", type("importlib", (), {"util": Found}))
    monkeypatch.setitem(sys.modules, "airfl.runtime.philox.triton_kernels", object())
    monkeypatch.setattr(gpu, "is_right", fails)
    try:
        with caplog.at_level(logging.WARNING, "airfl"):
            assert [gpu.load_kernels(CUDA) for _ in range(2)] == [None, None]
    finally:
        gpu.load_kernels.cache_clear()
    (record,) = caplog.records
    assert record.getMessage() == f"{gpu.OTHERWISE}, {said}"


def test_a_stream_has_an_end_on_a_gpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for kernels in (object(), None):  # with Triton, and without
        monkeypatch.setattr(gpu, "kernels_for", lambda rows, found=kernels: found)
        with imitated_gpu(), pytest.raises(ValueError, match=r"17179869183, got 17179869180 to 17179869184"):
            tensors.add_normals_(torch.zeros(3, 5, device=CUDA), ADDRESS, DEVICES, 1.0, start=philox.LONGEST - 4)


@pytest.mark.parametrize("at_positions", [None, "an array", "a tensor"])
def test_torch_computes_uniforms_and_binomials_without_a_wait(at_positions: str | None) -> None:
    """On the imitated GPU, with the bits of the CPU."""
    kept = torch.tensor([2, 3, 5, 8, 40])
    rows = torch.randn(5, 3, 5, generator=torch.Generator().manual_seed(1))

    def drawn(rows: torch.Tensor, positions: Any) -> list[torch.Tensor]:
        first, *others = rows.unbind()
        return [
            tensors.uniforms(ADDRESS, DEVICES, 5, rows.device, positions=positions),
            tensors.round_stochastically_(first, ADDRESS, DEVICES, 1.5, 0.2, 16, positions=positions),
            *(
                tensors.add_fair_binomials_(some, ADDRESS, DEVICES, trials, 0.3, positions=positions)
                for some, trials in zip(others, (1, 32, 65), strict=False)
            ),
        ]

    wanted = drawn(rows.clone(), at_positions and kept)
    with imitated_gpu() as waits:
        positions = {None: None, "an array": kept.numpy(), "a tensor": kept.to("cuda")}[at_positions]
        copied = rows.to("cuda")
        waits.noted.clear()
        found = drawn(copied, positions)
        assert at_positions == "an array" or not waits.noted
        for there, here in zip(found, wanted, strict=True):
            assert torch.equal(there.cpu(), here)
