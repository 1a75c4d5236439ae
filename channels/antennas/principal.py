"""Combining for the largest sum of received powers, whoever they come from."""

import numpy as np

from channels.antennas.combiner import Array, Combiner, Complex, as_weights, channel_vectors
from channels.csi.state import Response


def principal_vectors(channels: Complex) -> Complex:
    """Principal eigenvector of sum_i v_i v_i^H, [coefficients, antennas], from v_i, [coefficients, devices, antennas].

    Its first entry is real and not negative: an eigenvector has no phase of its own.
    """
    _, vectors = np.linalg.eigh(channels.swapaxes(1, 2) @ channels.conj())
    principal = vectors[..., -1]
    return np.asarray(principal * np.exp(-1j * np.angle(principal[:, :1])))


class Principal(Combiner):
    """The principal eigenvector of the sum of received powers."""

    name = "principal"
    source = "Lopez, Multiplexing, scheduling, and multicasting strategies for antenna arrays, thesis, MIT 2002"

    def weights(self, response: Response, factors: Array) -> Complex:
        """Of sum_i w_i^2 h_i h_i^H."""
        return as_weights(principal_vectors(channel_vectors(response, factors)), response)
