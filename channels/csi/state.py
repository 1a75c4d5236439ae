"""The true channel and its estimate, as separate types, so that no device can precode with unavailable CSI."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Response = NDArray[np.complex128] | NDArray[np.complex64]
"""[devices, antennas, blocks, subcarriers]; axes along which the channel is constant may have length 1."""


def received_power(response: Response) -> NDArray[np.float64]:
    """Return |h|^2 summed over antennas, [devices, blocks, subcarriers]."""
    return np.asarray((response.real.astype(np.float64) ** 2 + response.imag.astype(np.float64) ** 2).sum(axis=1))


@dataclass(frozen=True)
class ChannelState:
    """The true channel of one round, at the time of transmission.

    Attributes:
        response: h_i at every receive antenna, time block and subcarrier, complex [devices, antennas, blocks,
            subcarriers]; flat fading with one antenna is [devices, 1, 1, 1]. Paths beyond the cyclic prefix contribute
            only the amplitude that stays on the element.
        leaked_power: Total power that such paths leak to other elements and symbols for unit power on an element,
            averaged over antennas, [devices, blocks, subcarriers] with the lengths of the response; None if no path is
            late.
    """

    response: Response
    leaked_power: NDArray[np.float32] | None = None

    def take(self, rows: NDArray[np.int64]) -> ChannelState:
        """Return the channels of a subset of devices."""
        return ChannelState(self.response[rows], None if self.leaked_power is None else self.leaked_power[rows])

    @property
    def gains(self) -> NDArray[np.complex128]:
        """Channel of the first antenna, averaged over resource elements, [devices], as stored in records."""
        return np.asarray(self.response[:, 0].mean(axis=(1, 2)), dtype=np.complex128)


@dataclass(frozen=True)
class ChannelEstimate:
    """The channel estimate of server and devices.

    Attributes:
        response: hhat_i, complex [devices, antennas, blocks, subcarriers], as in `ChannelState`.
    """

    response: Response

    @property
    def gains(self) -> NDArray[np.complex128]:
        """Estimate of the first antenna, averaged over resource elements, [devices], as in `ChannelState`."""
        return np.asarray(self.response[:, 0].mean(axis=(1, 2)), dtype=np.complex128)


@dataclass(frozen=True)
class LineOfSight:
    """The line-of-sight component of a channel, which does not fade but rotates with its Doppler shift.

    Attributes:
        part: Line-of-sight component of the true channel, complex [devices, antennas, blocks, subcarriers].
        estimated: The same component in the estimate, in the same shape.
        share: Share K/(K+1) of the mean power, [devices].
        doppler_hz: Doppler shift of the line of sight in Hz, positive or negative, [devices].
    """

    part: Response
    estimated: Response
    share: NDArray[np.float64]
    doppler_hz: NDArray[np.float64]

    def take(self, rows: NDArray[np.int64]) -> LineOfSight:
        """Return the components of a subset of devices."""
        return LineOfSight(self.part[rows], self.estimated[rows], self.share[rows], self.doppler_hz[rows])
