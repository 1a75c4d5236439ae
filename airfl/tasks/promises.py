"""Whether a user's model, loss and metrics are what a run needs: tried out on a few samples before it begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from airfl.errors import UserError
from airfl.local.flat import FlatModel, Loss, each

Found = TypeVar("Found")
SAMPLES = 4
RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""By which what is computed of a sample may differ from one batch to another."""


def check_model(module: nn.Module) -> None:
    """UserError for a module whose parameters a run could not train and send."""
    named = dict(module.named_parameters())
    if not named:
        raise UserError(f"model: {type(module).__name__} has no parameters, and nothing would be learned")
    for name, parameter in named.items():
        if isinstance(parameter, nn.UninitializedParameter):
            raise UserError(f"model: the shape of {name!r} is not known yet; pass a sample through the model first")
        if parameter.dtype != torch.float32:
            raise UserError(f"model: {name!r} is {parameter.dtype}, and float32 is computed in; call model.float()")
        if not parameter.requires_grad:
            raise UserError(
                f"model: {name!r} has requires_grad=False, and devices train and send every parameter; make what is "
                "fixed a part of the inputs, or let it be trained"
            )
        if not bool(parameter.isfinite().all()):
            raise UserError(f"model: {name!r} holds a number that is not finite")
    FlatModel(module)
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):  # without running statistics, which are buffers
            raise UserError(
                f"model: layer {name!r} ({type(part).__name__}) takes the statistics of a batch, which differ between "
                "devices; use torch.nn.GroupNorm"
            )


def try_out(module: nn.Module, inputs: Tensor, targets: Tensor, loss: Loss | None, metrics: Mapping[str, Loss]) -> bool:
    """Whether the module also takes pictures pixel by pixel in memory; inputs, targets: of a few samples. UserError, in
    one line, for a part that does not do what it has to."""
    model = FlatModel(module, loss)
    parts = model.split(model.initial())

    def outputs_of(some: Tensor) -> Tensor:
        failing = f"model: {type(module).__name__} does not take inputs {_described(some)}"
        return _computed(lambda: model.outputs(parts, some), failing)

    state = torch.get_rng_state()
    with torch.inference_mode():
        outputs, again = outputs_of(inputs), outputs_of(inputs)
        if not isinstance(outputs, Tensor) or outputs.shape[:1] != inputs.shape[:1]:
            shape = _described(outputs) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise UserError(
                f"model: it gives {shape} for {len(inputs)} samples, and a tensor with one row for each is wanted"
            )
        if not (torch.equal(torch.get_rng_state(), state) and torch.equal(outputs, again)):
            raise UserError(
                f"model: its outputs are random{_dropout(module)}, and a run would not be the same again; leave that "
                "out, or call model.eval() to train without it"
            )
        _check_finite(outputs, "model: the output")
        if loss is None:
            _check_classes(outputs, targets)
        alone = [outputs_of(one) for one in torch.split(inputs, 1)]
        if not _same(outputs, torch.cat(alone)):
            raise UserError(
                "model: what it gives for a sample depends on the others of its batch, and devices with other batches "
                "would have other models; use torch.nn.GroupNorm in the place of batch statistics"
            )
        functions = {f"metric {name!r}": metric for name, metric in metrics.items()}
        for what, function in {**functions, **({} if loss is None else {"loss": loss})}.items():
            _try_function(what, function, outputs, targets, state)
    _computed(lambda: _gradients(model, inputs, targets), "loss: its gradient cannot be computed")
    return inputs.dim() != 4 or _takes_pixels(model, inputs, targets)


def takes(module: nn.Module, inputs: Tensor) -> None:
    """UserError, in one line, for a module that does not take such inputs."""
    failing = f"model: {type(module).__name__} does not take inputs {_described(inputs)}"
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        _computed(lambda: module(inputs), failing)


