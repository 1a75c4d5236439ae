"""Local SGD by hand-batched layers: all devices of a chunk in one computation, without autograd."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from airfl.learning.engines.engine import Work
from airfl.learning.engines.factored import Factored, worth_factoring
from airfl.learning.flat import FlatModel
from airfl.learning.layers import LayeredModel, Node, logit_gradients, parametric
from airfl.learning.sgd import clipped
from channels.transfer import on_device


class LayersEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum, for models whose layers are all in the table of layers.

    Devices are sorted by their number of steps, largest first, so that those with steps left are always at the front of
    the chunk and nothing is computed for the others.
    """

    def __init__(
        self, model: FlatModel, layered: LayeredModel, momentum: float, gradient_clip_norm: float = math.inf
    ) -> None:
        self._model, self._layered, self._momentum = model, layered, momentum
        self._clip_norm = gradient_clip_norm

    @torch.no_grad()
    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Train all devices of the chunk together, and write theta_i - theta into `updates`."""
        order = np.argsort(-work.steps, kind="stable")
        sorted_steps = work.steps[order]
        start = self._model.split(parameters)
        layered, factored = self._factored(start, work)
        copied = {
            index for node in layered.nodes if not isinstance(node.layer, Factored) for index in node.parameter_indices
        }
        trained = [_copies(part, len(order)) if index in copied else part for index, part in enumerate(start)]
        velocities: dict[int, Tensor] = {}
        rows, weights = work.rows[on_device(order, work.rows.device)], self._weights(work, order, parameters.dtype)
        samples = _Samples(work, rows)
        for step in range(int(sorted_steps.max(initial=0))):
            active = int((sorted_steps > step).sum())
            current = [part[:active] if index in copied else part for index, part in enumerate(trained)]

            kept: dict[int, Tensor] = {}  # until the norm of all is known, where gradients are clipped

            def visit(
                _: int,
                node: Node,
                saved: Any,
                grad_output: Tensor,
                current: list[Tensor] = current,
                kept: dict[int, Tensor] = kept,
            ) -> None:
                if isinstance(node.layer, Factored):
                    node.layer.step(saved, grad_output)
                    return
                gradients = parametric(node).gradient(saved, grad_output, len(current[node.parameter_indices[0]]))
                for index, gradient in zip(node.parameter_indices, gradients, strict=True):
                    if math.isfinite(self._clip_norm):
                        kept[index] = gradient
                        continue
                    self._move(current[index], velocities, index, gradient, work.learning_rate)

            inputs, targets = samples.at(active, step)
            tape = layered.forward(current, inputs)
            layered.backward(current, tape, logit_gradients(tape.logits, targets, weights[:active, step]), visit)
            for index, gradient in zip(kept, clipped([*kept.values()], self._clip_norm), strict=True):
                self._move(current[index], velocities, index, gradient, work.learning_rate)
        self._write(updates, start, trained, order, factored)

    def _move(
        self, parameter: Tensor, velocities: dict[int, Tensor], index: int, gradient: Tensor, learning_rate: float
    ) -> None:
        """Set v = momentum v + g and theta = theta - eta v, in place."""
        if self._momentum and index in velocities:
            velocities[index] = velocities[index][: len(gradient)].mul_(self._momentum).add_(gradient)
        else:
            velocities[index] = gradient
        parameter.sub_(velocities[index], alpha=learning_rate)

    def _factored(self, start: tuple[Tensor, ...], work: Work) -> tuple[LayeredModel, list[tuple[Node, Factored]]]:
        """Return the model with large matrices in factored form where the work is small enough, and these nodes."""
        _, steps, batch = work.plan.shape
        nodes, factored = [], []
        for node in self._layered.nodes:
            if math.isinf(self._clip_norm) and worth_factoring(node, start, steps * batch):
                layer = Factored(node.layer, self._momentum, work.learning_rate)
                factored.append((node, layer))
                node = replace(node, layer=layer)
            nodes.append(node)
        return LayeredModel(tuple(nodes)), factored

    def _weights(self, work: Work, order: np.ndarray, dtype: torch.dtype) -> Tensor:
        """Return the weight of every sample in the mean over its batch, [chunk, steps, batch], 0 for padding."""
        present = work.present[order]
        weights = present / np.maximum(present.sum(axis=2, keepdims=True), 1)
        return on_device(weights, work.rows.device, dtype)

    def _write(
        self,
        updates: Tensor,
        start: tuple[Tensor, ...],
        trained: list[Tensor],
        order: np.ndarray,
        factored: list[tuple[Node, Factored]],
    ) -> None:
        """Write theta_i - theta in the original order of the devices."""
        positions = np.argsort(order)
        sorted_already = bool((positions == np.arange(len(order))).all())
        blocks = dict(enumerate(torch.split(updates, self._model.sizes, dim=1)))
        for node, layer in factored:
            layer.write([blocks.pop(index) for index in node.parameter_indices], positions)
        for index, block in blocks.items():
            part = trained[index].flatten(1)
            if sorted_already:
                torch.sub(part, start[index].flatten(), out=block)
            else:
                block.copy_(part[on_device(positions, part.device)]).sub_(start[index].flatten())


def _copies(part: Tensor, devices: int) -> Tensor:
    """Return copies of a parameter, [devices, *shape]; channels last for a convolution, like its gradients."""
    if part.dim() != 4:
        return part.repeat(devices, *[1] * part.dim())
    return part.permute(0, 2, 3, 1).repeat(devices, 1, 1, 1, 1).permute(0, 1, 4, 2, 3)


class _Samples:
    """Inputs and targets of every step. If samples are used several times, each is normalised only once."""

    def __init__(self, work: Work, rows: Tensor) -> None:
        self._work, self._rows = work, rows
        sizes = work.task.partition.sizes[work.devices]
        self._normalised: Tensor | None = None
        if work.task.mean and 2 * int(sizes.sum()) <= rows.numel():
            used, positions = torch.unique(rows, return_inverse=True)
            self._normalised, self._positions = work.inputs(used), positions

    def at(self, active: int, step: int) -> tuple[Tensor, Tensor]:
        """Return inputs [active, batch, *shape] and targets [active, batch] of a step."""
        rows = self._rows[:active, step]
        if self._normalised is None:
            return self._work.inputs(rows), self._work.targets(rows)
        return self._normalised[self._positions[:active, step]], self._work.targets(rows)
