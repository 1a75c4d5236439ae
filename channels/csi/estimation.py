"""Channel estimation from pilots: least squares (LS) and linear minimum mean square error (MMSE)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation
from channels.csi.state import ChannelEstimate
from channels.draws import Array, Draw, circular_gaussian
from channels.frame import Frame
from channels.part import parameter


class Estimation(Impairment):
    """Channel estimation from pilots."""

    name = "estimation"
    source = "S. M. Kay, Fundamentals of Statistical Signal Processing: Estimation Theory (1993), chapters 4 and 12"

    method: Literal["perfect", "ls", "mmse"] = parameter(
        default="perfect", key="estimation", description="estimator of the channel from pilots"
    )
    pilots: int = parameter(
        default=1, ge=1, key="pilots", description="L, pilot symbols that a device sends per coefficient"
    )
    pilot_snr_db: float | None = parameter(
        default=None,
        ge=-200,
        le=200,
        key="pilot_snr_db",
        description="energy of a pilot over sigma0^2; default that of a resource element of data",
    )

    def present(self, around: Surroundings) -> bool:
        """Whether the estimate can differ from the channel."""
        return self.method != "perfect"

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Set hhat = h + n ("ls") or c (h + n) ("mmse"), n ~ CN(0, v/L) on every coefficient, c = P/(P + v/L).

        If h is Gaussian, its error variance given hhat is P (v/L)/(P + v/L) in both cases, and its regression slope on
        hhat is c under "ls" and 1 under "mmse". The noise is independent between coefficients; a coefficient that is
        constant along an axis is estimated once. If P differs between antennas, so does c; the error then has no common
        variance, and the law of h given hhat is left open.
        """
        h, power = csi.state.response, csi.antenna_power
        noise_variance = csi.pilot_noise_variance / self.pilots
        if power is None:
            shrinkage, observed_power = _shrinkage(csi.mean_power, noise_variance)
        else:
            shrinkage, observed_power = _shrinkage(power, noise_variance[:, None])
        noise = circular_gaussian(draw(2 * int(np.prod(h.shape[1:])))).reshape(h.shape)
        observed = h + (_rows(np.sqrt(noise_variance)) * noise).astype(h.dtype)
        mmse, sight = self.method == "mmse", csi.line_of_sight
        if mmse and sight is not None:
            sight = replace(sight, estimated=sight.estimated * _rows(shrinkage).astype(h.real.dtype))
        return replace(
            csi,
            estimate=ChannelEstimate(observed * _rows(shrinkage).astype(h.real.dtype) if mmse else observed),
            slope=np.ones_like(noise_variance) if mmse or power is not None else shrinkage,
            error_variance=shrinkage * noise_variance if power is None else None,
            line_of_sight=sight,
            shrinkage=shrinkage if mmse else None,
            estimator_power=shrinkage**2 * observed_power if mmse else observed_power,
        )

    def pilots_charged(self, devices: int, coefficients: int) -> tuple[int, int]:
        """Return the cost of estimation: resource elements of all devices, and pilots sent by each device.

        Pilots of different devices are orthogonal. A device's energy is the second number times the energy of a pilot.
        Both numbers are 0 under perfect estimation.

        Args:
            devices: Number of devices whose channels are estimated.
            coefficients: Blocks x subcarriers of the response, with constant axes counted as 1. All antennas receive
                the same pilots.
        """
        if self.method == "perfect":
            return 0, 0
        sent = self.pilots * coefficients
        return devices * sent, sent


def _shrinkage(mean_power: Array, noise_variance: Array) -> tuple[Array, Array]:
    """Return c = P/(P + v/L), 1 without noise, and P + v/L, both [devices] or [devices, antennas]."""
    total = np.asarray(mean_power + noise_variance)
    return np.divide(mean_power, total, out=np.ones_like(total), where=noise_variance > 0), total


def _rows(values: Array) -> Array:
    """Reshape [devices] or [devices, antennas] to broadcast against [devices, antennas, blocks, subcarriers]."""
    return values[:, :, None, None] if values.ndim == 2 else values[:, None, None, None]
