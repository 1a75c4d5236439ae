"""Combining with the sum of the channels, which aligns devices without precoding if there are many antennas, or if
their channels are aligned."""

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


class AlignedSum(CoherentSum):
    """The same weights for channels that are aligned, as by a surface, rather than of independent phases."""

    name = "aligned-sum"
    source = "the mean of the effective channels, after Liu, Yuan, Zhang, CSIT-free model aggregation, arXiv 2102.10749"

    def mean_gains(self, response: Response, factors: Array, cross_power: Array) -> Array:
        """Return ||s||/r, the mean of a^H hhat_i over the r participating devices, for each of them, [devices, blocks,
        subcarriers].

        Decoded with it, the devices' weights have the mean 1.
        """
        lengths = np.linalg.norm(self._sums(response, factors), axis=-1).reshape(response.shape[2:])
        sending = max(int((np.asarray(factors) > 0).sum()), 1)
        found = np.maximum(lengths / sending, np.finfo(np.float64).tiny)
        return np.asarray(np.broadcast_to(found, (len(response), *found.shape)))
