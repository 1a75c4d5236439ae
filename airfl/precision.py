"""How exactly matrices are multiplied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

Precision = Literal["float32", "tf32", "bf16"]
TORCH_NAMES: dict[Precision, str] = {"float32": "highest", "tf32": "high", "bf16": "medium"}


@contextmanager
def precision(name: Precision) -> Iterator[None]:
    """Products and convolutions inside take factors of that precision, where the machine knows it, and add up in
    float32; float32 is what it says, also where torch would take tf32 by itself (convolutions on a GPU). torch's own
    settings are put back."""
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision(TORCH_NAMES[name])
    torch.backends.cudnn.allow_tf32 = name != "float32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
