"""Matrix products for many devices."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

# From this many multiplications on, a single device's product is worth a call of its own.
LARGE = 1 << 22


@functools.cache
def _onednn() -> bool:
    """Whether torch has oneDNN's linear layer, which is over twice as fast as the default on some CPUs."""
    try:
        two = torch.ones(2, 2)
        return bool(torch.equal(torch.ops.mkldnn._linear_pointwise(two, two, None, "none", [], ""), two + two.T))
    except (AttributeError, RuntimeError):
        return False


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return left [n, k] times the transpose of right [m, k], [n, m]."""
    if left.device.type == "cpu" and len(left) * right.numel() >= LARGE and _usable(left) and _usable(right):
        result: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
        return result
    return F.linear(left, right)


def products(left: Tensor, right: Tensor) -> Tensor:
    """Return left [devices, n, k] times the transposes of right [devices, m, k], [devices, n, m]."""
    large = left.shape[1] * right[0].numel() >= LARGE if len(right) else False
    if left.device.type == "cpu" and large and _usable(left[0]) and _usable(right[0]):
        results = left.new_empty(len(left), left.shape[1], right.shape[1])
        for result, one, other in zip(results, left, right, strict=True):
            result.copy_(product(one, other))
        return results
    return left.bmm(right.transpose(1, 2))


def _usable(matrix: Tensor) -> bool:
    return matrix.dtype == torch.float32 and matrix.is_contiguous() and not torch.compiler.is_compiling() and _onednn()
