"""A model seen as one flat parameter vector of length d, in the order of `module.parameters()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.errors import UserError

Found = TypeVar("Found")


class FlatModel:
    """Names, shapes and places of a module's parameters in the flat vector."""

    def __init__(self, module: nn.Module) -> None:
        if any(True for _ in module.buffers()):
            raise UserError("task.model: models with buffers (batch norm) have no meaning here; use group norm")
        self.module = module
        self.names = [name for name, _ in module.named_parameters()]
        self.shapes = [parameter.shape for parameter in module.parameters()]
        self.sizes = [shape.numel() for shape in self.shapes]
        self.dimension = sum(self.sizes)

    def initial(self) -> Tensor:
        """The module's present parameters, [d]."""
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.module.parameters()])

    def split(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Views of a flat vector [d] in the parameters' shapes."""
        return tuple(part.view(shape) for part, shape in zip(torch.split(vector, self.sizes), self.shapes, strict=True))

    def outputs(self, parameters: tuple[Tensor, ...], inputs: Tensor) -> Tensor:
        """Logits of the module under other parameters."""
        named = dict(zip(self.names, parameters, strict=True))
        logits: Tensor = torch.func.functional_call(self.module, named, (inputs,))
        return logits

    def holding(self, parameters: tuple[Tensor, ...], work: Callable[[nn.Module], Found]) -> Found:
        """What `work` makes of the module under other parameters: quicker than `outputs` for many batches."""
        named = {f"module.{name}": part for name, part in zip(self.names, parameters, strict=True)}
        found: Found = torch.func.functional_call(_Working(self.module), named, (work,))
        return found

    def losses(self, parameters: tuple[Tensor, ...], inputs: Tensor, targets: Tensor) -> Tensor:
        """Loss of each sample, [batch]: cross-entropy, and the model's own penalty of its parameters where it has one.

        A module's `penalty()` is part of f(x; sample), so that the loss of a sample is the paper's whole function.
        """
        losses = F.cross_entropy(self.outputs(parameters, inputs), targets, reduction="none")
        return losses + self.penalty(parameters)

    def penalty(self, parameters: tuple[Tensor, ...]) -> Tensor:
        """What the module adds to the loss of every sample, a number; 0 for most models."""
        own = getattr(self.module, "penalty", None)
        if own is None:
            return parameters[0].new_zeros(())
        found: Tensor = own(dict(zip(self.names, parameters, strict=True)))
        return found


class _Working(nn.Module):
    """What is done with a module, in the form that has its parameters replaced."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[nn.Module], Found]) -> Found:
        """What `work` gives."""
        return work(self.module)
