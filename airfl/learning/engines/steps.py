"""One SGD step of all devices of a chunk as a function of tensors alone, for torch.compile and CUDA graphs."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from airfl.learning.flat import FlatModel
from airfl.learning.layers import LayeredModel, Node, as_layers, logit_gradients, parametric
from airfl.learning.sgd import Move, Parameters, build_move, move_by, normalise


def fastest_move(
    model: FlatModel, mean: tuple[float, ...], std: tuple[float, ...], gradient_clip_norm: float = math.inf
) -> Move:
    """Return a step by hand-batched layers if they support the model, otherwise by vmapped autograd."""
    layered = as_layers(model.module, model.loss)
    if isinstance(layered, str):
        return build_move(model, mean, std, gradient_clip_norm)
    return build_layered_move(layered, mean, std, gradient_clip_norm)


def build_layered_move(
    layered: LayeredModel, mean: tuple[float, ...], std: tuple[float, ...], gradient_clip_norm: float = math.inf
) -> Move:
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

    return move_by(gradients, gradient_clip_norm)
