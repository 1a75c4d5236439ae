"""No combining: only the first antenna is used."""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex, check_received
from channels.csi.state import Response


class First(Combiner):
    """The first antenna only."""

    name = "first"
    source = "a receiver of one antenna"
    one_antenna = True

    def weights(self, response: Response, factors: Array) -> Complex:
        """Return 1 at the first antenna and 0 at the others."""
        check_received(response)
        weights = np.zeros(response.shape[1:], dtype=np.complex128)
        weights[0] = 1.0
        return weights
