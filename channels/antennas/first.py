"""No combining: the first antenna alone."""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex
from channels.csi.state import Response


def _weights(response: Response, factors: Array) -> Complex:
    weights = np.zeros(response.shape[1:], dtype=np.complex128)
    weights[0] = 1.0
    return weights


FIRST = Combiner(weights=_weights, source="a receiver of one antenna")
