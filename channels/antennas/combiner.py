"""What a receive combiner is, and what it makes of the channel: g_i = a^H h_i with ||a|| = 1."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from channels.antennas.array import MOST_ANTENNAS
from channels.csi.state import Response
from channels.part import Part

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Combiner(Part):
    """A choice of the receive weights a.

    A user's own derives from it, has a name and `weights`, and may have parameters.

    Attributes:
        source: Where the choice is from.
        one_antenna: Whether the first antenna alone is heard whatever the channel is, so that what is combined fades as
            the channel of one antenna does.
    """

    source: ClassVar[str] = ""
    one_antenna: ClassVar[bool] = False

    @abstractmethod
    def weights(self, response: Response, factors: Array) -> Complex:
        """a, [antennas, blocks, subcarriers] (axes of length 1 as in the response), of unit norm over antennas.

        Args:
            response: As it is estimated, [devices, antennas, blocks, subcarriers].
            factors: Of the devices' reach, [devices]: w_i = sqrt(P_i)/rms_i, so that w_i |a^H h_i| is the largest
                amplitude with which a device can arrive. A device of factor 0 is left out.
        """


def check_antennas(count: int) -> None:
    """Refuse a number of receive antennas that is not 1 to 64."""
    if not 1 <= count <= MOST_ANTENNAS:
        raise ValueError(f"{count} receive antennas: give a whole number from 1 to {MOST_ANTENNAS}")


def combine(weights: Complex, response: Response) -> Complex:
    """Effective channel g_i = a^H h_i, [devices, blocks, subcarriers].

    weights: a, [antennas, blocks, subcarriers]; response: [devices, antennas, blocks, subcarriers]; axes of length 1
    broadcast. Noise CN(0, N_0) on every antenna is CN(0, N_0) after combining, as ||a|| = 1.
    """
    if len(weights) != response.shape[1]:
        raise ValueError(f"weights for {len(weights)} antennas, response of {response.shape[1]}: make them equal")
    # One antenna after the other: no array of [devices, antennas, blocks, subcarriers] is made.
    effective = weights[0].conj() * response[:, 0]
    for weight, antenna in zip(weights[1:], np.moveaxis(response, 1, 0)[1:], strict=True):
        effective += weight.conj() * antenna
    return np.asarray(effective, dtype=np.complex128)


def channel_vectors(response: Response, factors: Array) -> Complex:
    """Scaled channels w_i h_i, [coefficients, devices, antennas]; a coefficient is a subcarrier of a block."""
    devices, antennas, blocks, subcarriers = response.shape
    vectors = np.moveaxis(response, (2, 3), (0, 1)).reshape(blocks * subcarriers, devices, antennas)
    return np.asarray(vectors * np.asarray(factors)[:, None], dtype=np.complex128)


def as_weights(vectors: Complex, response: Response) -> Complex:
    """Vectors [coefficients, antennas] as weights [antennas, blocks, subcarriers] of that response."""
    return np.ascontiguousarray(vectors.T).reshape(response.shape[1:])


def unit(vectors: Complex) -> Complex:
    """Vectors [..., antennas] scaled to unit norm; a vector of zeros becomes the first antenna."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    first = np.zeros(vectors.shape[-1])
    first[0] = 1.0
    return np.asarray(np.where(norms > 0, vectors / np.where(norms > 0, norms, 1.0), first))
