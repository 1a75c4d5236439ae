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
        return as_weights(unit(self._sums(response, factors)), response)

    def mean_gains(self, response: Response, factors: Array, cross_power: Array) -> Array:
        """Return A E[hhat_i^* h_i]/||s|| with s = sum_l hhat_l, [devices, blocks, subcarriers].

        s^H h_i = ||s|| a^H h_i contains sum_k hhat_i,k^* h_i,k, whose mean over the fading is A E[hhat_i^* h_i], and
        products with the estimates of other devices, whose phases are independent, so that their mean is 0.
        """
        lengths = np.linalg.norm(self._sums(response, factors), axis=-1).reshape(response.shape[2:])
        antennas = response.shape[1]
        return np.asarray(antennas * cross_power[:, None, None] / np.maximum(lengths, np.finfo(np.float64).tiny))

    @staticmethod
    def _sums(response: Response, factors: Array) -> Complex:
        """Return s = sum_l hhat_l over the participating devices, [coefficients, antennas]."""
        return np.asarray(channel_vectors(response, np.sign(factors)).sum(axis=1))
