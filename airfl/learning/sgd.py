"""One step of local SGD with momentum, for all devices of a chunk at once (PFELS algorithm 2, lines 6 to 9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from airfl.learning.flat import FlatModel
from airfl.uplinks.stages.clip import clip_factor

Parameters = tuple[Tensor, ...]
Gradients = Callable[[Parameters, Tensor, Tensor, Tensor], Parameters]
Move = Callable[[Parameters, Parameters, Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Parameters, Parameters]]
Step = Callable[[Parameters, Parameters, Tensor, Tensor, Tensor, Tensor, Tensor], None]


def normalise(inputs: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Scale bytes [..., channels, height, width] to floats of zero mean and unit deviation in each channel.

    Without a mean (features, text) the inputs are returned unchanged.
    """
    if not mean:
        return inputs
    scaled = inputs.float() / 255
    if len(mean) == 1:
        return (scaled - mean[0]) / std[0]
    return (scaled - _per_channel(scaled, mean)) / _per_channel(scaled, std)


def _per_channel(like: Tensor, numbers: tuple[float, ...]) -> Tensor:
    """Return a number for each channel, [channels, 1, 1]. The device fills them in: for a copy, a GPU would be waited
    for in every step."""
    return torch.cat([like.new_full((1, 1, 1), number) for number in numbers])


def build_move(
    model: FlatModel, mean: tuple[float, ...], std: tuple[float, ...], gradient_clip_norm: float = math.inf
) -> Move:
    """Return a step that takes its gradients from vmapped autograd; see `move_by`."""

    def loss(parameters: Parameters, inputs: Tensor, targets: Tensor, present: Tensor) -> Tensor:
        losses = model.losses(parameters, normalise(inputs, mean, std), targets)
        return (losses * present).sum() / present.sum().clamp(min=1)

    return move_by(torch.func.vmap(torch.func.grad(loss)), gradient_clip_norm)


def clipped(gradients: Sequence[Tensor], limit: float) -> Parameters:
    """Clip each device's gradient to this l2 norm, one tensor [chunk, *shape] per parameter."""
    if not gradients:
        return ()
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
    factors = clip_factor(norms, limit)
    return tuple(gradient * factors.view(-1, *[1] * (gradient.dim() - 1)) for gradient in gradients)


def move_by(gradients: Gradients, gradient_clip_norm: float = math.inf) -> Move:
    """Return move(parameters, velocities, inputs, targets, present, learning_rate, momentum) -> the first two after a
    step of SGD.

    parameters, velocities: one tensor [chunk, *shape] per parameter; inputs: [chunk, batch, *shape], uint8; targets:
    [chunk, batch]; present: [chunk, batch], 1 for a sample and 0 for padding; learning_rate, momentum: zero-dimensional
    tensors, so that new values do not trigger a recompilation. Devices without samples are left unchanged.
    gradients(parameters, inputs, targets, present): gradients of the mean loss over the samples present;
    gradient_clip_norm: limit of the l2 norm of each device's gradient, inf for none.
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
        active = present.sum(dim=1) > 0
        new_parameters, new_velocities = [], []
        found = gradients(parameters, inputs, targets, present)
        if math.isfinite(gradient_clip_norm):
            found = clipped(found, gradient_clip_norm)
        for parameter, velocity, gradient in zip(parameters, velocities, found, strict=True):
            moves = active.view(-1, *[1] * (parameter.dim() - 1))
            new_velocities.append(torch.where(moves, momentum * velocity + gradient, velocity))
            new_parameters.append(torch.where(moves, parameter - learning_rate * new_velocities[-1], parameter))
        return tuple(new_parameters), tuple(new_velocities)

    return move


def in_place(move: Move) -> Step:
    """Return the step with its results written into its first two arguments."""

    def step(parameters: Parameters, velocities: Parameters, *others: Tensor) -> None:
        for old, new in zip((parameters, velocities), move(parameters, velocities, *others), strict=True):
            for into, part in zip(old, new, strict=True):
                into.copy_(part)

    return step
