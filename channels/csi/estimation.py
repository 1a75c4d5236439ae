"""Channel estimates from pilots: least squares, and linear with least mean square error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.knowledge import CsiParameters, Impairment, Knowledge
from channels.csi.state import ChannelEstimate
from channels.draws import Array, Draw, circular_gaussian
from channels.frame import Frame


def _estimate(knowledge: Knowledge, parameters: CsiParameters, frame: Frame, draw: Draw) -> Knowledge:
    """hhat = h + n ("ls") or c (h + n) ("mmse"), n ~ CN(0, v/L) on every coefficient, c = P/(P + v/L).

    Either way h given hhat has error variance P (v/L)/(P + v/L), and slope c under "ls", 1 under "mmse", if h is
    Gaussian. Noise is independent from coefficient to coefficient; one that is constant over an axis is estimated once.
    """
    h = knowledge.state.response
    noise_variance = knowledge.pilot_noise_variance / parameters.pilots
    shrinkage = _shrinkage(knowledge.mean_power, noise_variance)
    noise = circular_gaussian(draw(2 * int(np.prod(h.shape[1:])))).reshape(h.shape)
    heard = h + (_rows(np.sqrt(noise_variance)) * noise).astype(h.dtype)
    linear, sight = parameters.estimation == "mmse", knowledge.line_of_sight
    if linear and sight is not None:
        sight = replace(sight, heard=sight.heard * _rows(shrinkage).astype(h.real.dtype))
    return replace(
        knowledge,
        estimate=ChannelEstimate(heard * _rows(shrinkage).astype(h.real.dtype) if linear else heard),
        slope=np.ones_like(shrinkage) if linear else shrinkage,
        error_variance=shrinkage * noise_variance,
        line_of_sight=sight,
    )


def _shrinkage(mean_power: Array, noise_variance: Array) -> Array:
    """c = P/(P + v/L), [devices]; 1 without noise."""
    total = mean_power + noise_variance
    return np.divide(mean_power, total, out=np.ones_like(total), where=noise_variance > 0)


def _rows(values: Array) -> Array:
    """[devices] beside [devices, antennas, blocks, subcarriers]."""
    return values[:, None, None, None]


def pilots_charged(parameters: CsiParameters, devices: int, coefficients: int) -> tuple[int, int]:
    """What estimation costs: resource elements of all devices, and pilots that each device sends.

    coefficients: blocks x subcarriers of the response, an axis of constant response counting 1; all antennas hear the
    same pilots. Pilots of different devices are orthogonal. A device's energy is the second number times the energy of
    a pilot. Both are 0 under perfect estimation.
    """
    if parameters.estimation == "perfect":
        return 0, 0
    sent = parameters.pilots * coefficients
    return devices * sent, sent


ESTIMATION = Impairment(
    apply=_estimate,
    present=lambda parameters: parameters.estimation != "perfect",
    source="S. M. Kay, Fundamentals of Statistical Signal Processing: Estimation Theory (1993), chapters 4 and 12",
)
