"""One SGD step of all devices of a chunk, by hand-batched layers, as a function of tensors alone for torch.compile."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from airfl.learning.layers import LayeredModel, Node, logit_gradients, parametric
from airfl.learning.sgd import Move, Parameters, move_by, normalise


def build_layered_move(layered: LayeredModel, mean: tuple[float, ...], std: tuple[float, ...]) -> Move:
    """Return a step that takes its gradients from hand-batched layers; see `airfl.learning.sgd.move_by`."""

    def gradients(parameters: Parameters, inputs: Tensor, targets: Tensor, present: Tensor) -> Parameters:
        by_index: dict[int, Tensor] = {}

        def visit(_: int, node: Node, saved: Any, grad_output: Tensor) -> None:
            of_node = parametric(node).gradient(saved, grad_output, len(targets))
            by_index.update(zip(node.parameter_indices, of_node, strict=True))

        tape = layered.forward(parameters, normalise(inputs, mean, std))
        weights = present / present.sum(dim=1, keepdim=True).clamp(min=1)
        layered.backward(parameters, tape, logit_gradients(tape.logits, targets, weights), visit)
        return tuple(by_index[index] for index in range(len(parameters)))

    return move_by(gradients)
