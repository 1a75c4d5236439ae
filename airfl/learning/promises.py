"""Checks of user-defined models, losses and metrics, which are tried on a few samples before a run starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from airfl.errors import UserError
from airfl.learning.flat import FlatModel, Loss, per_sample

Result = TypeVar("Result")
SAMPLES = 4
RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""Tolerances for the result of a sample in different batches."""


def check_model(module: nn.Module) -> None:
    """Check that devices can train and send all parameters of a module; raises UserError otherwise."""
    named = dict(module.named_parameters())
    if not named:
        raise UserError(f"model: {type(module).__name__} has no parameters to train")
    for name, parameter in named.items():
        if isinstance(parameter, nn.UninitializedParameter):
            raise UserError(f"model: the shape of {name!r} is not known yet; pass a sample through the model first")
        if parameter.dtype != torch.float32:
            raise UserError(f"model: {name!r} must be float32, got {parameter.dtype}; call model.float()")
        if not parameter.requires_grad:
            raise UserError(
                f"model: {name!r} has requires_grad=False, but devices train and send every parameter; let it be "
                "trained, or apply the fixed part of the model to the inputs beforehand"
            )
        if not bool(parameter.isfinite().all()):
            raise UserError(f"model: {name!r} contains a value that is not finite")
    FlatModel(module)
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):  # without running statistics, which are buffers
            raise UserError(
                f"model: layer {name!r} ({type(part).__name__}) uses batch statistics, which differ between devices; "
                "use torch.nn.GroupNorm"
            )


def try_out(module: nn.Module, inputs: Tensor, targets: Tensor, loss: Loss | None, metrics: Mapping[str, Loss]) -> bool:
    """Check model, loss and metrics on a few samples, and return whether the model also accepts channels-last images.

    Raises UserError if one of them is unsuitable.
    """
    model = FlatModel(module, loss)
    parts = model.split(model.initial())

    def outputs_of(some: Tensor) -> Tensor:
        failure = f"model: {type(module).__name__} does not accept inputs {_described(some)}"
        return _computed(lambda: model.outputs(parts, some), failure)

    state = torch.get_rng_state()
    with torch.inference_mode():
        outputs, again = outputs_of(inputs), outputs_of(inputs)
        if not isinstance(outputs, Tensor) or outputs.shape[:1] != inputs.shape[:1]:
            shape = _described(outputs) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise UserError(f"model: must return a tensor with one row per sample, got {shape} for {len(inputs)}")
        _check_finite(outputs, "model: the output")
        drawn = not torch.equal(torch.get_rng_state(), state)
        if drawn or not torch.equal(outputs, again):
            why = (
                _dropout(module) if drawn else ", or changed by every call (an in-place change of parameters or inputs)"
            )
            raise UserError(
                f"model: its outputs are random{why}, so that runs would not be reproducible; remove the "
                f"randomness{', or call model.eval() to train without it' if drawn else ' or the change'}"
            )
        if loss is None:
            _check_classes(outputs, targets)
        alone = [outputs_of(one) for one in torch.split(inputs, 1)]
        if not _same(outputs, torch.cat(alone)):
            raise UserError(
                "model: its output for a sample depends on the other samples of the batch; use torch.nn.GroupNorm "
                "instead of batch statistics"
            )
        functions = {f"metric {name!r}": metric for name, metric in metrics.items()}
        for what, function in {**functions, **({} if loss is None else {"loss": loss})}.items():
            _try_function(what, function, outputs, targets, state)
        _try_penalty(model, parts)
    _computed(lambda: _gradients(model, inputs, targets), "loss: its gradient cannot be computed")
    return inputs.dim() != 4 or _takes_channels_last(model, inputs, targets)


def takes(module: nn.Module, inputs: Tensor) -> None:
    """Check that a module accepts such inputs; raises UserError otherwise."""
    failure = f"model: {type(module).__name__} does not accept inputs {_described(inputs)}"
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        _computed(lambda: module(inputs), failure)


def _try_function(what: str, function: Loss, outputs: Tensor, targets: Tensor, state: Tensor) -> None:
    """Check that a loss or metric is deterministic, finite and per-sample."""
    failure = f"{what}: does not accept outputs {_described(outputs)} with targets {_described(targets)}"
    values = per_sample(_computed(lambda: function(outputs, targets), failure), len(targets), what)
    again = _computed(lambda: function(outputs, targets), failure)
    if not (values.is_floating_point() or values.dtype in (torch.bool, torch.int64, torch.int32)):
        raise UserError(f"{what}: must return real numbers, got {values.dtype}")
    _check_finite(values, f"{what}: the value")  # first, as nan does not equal itself
    drawn = not torch.equal(torch.get_rng_state(), state)
    if drawn or not torch.equal(values, again):
        why = "" if drawn else ", or changed by every call (an in-place change of outputs or targets)"
        raise UserError(f"{what}: its values are random{why}, so that runs would not be reproducible")
    singles = zip(torch.split(outputs, 1), torch.split(targets, 1), strict=True)
    alone = [per_sample(_computed(partial(function, *pair), failure), 1, what) for pair in singles]
    if not _same(values.double(), torch.cat(alone).double()):
        raise UserError(f"{what}: its value for a sample depends on the other samples of the batch")


