"""Precision of matrix products: the requested one during a run, and torch's own afterwards."""

import pytest
import torch

from airfl.analysis import bench as benchmark
from airfl.runtime.allocation import keep_freed_memory
from airfl.runtime.precision import TORCH_NAMES, Precision, precision
from tests.conftest import small_settings


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_torch_is_told_and_put_back(name: Precision) -> None:
    def settings() -> tuple[str, bool]:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    def failing() -> None:
        with precision(name):
            assert settings() == (TORCH_NAMES[name], name != "float32")
            raise ZeroDivisionError

    before = settings()
    with pytest.raises(ZeroDivisionError):
        failing()
    assert settings() == before


def test_single_precision_is_exact_to_rounding() -> None:
    """Against float64: tf32 or bf16 factors would be off by 1e-3 and more."""
    left, right = torch.randn(200, 300), torch.randn(300, 100)
    with precision("float32"):
        found = left @ right
    exact = left.double() @ right.double()
    assert float((found - exact).abs().max() / exact.abs().max()) < 1e-5


def test_memory_is_kept_or_not_but_never_an_error() -> None:
    assert {keep_freed_memory(), keep_freed_memory(1 << 30)} <= {True, False}


def test_a_benchmark_multiplies_as_its_run_would(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noted(*_: object) -> None:
        seen.append(torch.get_float32_matmul_precision())

    monkeypatch.setattr(benchmark, "_bench", noted)
    benchmark.bench(small_settings("local.precision=bf16"))
    assert seen == [TORCH_NAMES["bf16"]]
