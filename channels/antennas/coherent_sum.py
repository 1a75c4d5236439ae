"""Combining with the sum of the channels, which aligns devices without precoding if there are many antennas."""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex, as_weights, channel_vectors, unit
from channels.csi.state import Response


class CoherentSum(Combiner):
    """Combining weights proportional to the sum of the channels."""

    name = "sum"
    source = "Amiri, Duman, Gunduz, Kulkarni, Poor, Blind federated edge learning, IEEE Trans. Wireless Commun. 2021"

    def weights(self, response: Response, factors: Array) -> Complex:
        """Return a = sum_i h_i / ||sum_i h_i|| over the participating devices, regardless of their powers."""
        return as_weights(unit(channel_vectors(response, np.sign(factors)).sum(axis=1)), response)
