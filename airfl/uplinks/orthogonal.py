"""Helpers shared by links that carry each device's message separately and sum messages after reception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.errors import UserError
from airfl.uplinks.stages.stage import Batch
from airfl.uplinks.uplink import Array, UplinkContext
from channels.csi import ChannelState, Response, received_power
from channels.hardware.amplifiers import Amplifiers
from channels.mac import add_weighted

if TYPE_CHECKING:
    from torch import Tensor

SINGLE_PRECISION = 1e-6
"""Relative tolerance between powers computed in single precision."""


def accumulate(total: Tensor | None, batch: Batch, weights: Tensor, entries: int) -> Tensor:
    """Return total + sum_i w_i m_i over the messages of a chunk, [m].

    Args:
        total: The sum so far, None at the start.
        batch: The messages of the chunk.
        weights: w_i, [chunk].
        entries: m.
    """
    total = batch.values.new_zeros(entries) if total is None else total
    add_weighted(total if batch.part is None else total[batch.part], batch.values, weights)
    return total


def mean_message(total: Tensor | None, context: UplinkContext, divisor: float) -> Tensor:
    """Return the mean message from the sum, [m]. It is 0 if no device was selected or no message was received."""
    import torch

    total = torch.zeros(context.entries, device=context.device) if total is None else total
    return total / divisor if divisor else total


def device_noise_gain(weights: Array, divisor: float) -> float:
    """Return sqrt(sum w_i^2)/divisor, the gain of the devices' own noise on an entry of the mean."""
    return float(np.sqrt((weights**2).sum())) / divisor if divisor else 0.0


@dataclass(frozen=True)
class AmplifiedPower:
    """What the amplifier of a device that sends bits at its limit does to powers, relative to that limit.

    Attributes:
        gain: Power of the part of the output that is proportional to the input.
        distortion: Power of the rest over that, in and out of the band: what leaves a device's subcarriers falls on
            those of its neighbours, whose own comes back.
        radiated: Power of the output.
        consumed: Power drawn over the radiated power; None if no amplifier is modelled.
    """

    gain: float = 1.0
    distortion: float = 0.0
    radiated: float = 1.0
    consumed: float | None = None

    def supply(self, inputs: Array, pilots: Array) -> Array | None:
        """Return the energy that the amplifiers draw, from the energies at their input and of the radiated pilots."""
        return None if self.consumed is None else np.asarray((inputs * self.radiated + pilots) * self.consumed)


def amplified(amplifiers: Amplifiers | None) -> AmplifiedPower:
    """Return what the amplifiers do to devices that send at their limit."""
    if amplifiers is None:
        return AmplifiedPower()
    point = amplifiers.point()
    gain = abs(point.gain) ** 2
    if not gain:
        raise UserError("hardware.back_off_db: at this back-off nothing of the signal passes; raise it")
    return AmplifiedPower(gain, point.distortion / gain, point.power, amplifiers.consumed())


def power_gains(response: Response) -> Array:
    """Return |h|^2 after maximum-ratio combining, [devices, blocks, subcarriers or 1]. It has a single block if blocks
    differ only in phase, as under a carrier frequency offset."""
    power = received_power(response)
    same = np.allclose(power, power[:, :1], rtol=SINGLE_PRECISION, atol=0.0)
    return np.asarray(power[:, :1] if same else power)


def leaked_gains(state: ChannelState) -> Array | None:
    """Return the power that late paths leak per unit of power on an element, [devices, blocks, subcarriers]; None if
    there are no late paths."""
    return None if state.leaked_power is None else state.leaked_power.astype(np.float64)


def coupling(response: Response) -> Array | None:
    """Return the fraction of device j's power over all antennas that passes the maximum-ratio weights of device i,
    averaged over elements, [i, j]: |h_i^H h_j|^2/(|h_i|^2 |h_j|^2). None for one antenna."""
    if response.shape[1] == 1:
        return None
    norms = np.sqrt(received_power(response))
    weights = response / np.where(norms > 0, norms, 1.0)[:, None]
    through = [np.abs((own.conj() * weights).sum(axis=1)) ** 2 for own in weights]
    return np.asarray([one.mean(axis=(1, 2)) for one in through], dtype=np.float64)
