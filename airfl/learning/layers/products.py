"""Matrix products for many devices."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

from airfl.runtime.precision import current_precision

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
    if rounds_to_bf16(left):
        return batched_product(left[None], right.t()[None])[0]
    return F.linear(left, right)


def products(left: Tensor, right: Tensor) -> Tensor:
    """Return left [devices, n, k] times the transposes of right [devices, m, k], [devices, n, m]."""
    large = left.shape[1] * right[0].numel() >= LARGE if len(right) else False
    if left.device.type == "cpu" and large and _usable(left[0]) and _usable(right[0]):
        results = left.new_empty(len(left), left.shape[1], right.shape[1])
        for result, one, other in zip(results, left, right, strict=True):
            result.copy_(product(one, other))
        return results
    return batched_product(left, right.transpose(1, 2))


def batched_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """Return left [devices, n, k] times right [devices, k, m], [devices, n, m], in the run's precision.

    torch computes "medium" products of float32 tensors on a GPU with tf32 inputs, so that bf16 is asked for here.
    out: the result, whose last dimension is contiguous; None for a new tensor.
    """
    if rounds_to_bf16(left):
        return _bf16_product(left, right, out)
    return torch.bmm(left, right) if out is None else torch.bmm(left, right, out=out)


def rounds_to_bf16(factor: Tensor) -> bool:
    """Whether products with this factor round it to bfloat16 by themselves: on a GPU where the precision is bf16."""
    of_gpu = factor.is_cuda and factor.dtype in (torch.float32, torch.bfloat16)
    return of_gpu and current_precision() == "bf16" and not torch.compiler.is_compiling()


def rounded(factor: Tensor) -> Tensor:
    """Return a factor as products would round it. Rounding before a copy halves the bytes that are copied."""
    return factor.bfloat16() if rounds_to_bf16(factor) else factor


def _bf16_product(left: Tensor, right: Tensor, out: Tensor | None) -> Tensor:
    """Return the products of factors rounded to bfloat16, summed in float32."""
    left, right = left.bfloat16(), right.bfloat16()
    if out is None:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left, right, out_dtype=torch.float32, out=out)


def _usable(matrix: Tensor) -> bool:
    return matrix.dtype == torch.float32 and matrix.is_contiguous() and not torch.compiler.is_compiling() and _onednn()
