"""What links that carry one device's message at a time share: messages are added up after they have arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airfl.stages.stage import Batch
from airfl.uplinks.uplink import Array, Terms
from channels.mac import add_weighted

if TYPE_CHECKING:
    from torch import Tensor


def add_up(total: Tensor | None, batch: Batch, weights: Tensor, entries: int) -> Tensor:
    """total + sum_i w_i m_i over the values of a chunk, [m]; None is nothing yet. weights: [chunk]."""
    total = batch.values.new_zeros(entries) if total is None else total
    add_weighted(total if batch.part is None else total[batch.part], batch.values, weights)
    return total


def mean_of(total: Tensor | None, terms: Terms, divisor: float) -> Tensor:
    """The mean message from what was added up, [m]. Where nobody was chosen, or heard, it is 0: nothing is learned."""
    import torch

    total = torch.zeros(terms.entries, device=terms.device) if total is None else total
    return total / divisor if divisor else total


def own_noise_gain(weights: Array, divisor: float) -> float:
    """sqrt(sum w_i^2)/divisor: what the devices' own noise is multiplied by on an entry of that mean."""
    return float(np.sqrt((weights**2).sum())) / divisor if divisor else 0.0
