"""A model seen as one flat parameter vector of length d, in the order of `module.parameters()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.errors import UserError

Found = TypeVar("Found")
Loss = Callable[[Tensor, Tensor], Tensor]
"""(outputs of the model [batch, ...], targets [batch, ...]) -> a number for each sample, [batch]."""


class FlatModel:
    """Names, shapes and places of a module's parameters in the flat vector.

    loss: (outputs, targets) -> [batch]; cross-entropy if None.
    """

    def __init__(self, module: nn.Module, loss: Loss | None = None) -> None:
        check_buffers(module)
        self.module, self.loss = module, loss
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
        """Loss of each sample, [batch], and the model's own penalty of its parameters where it has one.

        A module's `penalty()` is part of f(x; sample), so that the loss of a sample is the paper's whole function.
        """
        outputs = self.outputs(parameters, inputs)
        if self.loss is None:
            losses = F.cross_entropy(outputs, targets, reduction="none")
        else:
            losses = each(self.loss(outputs, targets), len(targets), "the loss")
        return losses + self.penalty(parameters)

    def penalty(self, parameters: tuple[Tensor, ...]) -> Tensor:
        """What the module adds to the loss of every sample, a number; 0 for most models."""
        own = getattr(self.module, "penalty", None)
        if own is None:
            return parameters[0].new_zeros(())
        found: Tensor = own(dict(zip(self.names, parameters, strict=True)))
        return found


def check_buffers(module: nn.Module) -> None:
    """UserError, with the layer, for a module that keeps anything but parameters."""
    for name, part in module.named_modules():
        for buffer, _ in part.named_buffers(recurse=False):
            where = f"layer {name!r} ({type(part).__name__})" if name else type(part).__name__
            raise UserError(
                f"task.model: {where} keeps the buffer {buffer!r}, which no device sends and nobody averages; "
                + (
                    "use torch.nn.GroupNorm in the place of batch statistics"
                    if isinstance(part, nn.modules.batchnorm._NormBase)
                    else "compute it in forward, or make it a parameter"
                )
            )


def each(values: Tensor, samples: int, what: str) -> Tensor:
    """The values if there is one for each sample, else a UserError."""
    if not isinstance(values, Tensor) or values.shape != (samples,):
        given = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise UserError(
            f"{what} gives {given} for {samples} samples, and one value for each is wanted, shape ({samples},): take "
            'reduction="none" of a loss of torch\'s, and the mean over every other dimension'
        )
    return values


class _Working(nn.Module):
    """What is done with a module, in the form that has its parameters replaced."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[nn.Module], Found]) -> Found:
        """What `work` gives."""
        return work(self.module)
