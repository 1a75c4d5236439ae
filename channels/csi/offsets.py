"""Leakage of OFDM symbols with timing and carrier frequency offsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array


@dataclass(frozen=True)
class Offsets:
    """Timing and frequency offsets of the devices relative to the receiver.

    Attributes:
        late: e, share of the receiver's window filled by the previous symbol, [devices].
        carrier: eps, carrier frequency offset over the subcarrier spacing, positive or negative, [devices].
    """

    late: Array
    carrier: Array

    @property
    def present(self) -> bool:
        """Whether any device has an offset."""
        return bool(self.late.any() or self.carrier.any())

    @property
    def kept(self) -> Array:
        """Share of the power that stays on its subcarrier, (1 - e)^2 sinc^2(eps), [devices]."""
        return np.asarray((1 - self.late) ** 2 * np.sinc(self.carrier) ** 2)

    def leaked(self, device: int, distances: NDArray[np.int64]) -> Array:
        """Share of the power on a device's subcarrier m that interferes with the subcarriers m + distances.

        The first e of the window holds the previous symbol and the remaining 1 - e the current one, each a truncated
        tone. At distance n, the share is e^2 sinc^2(e (n - eps)) + (1 - e)^2 sinc^2((1 - e)(n - eps)), the second term
        only for n other than 0. If only one of the offsets is present, the sum over all distances is 1 - `kept`
        (Parseval).
        """
        late, apart = self.late[device], distances - self.carrier[device]
        present = (1 - late) ** 2 * np.sinc((1 - late) * apart) ** 2
        return np.asarray(late**2 * np.sinc(late * apart) ** 2 + np.where(distances == 0, 0.0, present))

    def take(self, rows: NDArray[np.int64]) -> Offsets:
        """Return the offsets of a subset of devices."""
        return Offsets(self.late[rows], self.carrier[rows])
