"""Where the power of an OFDM symbol falls that comes late or at another carrier frequency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array


@dataclass(frozen=True)
class Offsets:
    """Offsets of the devices against the receiver.

    Attributes:
        late: e, share of the receiver's window that the symbol before fills, [devices].
        carrier: eps, carrier frequency offset over the subcarrier spacing, of either sign, [devices].
    """

    late: Array
    carrier: Array

    @property
    def present(self) -> bool:
        """Whether anything leaks at all."""
        return bool(self.late.any() or self.carrier.any())

    @property
    def kept(self) -> Array:
        """Share of the power that stays on its subcarrier, (1 - e)^2 sinc^2(eps), [devices]."""
        return np.asarray((1 - self.late) ** 2 * np.sinc(self.carrier) ** 2)

    def leaked(self, device: int, distances: NDArray[np.int64]) -> Array:
        """Share of the power of a device's subcarrier m that comes as interference to the subcarriers m + distances.

        Of the window the first e holds the symbol before and 1 - e the present one, each a tone cut off: with n the
        distance, e^2 sinc^2(e (n - eps)) + (1 - e)^2 sinc^2((1 - e)(n - eps)), the latter where n is not 0. Over all
        distances it is what is not `kept` (Parseval), where only one of the offsets is there.
        """
        late, apart = self.late[device], distances - self.carrier[device]
        present = (1 - late) ** 2 * np.sinc((1 - late) * apart) ** 2
        return np.asarray(late**2 * np.sinc(late * apart) ** 2 + np.where(distances == 0, 0.0, present))

    def take(self, rows: NDArray[np.int64]) -> Offsets:
        """Of these devices alone."""
        return Offsets(self.late[rows], self.carrier[rows])
