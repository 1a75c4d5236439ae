"""What links that carry one device's message at a time share: messages are added up after they have arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airfl.stages.stage import Batch
from airfl.uplinks.uplink import Array, Terms
from channels.csi import ChannelState, Response, received_power
from channels.mac import add_weighted

if TYPE_CHECKING:
    from torch import Tensor

SINGLE_PRECISION = 1e-6
"""By which the same power, computed twice in single precision, may differ."""


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


def power_gains(response: Response) -> Array:
    """|h|^2, antennas combined by their maximum ratio, [devices, blocks, subcarriers or 1]; one block where blocks
    differ in phase alone, as under a carrier offset."""
    power = received_power(response)
    same = np.allclose(power, power[:, :1], rtol=SINGLE_PRECISION, atol=0.0)
    return np.asarray(power[:, :1] if same else power)


def spilled_gains(state: ChannelState) -> Array | None:
    """What late paths put beside an element for a unit of power on it, [devices, blocks, subcarriers], if any do."""
    return None if state.spilled is None else state.spilled.astype(np.float64)


def coupling(response: Response) -> Array | None:
    """Share of device j's power, all antennas together, that the maximum-ratio weights of device i let through, the
    mean over elements, [i, j]: |h_i^H h_j|^2/(|h_i|^2 |h_j|^2); None of one antenna."""
    if response.shape[1] == 1:
        return None
    norms = np.sqrt(received_power(response))
    weights = response / np.where(norms > 0, norms, 1.0)[:, None]
    through = [np.abs((own.conj() * weights).sum(axis=1)) ** 2 for own in weights]
    return np.asarray([one.mean(axis=(1, 2)) for one in through], dtype=np.float64)
