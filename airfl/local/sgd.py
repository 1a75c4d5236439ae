"""One step of local SGD with momentum, for all devices of a chunk at once (PFELS algorithm 2, lines 6 to 9)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from airfl.local.flat import FlatModel

Parameters = tuple[Tensor, ...]
Gradients = Callable[[Parameters, Tensor, Tensor, Tensor], Parameters]
Move = Callable[[Parameters, Parameters, Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Parameters, Parameters]]
Step = Callable[[Parameters, Parameters, Tensor, Tensor, Tensor, Tensor, Tensor], None]


def normalise(inputs: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Raw bytes [..., channels, height, width] to floats of zero mean and unit deviation in each channel.

    Without a mean (features, text) inputs are what the model takes, and stay as they are.
    """
    if not mean:
        return inputs
    scaled = inputs.float() / 255
    if len(mean) == 1:
        return (scaled - mean[0]) / std[0]
    return (scaled - scaled.new_tensor(mean).view(-1, 1, 1)) / scaled.new_tensor(std).view(-1, 1, 1)


def build_move(model: FlatModel, mean: tuple[float, ...], std: tuple[float, ...]) -> Move:
    """A step whose gradients are by vmapped autograd; see `move_by`."""

    def loss(parameters: Parameters, inputs: Tensor, targets: Tensor, present: Tensor) -> Tensor:
        losses = model.losses(parameters, normalise(inputs, mean, std), targets)
        return (losses * present).sum() / present.sum().clamp(min=1)

    return move_by(torch.func.vmap(torch.func.grad(loss)))


def move_by(gradients: Gradients) -> Move:
    """move(parameters, velocities, inputs, targets, present, learning_rate, momentum): both after a step.

    parameters, velocities: one tensor [chunk, *shape] a parameter; inputs [chunk, batch, *shape] uint8, targets
    [chunk, batch]; present [chunk, batch] is 1 for a sample and 0 for padding; rates are tensors without dimensions (a
    changed number must not compile anew). gradients(parameters, inputs, targets, present): of the mean loss over the
    samples present; a device without any is left as it is.
    """

    def move(
        parameters: Parameters,
        velocities: Parameters,
        inputs: Tensor,
        targets: Tensor,
        present: Tensor,
        learning_rate: Tensor,
        momentum: Tensor,
    ) -> tuple[Parameters, Parameters]:
        slopes = gradients(parameters, inputs, targets, present)
        busy = present.sum(dim=1) > 0
        moved, pushed = [], []
        for parameter, velocity, slope in zip(parameters, velocities, slopes, strict=True):
            moves = busy.view(-1, *[1] * (parameter.dim() - 1))
            pushed.append(torch.where(moves, momentum * velocity + slope, velocity))
            moved.append(torch.where(moves, parameter - learning_rate * pushed[-1], parameter))
        return tuple(moved), tuple(pushed)

    return move


def in_place(move: Move) -> Step:
    """The same, written over the first two."""

    def step(parameters: Parameters, velocities: Parameters, *others: Tensor) -> None:
        for old, new in zip((parameters, velocities), move(parameters, velocities, *others), strict=True):
            for into, part in zip(old, new, strict=True):
                into.copy_(part)

    return step
