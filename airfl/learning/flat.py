"""A model as a function of one flat parameter vector of length d, in the order of `module.parameters()`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.errors import UserError

Result = TypeVar("Result")
Loss = Callable[[Tensor, Tensor], Tensor]
"""(outputs of the model [batch, ...], targets [batch, ...]) -> per-sample losses, [batch]."""


class FlatModel:
    """A module whose parameters are passed as a flat vector, or as tensors split from one.

    loss: (outputs, targets) -> [batch]; cross-entropy if None.
    """

    def __init__(self, module: nn.Module, loss: Loss | None = None) -> None:
        check_buffers(module)
        self.module, self.loss = module, loss
        self._recurrent = [part for part in module.modules() if isinstance(part, nn.RNNBase)]
        self.names = [name for name, _ in module.named_parameters()]
        self.shapes = [parameter.shape for parameter in module.parameters()]
        self.sizes = [shape.numel() for shape in self.shapes]
        self.dimension = sum(self.sizes)

    def initial(self) -> Tensor:
        """Return the module's current parameters, [d]."""
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.module.parameters()])

    def split(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Return views of a flat vector [d] in the shapes of the parameters."""
        return tuple(part.view(shape) for part, shape in zip(torch.split(vector, self.sizes), self.shapes, strict=True))

    def outputs(self, parameters: tuple[Tensor, ...], inputs: Tensor) -> Tensor:
        """Return the outputs of the module with these parameters."""
        named = dict(zip(self.names, parameters, strict=True))
        with _left_in_place(self._recurrent):
            logits: Tensor = torch.func.functional_call(self.module, named, (inputs,))
        return logits

    def with_parameters(self, parameters: tuple[Tensor, ...], work: Callable[[nn.Module], Result]) -> Result:
        """Call `work` on the module with these parameters; for many batches this is faster than `outputs`."""
        named = {f"module.{name}": part for name, part in zip(self.names, parameters, strict=True)}
        with _left_in_place(self._recurrent):
            result: Result = torch.func.functional_call(_Wrapper(self.module), named, (work,))
        return result

    def losses(self, parameters: tuple[Tensor, ...], inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each sample plus the model's penalty, [batch].

        A module's `penalty()` is part of f(x; sample), so that a sample's loss is the whole function of the paper.
        """
        outputs = self.outputs(parameters, inputs)
        if self.loss is None:
            losses = F.cross_entropy(outputs, targets, reduction="none")
        else:
            losses = per_sample(self.loss(outputs, targets), len(targets), "the loss")
        return losses + self.penalty(parameters)

    def penalty(self, parameters: tuple[Tensor, ...]) -> Tensor:
        """Return the module's penalty, a scalar added to the loss of every sample; 0 for most models."""
        function = getattr(self.module, "penalty", None)
        if function is None:
            return parameters[0].new_zeros(())
        penalty: Tensor = function(dict(zip(self.names, parameters, strict=True)))
        return penalty


@contextmanager
def _left_in_place(recurrent: Sequence[nn.RNNBase]) -> Iterator[None]:
    """Keep recurrent layers from moving the parameters that they are called with.

    On a GPU, a layer of torch that is called with other parameters than the last time moves them into memory of its
    own, by `flatten_parameters`. They would no longer be views of the flat vector that a step of SGD is to change.
    """
    for part in recurrent:
        part.__dict__["flatten_parameters"] = _do_nothing
    try:
        with warnings.catch_warnings() if recurrent else nullcontext():
            if recurrent:
                warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
            yield
    finally:
        for part in recurrent:
            part.__dict__.pop("flatten_parameters", None)


def _do_nothing() -> None:
    pass


def check_buffers(module: nn.Module) -> None:
    """Raise UserError, naming the layer, for a module with buffers."""
    for name, part in module.named_modules():
        for buffer, _ in part.named_buffers(recurse=False):
            where = f"layer {name!r} ({type(part).__name__})" if name else type(part).__name__
            raise UserError(
                f"task.model: {where} has the buffer {buffer!r}, and only parameters are sent and averaged; "
                + (
                    "use torch.nn.GroupNorm instead of batch statistics"
                    if isinstance(part, nn.modules.batchnorm._NormBase)
                    else "compute it in forward, or make it a parameter"
                )
            )


def per_sample(values: Tensor, samples: int, what: str) -> Tensor:
    """Return the values if there is one per sample; otherwise raise UserError."""
    if not isinstance(values, Tensor) or values.shape != (samples,):
        returned = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise UserError(
            f"{what} returned {returned} for {samples} samples instead of one value per sample, shape ({samples},); "
            'use reduction="none" in torch losses, and average over all other dimensions'
        )
    return values


class _Wrapper(nn.Module):
    """Wraps a module so that functional_call can replace its parameters for a whole function call."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[nn.Module], Result]) -> Result:
        """Return work(module)."""
        return work(self.module)
