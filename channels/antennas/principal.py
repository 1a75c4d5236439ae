"""Combining for the largest total received power of all devices."""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex, as_weights, channel_vectors
from channels.csi.state import Response


def principal_vectors(channels: Complex) -> Complex:
    """Return the principal eigenvector of sum_i v_i v_i^H, [coefficients, antennas].

    channels: v_i, [coefficients, devices, antennas]. Because the phase of an eigenvector is arbitrary, its first entry
    is made real and non-negative.
    """
    _, vectors = np.linalg.eigh(channels.swapaxes(1, 2) @ channels.conj())
    principal = vectors[..., -1]
    return np.asarray(principal * np.exp(-1j * np.angle(principal[:, :1])))


class Principal(Combiner):
    """Combining with the principal eigenvector, which maximises the total received power."""

    name = "principal"
    source = "Lopez, Multiplexing, scheduling, and multicasting strategies for antenna arrays, thesis, MIT 2002"

    def weights(self, response: Response, factors: Array) -> Complex:
        """Return the principal eigenvector of sum_i w_i^2 h_i h_i^H."""
        return as_weights(principal_vectors(channel_vectors(response, factors)), response)
