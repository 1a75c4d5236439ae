"""Fully connected layers."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from airfl.learning.layers.layer import Tensors, squares_of
from airfl.learning.layers.products import batched_product, products, rounds_to_bf16


class Linear:
    """y = x W' + b of every device; inputs [devices, batch, ..., in]."""

    def __init__(self, module: nn.Module) -> None:
        self.bias = cast(nn.Linear, module).bias is not None

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Tensor]:
        """Return x W' + b; the inputs are saved."""
        (values,) = inputs
        flat = values.flatten(1, -2)
        small = flat.shape[1] * parameters[0][0].numel() < 1 << 22
        if self.bias and small and not rounds_to_bf16(flat):
            outputs = torch.baddbmm(parameters[1][:, None], flat, parameters[0].transpose(1, 2))
        else:
            outputs = products(flat, parameters[0])
            outputs = outputs.add_(parameters[1][:, None]) if self.bias else outputs
        return outputs.view(*values.shape[:-1], -1), values

    def backward(self, parameters: Tensors, saved: Tensor, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        return (batched_product(grad_output.flatten(1, -2), parameters[0]).view(saved.shape),)

    def gradient(self, saved: Tensor, grad_output: Tensor, devices: int) -> Tensors:
        """Return the gradients of the parameters."""
        flat = grad_output.flatten(1, -2)
        weight = batched_product(flat.transpose(1, 2), saved.flatten(1, -2))
        return (weight, flat.sum(dim=1)) if self.bias else (weight,)

    def each(self, saved: Tensor, grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients of the parameters."""
        positions = grad_output.numel() // (grad_output.shape[0] * grad_output.shape[1] * grad_output.shape[-1])
        left = grad_output.reshape(-1, positions, grad_output.shape[-1])
        weight = batched_product(left.transpose(1, 2), saved.reshape(-1, positions, saved.shape[-1]))
        gradients = (weight, left.sum(dim=1)) if self.bias else (weight,)
        return tuple(part.view(*grad_output.shape[:2], *part.shape[1:]) for part in gradients)

    def squares(self, saved: Tensor, grad_output: Tensor, devices: int) -> Tensor:
        """Return ||delta||^2 (||x||^2 + 1), without materialising gradients (Goodfellow 2015, arXiv 1510.01799).

        For samples with several positions the norms are taken of the per-sample gradients.
        """
        if grad_output.dim() == 3:
            return grad_output.square().sum(dim=2) * (saved.square().sum(dim=2) + self.bias)
        return squares_of(self.each(saved, grad_output, devices))