def _try_penalty(model: FlatModel, parameters: tuple[Tensor, ...]) -> None:
    """Check that a penalty is a deterministic, finite scalar, and a function of its argument alone."""
    function = getattr(model.module, "penalty", None)
    if function is None:
        return
    if not callable(function):
        raise UserError(
            f"penalty: must be a method penalty(parameters), got {type(function).__name__}; rename the attribute"
        )
    failure = "penalty: does not accept a dict of name -> tensor"
    value, again = (_computed(lambda: model.penalty(parameters), failure) for _ in range(2))
    if not isinstance(value, Tensor) or value.shape != () or not value.is_floating_point():
        returned = _described(value) if isinstance(value, Tensor) else type(value).__name__
        raise UserError(f"penalty: must return a scalar tensor, got {returned}")
    if not bool(value.isfinite()):
        raise UserError(
            f"penalty: its value is {'nan' if bool(value.isnan()) else 'not finite'} at the initial parameters"
        )
    if not torch.equal(value, again):
        raise UserError("penalty: its value is random, so that runs would not be reproducible")
    named = dict(zip(model.names, parameters, strict=True))
    depends = float(value) == 0  # a factor may be 0
    # Far away too, as a penalty may be constant near the initial parameters.
    for elsewhere in (torch.zeros_like, lambda one: one + 1, lambda one: 1e3 * (one + 1)):
        moved = tuple(elsewhere(one) for one in parameters)
        depends |= _number(lambda: model.penalty(moved)) != float(value)  # noqa: B023  called at once
        if _number(lambda: model.with_parameters(moved, lambda _: function(named))) != float(value):  # noqa: B023
            depends = False
            break
    if not depends:
        raise UserError(
            "penalty: must use its argument, a dict of name -> tensor, instead of self.parameters(), which are not "
            "those that a device trains"
        )


def _number(work: Callable[[], Tensor]) -> float:
    """Return work() as a number, nan if it raises an exception."""
    try:
        return float(work())
    except Exception:  # user code may raise anything
        return math.nan


def _gradients(model: FlatModel, inputs: Tensor, targets: Tensor) -> None:
    """Check that gradients of the loss exist and are finite."""
    leaves = tuple(part.detach().clone().requires_grad_() for part in model.split(model.initial()))
    gradients = torch.autograd.grad(model.losses(leaves, inputs, targets).sum(), leaves, allow_unused=True)
    if all(one is None for one in gradients):
        raise UserError("loss: does not depend on the model's parameters")
    for name, gradient in zip(model.names, gradients, strict=True):
        if gradient is not None and not bool(gradient.isfinite().all()):
            raise UserError(f"loss: its gradient with respect to {name!r} is not finite at the initial parameters")


def _takes_channels_last(model: FlatModel, inputs: Tensor, targets: Tensor) -> bool:
    """Whether the model accepts images in channels-last memory format, on which `view` may fail."""
    try:
        _gradients(model, inputs.contiguous(memory_format=torch.channels_last), targets)
    except (RuntimeError, UserError):
        return False
    return True


def _check_classes(outputs: Tensor, targets: Tensor) -> None:
    if targets.dim() != 1 or targets.dtype != torch.int64:
        raise UserError(f"loss: cross-entropy needs class indices, got targets {_described(targets)}; set loss=")
    if outputs.dim() != 2:
        raise UserError(
            f"loss: cross-entropy needs logits of shape (batch, classes), got outputs {_described(outputs)}; set loss="
        )
    check_targets(targets, outputs.shape[1], "train")


def check_targets(targets: Tensor, classes: int, where: str) -> None:
    """Check that all targets are classes that the model has logits for; raises UserError otherwise."""
    wrong = torch.nonzero((targets < 0) | (targets >= classes))
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{where}: sample {row} is of class {int(targets[row])}, but the model has logits for the classes 0 to "
            f"{classes - 1}"
        )


def _computed(work: Callable[[], Result], failure: str) -> Result:
    """Return work(), and turn its exceptions into a UserError that starts with `failure`."""
    try:
        return work()
    except UserError:
        raise
    except Exception as error:  # user code may raise anything
        lines = str(error).strip().splitlines()
        raise UserError(f"{failure} ({type(error).__name__}: {lines[0][:200] if lines else ''})") from error


def _same(one: Tensor, other: Tensor) -> bool:
    scale = float(one.abs().max()) if one.numel() else 0.0
    return one.shape == other.shape and torch.allclose(one, other, rtol=RELATIVE, atol=ABSOLUTE * max(scale, 1e-30))


def _check_finite(values: Tensor, what: str) -> None:
    wrong = torch.nonzero(~values.isfinite().reshape(len(values), -1).all(dim=1))
    if len(wrong):
        row = int(wrong[0])
        found = "nan" if bool(values[row].isnan().any()) else "not finite"
        raise UserError(f"{what} of sample {row} is {found} at the initial parameters")


def _dropout(module: nn.Module) -> str:
    """Return the names of torch's dropout layers in the module, for a message."""
    kinds = dict.fromkeys(type(one).__name__ for one in module.modules() if "Dropout" in type(one).__name__)
    return f" ({', '.join(kinds)})" if kinds else ""


def _described(values: Tensor) -> str:
    return f"{str(values.dtype).removeprefix('torch.')} of shape {tuple(values.shape)}"
