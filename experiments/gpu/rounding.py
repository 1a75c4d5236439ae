"""What a GPU's products make of an update, imitated by the CPU: their inputs are rounded to fewer digits.

A tf32 product keeps 10 bits of the mantissa of each input, a bf16 product 7, and both sum in float32. Kernels round to
the nearest number or cut the digits off, which is twice as much and has a sign. How far an update is then off depends
on the model: normalisation, activations near 0 and the maxima of a pool amplify it. It is therefore found by training.
The products of an LSTM are not seen, as oneDNN computes all of it in one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from airfl.runtime.precision import Precision

DROPPED = 13
"""Bits of a float32 mantissa that tf32 does not have."""
Rounding = Callable[[Tensor], Tensor]


def nearest_tf32(values: Tensor) -> Tensor:
    """Return the nearest numbers of tf32."""
    half = 1 << (DROPPED - 1)
    return _without_bits(values.contiguous().view(torch.int32) + half)


def cut_to_tf32(values: Tensor) -> Tensor:
    """Return the next numbers of tf32 towards 0."""
    return _without_bits(values.contiguous().view(torch.int32))


def nearest_bf16(values: Tensor) -> Tensor:
    """Return the nearest numbers of bfloat16."""
    return values.bfloat16().float()


def _without_bits(words: Tensor) -> Tensor:
    return (words & ~((1 << DROPPED) - 1)).view(torch.float32)


ROUNDINGS: Mapping[Precision, Sequence[Rounding]] = {
    "float32": (),
    "tf32": (nearest_tf32, cut_to_tf32),
    "bf16": (nearest_bf16,),
}
"""Precision of products -> ways in which kernels round their inputs."""
SUMMANDS = {"aten::addmm": (0,), "aten::baddbmm": (0,), "aten::convolution": (2,)}
"""Products -> arguments that are added to them and not rounded."""
PRODUCTS = {*SUMMANDS, "aten::mm", "aten::bmm", "aten::convolution_backward"}


class RoundedProducts(TorchDispatchMode):
    """Rounds the float32 inputs of every product of a block.

    Attributes:
        products: Number of products so far.
    """

    def __init__(self, rounding: Rounding) -> None:
        super().__init__()
        self.products, self._rounding = 0, rounding

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Round the inputs of a product, and compute it."""
        name = operation.name().partition(".")[0]
        if name in PRODUCTS:
            self.products += 1
            kept = SUMMANDS.get(name, ())
            args = tuple(one if place in kept else self._rounded(one) for place, one in enumerate(args))
        return operation(*args, **dict(kwargs or {}))

    def _rounded(self, value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype == torch.float32 and value.dim() >= 2:
            return self._rounding(value)
        return value
