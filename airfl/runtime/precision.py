"""The precision of matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["float32", "tf32", "bf16"]
TORCH_NAMES: dict[Precision, str] = {"float32": "highest", "tf32": "high", "bf16": "medium"}
_chosen: list[Precision] = ["float32"]
"""The innermost of `precision`. torch's own setting cannot be read within a compiled function."""


def current_precision() -> Precision:
    """Return the precision of the innermost `precision`, float32 outside of it."""
    return _chosen[-1]


@contextmanager
def precision(name: Precision) -> Iterator[None]:
    """Compute matrix products and convolutions inside with inputs of this precision, where the hardware supports it,
    and accumulate in float32. float32 also disables tf32 where torch uses it by default (convolutions on a GPU).
    torch's settings are restored at the end. Like those, the precision holds for all threads of the process."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision(TORCH_NAMES[name])
    torch.backends.cudnn.allow_tf32 = name != "float32"
    _chosen.append(name)
    try:
        yield
    finally:
        _chosen.pop()
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
