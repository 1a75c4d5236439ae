"""Channel state, and what is known of it: kept apart by type, so that no device precodes by what it cannot know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Response = NDArray[np.complex128] | NDArray[np.complex64]
"""[devices, antennas, blocks, subcarriers]; an axis along which the channel does not change may have length 1."""


def received_power(response: Response) -> NDArray[np.float64]:
    """|h|^2 added up over antennas, [devices, blocks, subcarriers]."""
    return np.asarray((response.real.astype(np.float64) ** 2 + response.imag.astype(np.float64) ** 2).sum(axis=1))


@dataclass(frozen=True)
class ChannelState:
    """The true channel of one round, at the time of transmission.

    Attributes:
        response: h_i at every receive antenna, time block and subcarrier, complex [devices, antennas, blocks,
            subcarriers]; flat fading with one antenna is [devices, 1, 1, 1]. Of paths beyond the cyclic prefix it has
            what stays on the element.
        spilled: Power that such paths put on other elements and symbols in all for one unit of power on an element, the
            mean over antennas, [devices, blocks, subcarriers], lengths as of the response; None where no path is late.
    """

    response: Response
    spilled: NDArray[np.float32] | None = None

    @property
    def gains(self) -> NDArray[np.complex128]:
        """The first antenna's channel, its mean over resource elements, [devices]: what a record keeps."""
        return np.asarray(self.response[:, 0].mean(axis=(1, 2)), dtype=np.complex128)


@dataclass(frozen=True)
class ChannelEstimate:
    """What server and devices believe the channel to be.

    Attributes:
        response: hhat_i, complex [devices, antennas, blocks, subcarriers], as in `ChannelState`.
    """

    response: Response

    @property
    def gains(self) -> NDArray[np.complex128]:
        """As in `ChannelState`."""
        return np.asarray(self.response[:, 0].mean(axis=(1, 2)), dtype=np.complex128)


@dataclass(frozen=True)
class LineOfSight:
    """What of a channel comes by the line of sight, which does not fade but turns with its own Doppler shift.

    Attributes:
        part: Line-of-sight part of the true channel, complex [devices, antennas, blocks, subcarriers].
        heard: The same part as the estimate holds it, same axes.
        share: K/(K+1) of the mean power, [devices].
        doppler_hz: Doppler shift of the line of sight in Hz, of either sign, [devices].
    """

    part: Response
    heard: Response
    share: NDArray[np.float64]
    doppler_hz: NDArray[np.float64]

    def take(self, rows: NDArray[np.int64]) -> LineOfSight:
        """Of these devices alone."""
        return LineOfSight(self.part[rows], self.heard[rows], self.share[rows], self.doppler_hz[rows])
