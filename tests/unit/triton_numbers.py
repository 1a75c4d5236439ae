"""What test_triton.py runs in a process of its own, since Triton settles when it is imported whether it interprets.

`interpreted`: the kernels in Triton's interpreter. `compiled`: the kernels compiled for sm_90, as they are on a GPU, in
that code's interpreter ptx.py. Both print a JSON object: whether each kind of numbers is that of the CPU, bit for bit,
the operations of the compiled code, and an operation that ptx.py does not know.
"""

import json
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from airfl.runtime import philox
from airfl.runtime.philox import device_word, gpu, tensors
from airfl.runtime.philox import triton_kernels as kernels
from airfl.runtime.streams import Address, Purpose, Streams
from tests.unit import ptx

ADDRESS = Streams(5).address(Purpose.PRIVACY_NOISE, 3)
DEVICES = [5, 2**40]
WORDS = [device_word(device) for device in DEVICES]
COUNT = 603
PI = Address((0xA4093822, 0x299F31D0), 0x85A308D3), 0x0370734413198A2E, 0x243F6A88
"""Of Random123: address, the device's word, the block."""
EXTREME = np.array([66532194, 66532195, 202875522, 202875523, 500327324, 500327325])
"""Positions of device 5 at which u rounds to 1, so that the numbers are 0 or -0, and one whose word is 0."""


class Compiled:
    """A kernel that is compiled for a GPU and executed without one; operations: of what was compiled, by kernel."""

    operations: dict[str, list[str]]

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        """Return the call that starts so many programs."""

        def start(*given: Any, **named: Any) -> None:
            made = self._kernel.warmup(*given, grid=grid, **named)
            text, kinds = made.asm["ptx"], made.src.signature
            name = " ".join([self._kernel.__name__, *(str(value) for value in made.src.constants.values())])
            self.operations[name] = sorted(set(re.findall(r"^\s*(?:@%\S+ )?([a-z][a-z0-9_.]*)\s", text, re.MULTILINE)))
            left = [one for one, argument in zip(given, self._kernel.arg_names) if kinds[argument] != "constexpr"]  # noqa: B905
            ptx.run(text, left, grid[0], 32 * made.metadata.num_warps, made.metadata.shared)

        return start


