"""The interface of receive combiners, and the effective channel g_i = a^H h_i with ||a|| = 1."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from channels.antennas.array import MAX_ANTENNAS
from channels.csi.state import Response
from channels.part import Part

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Combiner(Part):
    """Base class of receive combiners, which choose the receive weights a.

    User-defined combiners derive from it, have a name and implement `weights`, and may have parameters.

    Attributes:
        source: Source of the combiner.
        one_antenna: Whether only the first antenna is used for any channel, so that the effective channel fades as that
            of one antenna.
        robust: Whether the branches of the antennas are not summed, see `RobustCombiner`.
    """

    source: ClassVar[str] = ""
    one_antenna: ClassVar[bool] = False
    robust: ClassVar[bool] = False

    @abstractmethod
    def weights(self, response: Response, factors: Array) -> Complex:
        """Return a, [antennas, blocks, subcarriers] (axes of length 1 as in the response), of unit norm over antennas.

        Args:
            response: Estimated response, [devices, antennas, blocks, subcarriers].
            factors: w_i = sqrt(P_i)/rms_i, [devices], so that w_i |a^H h_i| is the largest amplitude with which a
                device can arrive. A device of factor 0 is ignored.
        """

    def mean_gains(self, response: Response, factors: Array, cross_power: Array) -> Array | None:
        """Return the mean gain of every device if no device corrects its own channel, [devices, blocks, subcarriers].

        It is E[c a^H h_i]/c over the fading, with the scale c by which the receiver would have to multiply the
        combined signal for c a to be a fixed function of the estimates. None, the default, for weights whose mean gain
        is not known.

        Args:
            response: As in `weights`.
            factors: As in `weights`.
            cross_power: E[hhat_i^* h_i] at every antenna, [devices].
        """
        return None


def check_antennas(count: int) -> None:
    """Raise ValueError if the number of receive antennas is not from 1 to 256."""
    if not 1 <= count <= MAX_ANTENNAS:
        raise ValueError(f"the number of receive antennas must be from 1 to {MAX_ANTENNAS}, got {count}")


def check_received(response: Response) -> None:
    """Raise ValueError for a response without antennas, for which there are no weights."""
    if not response.shape[1]:
        raise ValueError(
            "a response must have at least one antenna, [devices, antennas, blocks, subcarriers], got shape "
            f"{list(response.shape)}"
        )


def combine(weights: Complex, response: Response) -> Complex:
    """Return the effective channel g_i = a^H h_i, [devices, blocks, subcarriers].

    weights: a, [antennas, blocks, subcarriers]; response: [devices, antennas, blocks, subcarriers]; axes of length 1
    broadcast. Noise CN(0, N_0) on every antenna is CN(0, N_0) after combining, because ||a|| = 1.
    """
    if len(weights) != response.shape[1]:
        raise ValueError(f"weights must be for {response.shape[1]} antennas, as the response, got {len(weights)}")
    # One antenna at a time, to avoid another array of [devices, antennas, blocks, subcarriers].
    effective = weights[0].conj() * response[:, 0]
    for antenna in range(1, len(weights)):
        effective += weights[antenna].conj() * response[:, antenna]
    return np.asarray(effective, dtype=np.complex128)


def channel_vectors(response: Response, factors: Array) -> Complex:
    """Return scaled channels w_i h_i, [coefficients, devices, antennas]; a coefficient is a subcarrier of a block."""
    devices, antennas, blocks, subcarriers = response.shape
    check_received(response)
    vectors = np.moveaxis(response, (2, 3), (0, 1)).reshape(blocks * subcarriers, devices, antennas)
    return np.asarray(vectors * np.asarray(factors)[:, None], dtype=np.complex128)


def as_weights(vectors: Complex, response: Response) -> Complex:
    """Reshape vectors [coefficients, antennas] to weights [antennas, blocks, subcarriers] for a response."""
    return np.ascontiguousarray(vectors.T).reshape(response.shape[1:])


def unit(vectors: Complex) -> Complex:
    """Scale vectors [..., antennas] to unit norm; a zero vector becomes the unit vector of the first antenna."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    first = np.zeros(vectors.shape[-1])
    first[0] = 1.0
    return np.asarray(np.where(norms > 0, vectors / np.where(norms > 0, norms, 1.0), first))
