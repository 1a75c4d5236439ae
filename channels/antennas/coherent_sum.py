"""Combining with the sum of the channels, which lines up devices that do not precode when antennas are many."""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex, as_weights, channel_vectors, unit
from channels.csi.state import Response


class CoherentSum(Combiner):
    """The sum of the channels."""

    name = "sum"
    source = "Amiri, Duman, Gunduz, Kulkarni, Poor, Blind federated edge learning, IEEE Trans. Wireless Commun. 2021"

    def weights(self, response: Response, factors: Array) -> Complex:
        """a = sum_i h_i / ||sum_i h_i|| over the devices that take part, phases as they are; powers play no role."""
        return as_weights(unit(channel_vectors(response, np.sign(factors)).sum(axis=1)), response)
