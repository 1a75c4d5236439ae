"""Local SGD of one device by itself, by ordinary autograd: faster than batching for large models on a CPU."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from airfl.local.flat import FlatModel


def train_alone(
    model: FlatModel,
    vector: Tensor,
    batches: Iterable[tuple[Tensor, Tensor]],
    learning_rate: float,
    momentum: float,
) -> None:
    """SGD with momentum over the batches (PFELS algorithm 2, lines 6 to 9), in place on the parameters `vector`, [d].

    batches: normalised inputs [batch, *shape] and targets [batch]; the loss is the mean over a batch.
    """
    parameters = tuple(part.detach().requires_grad_() for part in model.split(vector))  # on the vector's own memory
    optimiser = torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum)
    for inputs, targets in batches:
        optimiser.zero_grad()
        torch.autograd.backward(model.losses(parameters, inputs, targets).mean())
        optimiser.step()
