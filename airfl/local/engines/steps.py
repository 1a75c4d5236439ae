"""One step of all devices of a chunk as a function of tensors alone, by hand-batched layers, for torch.compile."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from airfl.local.layers import LayeredModel, Node, logit_slopes, parametric
from airfl.local.sgd import Parameters, Step, moved, normalise


def build_layered_step(layered: LayeredModel, mean: tuple[float, ...], std: tuple[float, ...]) -> Step:
    """As `airfl.local.sgd.build_step`, with no autograd."""

    def step(
        parameters: Parameters,
        velocities: Parameters,
        inputs: Tensor,
        targets: Tensor,
        present: Tensor,
        learning_rate: Tensor,
        momentum: Tensor,
    ) -> None:
        gradients: dict[int, Tensor] = {}

        def visit(_: int, node: Node, saved: Any, slope: Tensor) -> None:
            found = parametric(node).gradient(saved, slope, len(targets))
            gradients.update(zip(node.places, found, strict=True))

        tape = layered.forward(parameters, normalise(inputs, mean, std))
        weights = present / present.sum(dim=1, keepdim=True).clamp(min=1)
        layered.backward(parameters, tape, logit_slopes(tape.logits, targets, weights), visit)
        busy = present.sum(dim=1) > 0
        for place, (parameter, velocity) in enumerate(zip(parameters, velocities, strict=True)):
            moved(parameter, velocity, gradients[place], busy, learning_rate, momentum)

    return step
