"""One step of all devices of a chunk as a function of tensors alone, by hand-batched layers, for torch.compile."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from airfl.local.layers import LayeredModel, Node, logit_slopes, parametric
from airfl.local.sgd import Move, Parameters, move_by, normalise


def build_layered_move(layered: LayeredModel, mean: tuple[float, ...], std: tuple[float, ...]) -> Move:
    """A step whose gradients are by hand-batched layers; see `airfl.local.sgd.move_by`."""

    def gradients(parameters: Parameters, inputs: Tensor, targets: Tensor, present: Tensor) -> Parameters:
        found: dict[int, Tensor] = {}

        def visit(_: int, node: Node, saved: Any, slope: Tensor) -> None:
            found.update(zip(node.places, parametric(node).gradient(saved, slope, len(targets)), strict=True))

        tape = layered.forward(parameters, normalise(inputs, mean, std))
        weights = present / present.sum(dim=1, keepdim=True).clamp(min=1)
        layered.backward(parameters, tape, logit_slopes(tape.logits, targets, weights), visit)
        return tuple(found[place] for place in range(len(parameters)))

    return move_by(gradients)
