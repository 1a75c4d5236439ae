"""Local SGD by hand-batched layers: all devices of a chunk at once, with no autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from airfl.local.engines.engine import Work
from airfl.local.engines.factored import Factored, worth_factoring
from airfl.local.flat import FlatModel
from airfl.local.layers import LayeredModel, Node, logit_slopes, parametric


class LayersEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum, for models whose layers are all in the table.

    Devices with more steps come first, so that those who still have some are always the first of the chunk and nothing
    is computed for the others.
    """

    def __init__(self, model: FlatModel, layered: LayeredModel, momentum: float) -> None:
        self._model, self._layered, self._momentum = model, layered, momentum

    @torch.no_grad()
    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """See `Engine`."""
        order = np.argsort(-work.steps, kind="stable")
        sorted_steps = work.steps[order]
        start = self._model.split(parameters)
        layered, factored = self._factored(start, work)
        whole = {place for node in layered.nodes if not isinstance(node.layer, Factored) for place in node.places}
        parts = [_copies(part, len(order)) if place in whole else part for place, part in enumerate(start)]
        velocities: dict[int, Tensor] = {}
        rows, weights = work.rows[torch.from_numpy(order)], self._weights(work, order, parameters.dtype)
        samples = _Samples(work, rows)
        for step in range(int(sorted_steps.max(initial=0))):
            active = int((sorted_steps > step).sum())
            now = [part[:active] if place in whole else part for place, part in enumerate(parts)]

            def visit(_: int, node: Node, saved: Any, slope: Tensor, now: list[Tensor] = now) -> None:
                if isinstance(node.layer, Factored):
                    node.layer.take(saved, slope)
                    return
                gradients = parametric(node).gradient(saved, slope, len(now[node.places[0]]))
                for place, gradient in zip(node.places, gradients, strict=True):
                    self._move(now[place], velocities, place, gradient, work.learning_rate)

            inputs, targets = samples.at(active, step)
            tape = layered.forward(now, inputs)
            layered.backward(now, tape, logit_slopes(tape.logits, targets, weights[:active, step]), visit)
        self._write(updates, start, parts, order, factored)

    def _move(
        self, parameter: Tensor, velocities: dict[int, Tensor], place: int, gradient: Tensor, learning_rate: float
    ) -> None:
        """v = momentum v + g, theta = theta - eta v."""
        if self._momentum and place in velocities:
            velocities[place] = velocities[place][: len(gradient)].mul_(self._momentum).add_(gradient)
        else:
            velocities[place] = gradient
        parameter.sub_(velocities[place], alpha=learning_rate)

    def _factored(self, start: tuple[Tensor, ...], work: Work) -> tuple[LayeredModel, list[tuple[Node, Factored]]]:
        """The layers with those of large matrices in factored form, where the work is small enough."""
        _, steps, batch = work.plan.shape
        nodes, found = [], []
        for node in self._layered.nodes:
            if worth_factoring(node, start, steps * batch):
                layer = Factored(node.layer, self._momentum, work.learning_rate)
                found.append((node, layer))
                node = replace(node, layer=layer)
            nodes.append(node)
        return LayeredModel(tuple(nodes)), found

    def _weights(self, work: Work, order: np.ndarray, dtype: torch.dtype) -> Tensor:
        """Of every sample in the mean of its batch, [chunk, steps, batch], 0 for padding."""
        present = work.present[order]
        share = present / np.maximum(present.sum(axis=2, keepdims=True), 1)
        return torch.from_numpy(share).to(dtype).to(work.rows.device)

    def _write(
        self,
        updates: Tensor,
        start: tuple[Tensor, ...],
        parts: list[Tensor],
        order: np.ndarray,
        factored: list[tuple[Node, Factored]],
    ) -> None:
        places = np.argsort(order)
        sorted_already = bool((places == np.arange(len(order))).all())
        into = dict(enumerate(torch.split(updates, self._model.sizes, dim=1)))
        for node, layer in factored:
            layer.write([into.pop(place) for place in node.places], places)
        for place, block in into.items():
            part = parts[place].flatten(1)
            if sorted_already:
                torch.sub(part, start[place].flatten(), out=block)
            else:
                block.copy_(part[torch.from_numpy(places)]).sub_(start[place].flatten())


def _copies(part: Tensor, devices: int) -> Tensor:
    """[devices, *shape]; of a convolution pixel by pixel, as its products take it and give its gradient."""
    if part.dim() != 4:
        return part.repeat(devices, *[1] * part.dim())
    return part.permute(0, 2, 3, 1).repeat(devices, 1, 1, 1, 1).permute(0, 1, 4, 2, 3)


class _Samples:
    """Inputs and targets step by step; what is used several times is normalised once."""

    def __init__(self, work: Work, rows: Tensor) -> None:
        self._work, self._rows = work, rows
        sizes = work.task.partition.sizes[work.devices]
        self._own: Tensor | None = None
        if work.task.mean and 2 * int(sizes.sum()) <= rows.numel():
            used, where = torch.unique(rows, return_inverse=True)
            self._own, self._where = work.inputs(used), where

    def at(self, active: int, step: int) -> tuple[Tensor, Tensor]:
        """Inputs [active, batch, *shape] and targets [active, batch]."""
        rows = self._rows[:active, step]
        if self._own is None:
            return self._work.inputs(rows), self._work.targets(rows)
        return self._own[self._where[:active, step]], self._work.targets(rows)