def compiled() -> Any:
    """Return what stands for the module of the kernels, for a GPU of compute capability 9.0 that is not there."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    there = {
        "get_current_target": lambda: GPUTarget("cuda", 90, 32),
        "get_current_device": lambda: 0,
        "get_current_stream": lambda _: 0,
    }
    driver.set_active(SimpleNamespace(**there))
    names = ("numbers", "numbers_at", "add_fair_binomials")
    Compiled.operations = {}
    return SimpleNamespace(
        BLOCK=kernels.BLOCK, OPTIONS=kernels.OPTIONS, **{name: Compiled(getattr(kernels, name)) for name in names}
    )


def same_bits(module: Any) -> dict[str, bool]:
    """Return for each kind of numbers whether those of the kernels are those of the CPU, bit for bit."""
    found = {"the check before the first use": gpu.is_right(module, torch.device("cpu")), **_published(module)}
    positions = np.sort(np.random.default_rng(1).choice(9000, COUNT, replace=False))
    by_cpu: dict[gpu.Kind, Any] = {"words": philox.words, "uniforms": philox.uniforms, "add": philox.normals}
    for kind, draw in by_cpu.items():
        for start in (0, 1, 4098, philox.LONGEST - COUNT):
            found[f"{kind} from {start}"] = _same(_put(module, kind, start=start), kind, draw, start)
        for where, at in (("an array", positions), ("a tensor", torch.from_numpy(positions))):
            found[f"{kind} at positions in {where}"] = _same(_put(module, kind, positions=at), kind, draw, 0, positions)
    for trials in (1, 32, 33, 65):
        counted = philox.fair_binomials(ADDRESS, DEVICES, trials, 9000)
        for at in (None, positions):
            rows = torch.ones(2, COUNT)
            gpu.add_fair_binomials(module, rows, ADDRESS, WORDS, trials, 0.3, positions=at)
            centred = (counted[:, :COUNT] if at is None else counted[:, at]) - np.float32(trials / 2)
            wanted = np.float32(1) + np.float32(0.3) * centred
            found[f"Bin({trials}, 1/2){'' if at is None else ' at positions'}"] = _equal(rows, wanted)
    return found | _extremes(module) | _through_tensors(module, positions)


def _published(module: Any) -> dict[str, bool]:
    """Return whether the words of a vector that Random123 publishes are found."""
    address, word, block = PI
    rows = torch.zeros(1, 4, dtype=torch.int32)
    gpu.put(module, "words", rows, address, [word], start=4 * block)
    wanted = np.array([[0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]], dtype=np.uint32)
    return {"Random123's vector": _equal(rows, wanted)}


def _put(module: Any, kind: gpu.Kind, **named: Any) -> torch.Tensor:
    """Return what is put into every second row of a matrix, so that the rows do not follow one another."""
    dtype = torch.int32 if kind == "words" else torch.float32
    rows = torch.ones(4, COUNT, dtype=dtype)[::2]
    gpu.put(module, kind, rows, ADDRESS, WORDS, scale=0.3, **named)
    return rows


def _same(rows: torch.Tensor, kind: str, draw: Any, start: int, positions: NDArray[np.int64] | None = None) -> bool:
    drawn = draw(ADDRESS, DEVICES, COUNT if positions is None else 9000, start=start)
    wanted = drawn if positions is None else drawn[:, positions]
    return _equal(rows, np.float32(1) + np.float32(0.3) * wanted if kind == "add" else wanted)


def _equal(found: torch.Tensor, wanted: NDArray[Any]) -> bool:
    return np.array_equal(found.contiguous().numpy().view(np.uint32), np.ascontiguousarray(wanted).view(np.uint32))


def _extremes(module: Any) -> dict[str, bool]:
    wanted = np.array([[philox.normals(ADDRESS, [5], 1, start=place)[0, 0] for place in EXTREME.tolist()]])
    assert wanted[0, :4].tolist() == [0.0] * 4
    assert abs(wanted[0, 5]) > 6.6
    at, following = torch.full((1, 6), -0.0), torch.full((1, 6), -0.0)
    gpu.put(module, "add", at, ADDRESS, WORDS[:1], positions=EXTREME)
    for pair in (0, 2, 4):
        start = int(EXTREME[pair])
        gpu.put(module, "add", following[:, pair : pair + 2], ADDRESS, WORDS[:1], start=start)
    return {"extremes at positions": _equal(at, wanted), "extremes": _equal(following, wanted)}


def _through_tensors(module: Any, positions: NDArray[np.int64]) -> dict[str, bool]:
    """Return whether tensors.py gives the kernels what they need, with rows that it takes for a GPU's."""

    class Elsewhere(torch.Tensor):
        """A tensor that says that it does not lie in this computer's memory."""

        device = torch.device("meta")  # type: ignore[assignment]

    gpu.kernels_for = lambda rows: module  # type: ignore[assignment]
    gpu._there = lambda numbers, rows: torch.as_tensor(numbers)  # type: ignore[assignment]
    found = {}
    cases: tuple[tuple[str, list[int] | None, dict[str, Any]], ...] = (
        ("devices", DEVICES, {"start": 6}),
        ("devices at positions", DEVICES, {"positions": positions}),
        ("a receiver", None, {}),
    )
    for name, devices, named in cases:
        rows = torch.ones(COUNT) if devices is None else torch.ones(2, COUNT)
        wanted = tensors.add_normals_(rows.clone(), ADDRESS, devices, 0.25, **named)
        there = tensors.add_normals_(rows.as_subclass(Elsewhere), ADDRESS, devices, 0.25, **named)  # type: ignore[arg-type]
        found[f"noise of {name}"] = _equal(there.as_subclass(torch.Tensor), wanted.numpy())
    return found


def main(how: str) -> dict[str, Any]:
    """Return what is printed."""
    kernels.BLOCK = 128  # type: ignore[misc]  # so that a row has several programs
    module, told = (compiled() if how == "compiled" else kernels), dict[str, Any](unknown=None)
    try:
        told["same"] = same_bits(module)
    except NotImplementedError as error:
        told["unknown"] = str(error)
    return told | {"operations": getattr(Compiled, "operations", {})}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
