"""Channel estimates from pilots: least squares, and linear with least mean square error."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.knowledge import Knowledge
from channels.csi.state import ChannelEstimate
from channels.draws import Array, Draw, circular_gaussian
from channels.frame import Frame
from channels.part import parameter


class Estimation(Impairment):
    """The channel is estimated from pilots."""

    name = "estimation"
    source = "S. M. Kay, Fundamentals of Statistical Signal Processing: Estimation Theory (1993), chapters 4 and 12"

    method: Literal["perfect", "ls", "mmse"] = parameter(
        default="perfect", key="estimation", description="from pilots, by which estimator"
    )
    pilots: int = parameter(
        default=1, ge=1, key="pilots", description="L, pilot symbols a device sends for each coefficient"
    )
    pilot_snr_db: float | None = parameter(
        default=None,
        ge=-200,
        le=200,
        key="pilot_snr_db",
        description="energy of a pilot over sigma0^2; default that of a resource element of data",
    )

    def present(self, around: Surroundings) -> bool:
        """Where the estimate is not the channel itself."""
        return self.method != "perfect"

    def apply(self, knowledge: Knowledge, around: Surroundings, frame: Frame, draw: Draw) -> Knowledge:
        """hhat = h + n ("ls") or c (h + n) ("mmse"), n ~ CN(0, v/L) on every coefficient, c = P/(P + v/L).

        Either way h given hhat has error variance P (v/L)/(P + v/L), and slope c under "ls", 1 under "mmse", if h is
        Gaussian. Noise is independent from coefficient to coefficient; one that is constant over an axis is estimated
        once.
        """
        h = knowledge.state.response
        noise_variance = knowledge.pilot_noise_variance / self.pilots
        shrinkage = _shrinkage(knowledge.mean_power, noise_variance)
        noise = circular_gaussian(draw(2 * int(np.prod(h.shape[1:])))).reshape(h.shape)
        heard = h + (_rows(np.sqrt(noise_variance)) * noise).astype(h.dtype)
        linear, sight = self.method == "mmse", knowledge.line_of_sight
        if linear and sight is not None:
            sight = replace(sight, heard=sight.heard * _rows(shrinkage).astype(h.real.dtype))
        return replace(
            knowledge,
            estimate=ChannelEstimate(heard * _rows(shrinkage).astype(h.real.dtype) if linear else heard),
            slope=np.ones_like(shrinkage) if linear else shrinkage,
            error_variance=shrinkage * noise_variance,
            line_of_sight=sight,
        )

    def pilots_charged(self, devices: int, coefficients: int) -> tuple[int, int]:
        """What estimation costs: resource elements of all devices, and pilots that each device sends.

        Pilots of different devices are orthogonal. A device's energy is the second number times the energy of a pilot.
        Both are 0 under perfect estimation.

        Args:
            devices: How many are estimated.
            coefficients: Blocks x subcarriers of the response, an axis of constant response counting 1; all antennas
                hear the same pilots.
        """
        if self.method == "perfect":
            return 0, 0
        sent = self.pilots * coefficients
        return devices * sent, sent


def _shrinkage(mean_power: Array, noise_variance: Array) -> Array:
    """c = P/(P + v/L), [devices]; 1 without noise."""
    total = mean_power + noise_variance
    return np.divide(mean_power, total, out=np.ones_like(total), where=noise_variance > 0)


def _rows(values: Array) -> Array:
    """[devices] beside [devices, antennas, blocks, subcarriers]."""
    return values[:, None, None, None]
