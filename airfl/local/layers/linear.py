"""Fully connected layers."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from airfl.local.layers.layer import Parts, squares_of
from airfl.local.layers.products import products


class Linear:
    """y = x W' + b of every device; inputs [devices, batch, ..., in]."""

    def __init__(self, module: nn.Module) -> None:
        self.bias = cast(nn.Linear, module).bias is not None

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Tensor]:
        """See `Layer`; the inputs are saved."""
        (given,) = inputs
        flat = given.flatten(1, -2)
        if self.bias and flat.shape[1] * parts[0][0].numel() < 1 << 22:
            found = torch.baddbmm(parts[1][:, None], flat, parts[0].transpose(1, 2))
        else:
            found = products(flat, parts[0])
            found = found.add_(parts[1][:, None]) if self.bias else found
        return found.view(*given.shape[:-1], -1), given

    def backward(self, parts: Parts, saved: Tensor, slope: Tensor) -> Parts:
        """See `Layer`."""
        return (slope.flatten(1, -2).bmm(parts[0]).view(saved.shape),)

    def gradient(self, saved: Tensor, slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        flat = slope.flatten(1, -2)
        weight = flat.transpose(1, 2).bmm(saved.flatten(1, -2))
        return (weight, flat.sum(dim=1)) if self.bias else (weight,)

    def each(self, saved: Tensor, slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        positions = slope.numel() // (slope.shape[0] * slope.shape[1] * slope.shape[-1])
        left = slope.reshape(-1, positions, slope.shape[-1])
        weight = left.transpose(1, 2).bmm(saved.reshape(-1, positions, saved.shape[-1]))
        found = (weight, left.sum(dim=1)) if self.bias else (weight,)
        return tuple(part.view(*slope.shape[:2], *part.shape[1:]) for part in found)

    def squares(self, saved: Tensor, slope: Tensor, devices: int) -> Tensor:
        """||delta||^2 (||x||^2 + 1), with no gradient written down (Goodfellow 2015, arXiv 1510.01799).

        Of samples with several positions, by their gradients.
        """
        if slope.dim() == 3:
            return slope.square().sum(dim=2) * (saved.square().sum(dim=2) + self.bias)
        return squares_of(self.each(saved, slope, devices))