def _try_function(what: str, function: Loss, outputs: Tensor, targets: Tensor, state: Tensor) -> None:
    failing = f"{what}: it does not take outputs {_described(outputs)} with targets {_described(targets)}"
    values = each(_computed(lambda: function(outputs, targets), failing), len(targets), what)
    again = _computed(lambda: function(outputs, targets), failing)
    if not (torch.equal(torch.get_rng_state(), state) and torch.equal(values, again)):
        raise UserError(f"{what}: it gives another value each time, and a run would not be the same again")
    if not (values.is_floating_point() or values.dtype in (torch.bool, torch.int64, torch.int32)):
        raise UserError(f"{what}: it gives {values.dtype}, and real numbers are wanted")
    _check_finite(values, f"{what}: the value")
    singles = zip(torch.split(outputs, 1), torch.split(targets, 1), strict=True)
    alone = [each(_computed(partial(function, *pair), failing), 1, what) for pair in singles]
    if not _same(values.double(), torch.cat(alone).double()):
        raise UserError(
            f"{what}: its value of a sample depends on the others of the batch; each sample's own is wanted"
        )


def _gradients(model: FlatModel, inputs: Tensor, targets: Tensor) -> None:
    leaves = tuple(part.detach().clone().requires_grad_() for part in model.split(model.initial()))
    found = torch.autograd.grad(model.losses(leaves, inputs, targets).sum(), leaves, allow_unused=True)
    if all(one is None for one in found):
        raise UserError("loss: it does not depend on the model's parameters, and nothing would be learned")
    for name, gradient in zip(model.names, found, strict=True):
        if gradient is not None and not bool(gradient.isfinite().all()):
            raise UserError(f"loss: its gradient by {name!r} is not finite at the initial parameters")


def _takes_pixels(model: FlatModel, inputs: Tensor, targets: Tensor) -> bool:
    """Whether the model computes the same of images that lie in memory pixel by pixel: `view` may not."""
    try:
        _gradients(model, inputs.contiguous(memory_format=torch.channels_last), targets)
    except (RuntimeError, UserError):
        return False
    return True


def _check_classes(outputs: Tensor, targets: Tensor) -> None:
    if targets.dim() != 1 or targets.dtype != torch.int64:
        raise UserError(f"loss: cross-entropy takes class numbers, and targets are {_described(targets)}; give loss=")
    if outputs.dim() != 2:
        raise UserError(
            f"loss: cross-entropy takes a score of each class for each sample, and the model gives outputs "
            f"{_described(outputs)}; give loss="
        )
    check_targets(targets, outputs.shape[1], "train")


def check_targets(targets: Tensor, classes: int, where: str) -> None:
    """UserError for class numbers of which the model has no score."""
    wrong = torch.nonzero((targets < 0) | (targets >= classes))
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{where}: sample {row} is of class {int(targets[row])}, and the model gives scores of the classes 0 to "
            f"{classes - 1}"
        )


def _computed(work: Callable[[], Found], failing: str) -> Found:
    try:
        return work()
    except UserError:
        raise
    except Exception as error:  # code of the user's own
        lines = str(error).strip().splitlines()
        raise UserError(f"{failing} ({type(error).__name__}: {lines[0][:200] if lines else ''})") from error


def _same(one: Tensor, other: Tensor) -> bool:
    scale = float(one.abs().max()) if one.numel() else 0.0
    return one.shape == other.shape and torch.allclose(one, other, rtol=RELATIVE, atol=ABSOLUTE * max(scale, 1e-30))


def _check_finite(values: Tensor, what: str) -> None:
    wrong = torch.nonzero(~values.isfinite().reshape(len(values), -1).all(dim=1))
    if len(wrong):
        raise UserError(f"{what} of sample {int(wrong[0])} is not finite at the initial parameters")


def _dropout(module: nn.Module) -> str:
    """Which layers are to blame, where torch's are."""
    kinds = dict.fromkeys(type(one).__name__ for one in module.modules() if "Dropout" in type(one).__name__)
    return f" ({', '.join(kinds)})" if kinds else ""


def _described(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"
