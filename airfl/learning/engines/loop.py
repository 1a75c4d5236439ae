"""Local SGD of one device after another, by ordinary autograd and torch's optimiser: the reference engine."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from airfl.learning.engines.engine import Work
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import clipped
from channels.transfer import on_device


class LoopEngine:
    """PFELS algorithm 2, lines 6 to 11, with momentum, for any model."""

    def __init__(self, model: FlatModel, momentum: float, gradient_clip_norm: float = math.inf) -> None:
        self._model, self._momentum, self._gradient_clip_norm = model, momentum, gradient_clip_norm

    def train(self, parameters: Tensor, work: Work, updates: Tensor) -> None:
        """Train device by device, and write theta_i - theta into `updates`."""
        present = on_device(work.present, parameters.device)
        for row, update in enumerate(updates):
            update.copy_(parameters)
            leaves = tuple(part.detach().requires_grad_() for part in self._model.split(update))  # views of `update`
            optimiser = torch.optim.SGD(leaves, lr=work.learning_rate, momentum=self._momentum)
            for step in range(int(work.steps[row])):
                own = work.rows[row, step][present[row, step]]
                optimiser.zero_grad()
                inputs = _channels_last(work.inputs(own)) if work.task.by_pixel else work.inputs(own)
                torch.autograd.backward(self._model.losses(leaves, inputs, work.targets(own)).mean())
                if math.isfinite(self._gradient_clip_norm):
                    _clip(leaves, self._gradient_clip_norm)
                optimiser.step()
        updates.sub_(parameters)


def _clip(leaves: tuple[Tensor, ...], limit: float) -> None:
    """Clip the gradient of all leaves together to this norm."""
    held = [(leaf, leaf.grad.unsqueeze(0)) for leaf in leaves if leaf.grad is not None]
    for (leaf, _), gradient in zip(held, clipped([own for _, own in held], limit), strict=True):
        leaf.grad = gradient[0]


def _channels_last(inputs: Tensor) -> Tensor:
    """Return images in channels-last memory format, in which convolutions on a CPU are faster."""
    return inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs
