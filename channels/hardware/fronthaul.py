"""The fronthaul of distributed antennas: samples are quantised at each, carried to a centre as bits, and combined.

Every antenna has a converter of its own (`channels.hardware.converter`), whose noise is not independent of that of the
others: what antennas receive is correlated. For jointly Gaussian inputs x_k and x_l of powers p_k and p_l with the
correlation rho = E[x_k x_l^*]/sqrt(p_k p_l), the quantisation noise has the covariance

    E[n_k n_l^*] = D sqrt(p_k p_l) (L(Re rho) + j L(Im rho)),

since both parts of a sample are quantised separately. L is the likeness of the converter and D its distortion.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.hardware.converter import Converter

Complex = NDArray[np.complex128]

_POINTS = 129
"""Number of correlations at which the likeness is tabulated."""
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class SecondMoments:
    """Second moments of the messages that the antennas receive on a resource element, without noise.

    Attributes:
        covariance: E[x_k x_l^*], complex [antennas, antennas].
        pseudo: E[x_k x_l], complex [antennas, antennas]; 0 if two independent entries share an element.
    """

    covariance: Complex
    pseudo: Complex


def combined_noise(converter: Converter, weights: Complex, moments: SecondMoments, white: float) -> float:
    """Return the variance of the converters' noise on the observed real part after combining, Re sum_k a_k^* n_k.

    Real entries make the signal conjugate symmetric in time, x(-t) = x(t)^* for each device, so that samples of two
    antennas at opposite times have the correlation E[x_k x_l]/sqrt(p_k p_l), and their noise is alike by so much.

    Args:
        converter: The converter of every antenna.
        weights: a, complex [antennas].
        moments: Second moments of the messages.
        white: Energy on an element and antenna of noise and interference, independent between antennas.
    """
    antennas = len(weights)
    covariance = moments.covariance + white * np.eye(antennas)
    scale = np.sqrt(np.maximum(covariance.diagonal().real, 0.0))
    over = np.where(scale > 0, scale, 1.0)
    over = over[:, None] * over
    both = _noise(converter, covariance / over)
    scaled = weights.conj() * scale
    power = float((scaled @ both @ scaled.conj()).real)
    turned = 0.0
    if moments.pseudo.any():
        turned = float((scaled @ _noise(converter, moments.pseudo / over) @ scaled).real)
    return max(converter.distortion * (power + turned) / 2, 0.0)


def carried_bits(converter: Converter, antennas: int, samples: int) -> int:
    """Return the bits of a round over the fronthaul: two parts of every sample of every antenna.

    samples: complex samples of a round at the bandwidth of the used subcarriers, without cyclic prefixes.
    """
    return 2 * converter.bits * antennas * samples


def _noise(converter: Converter, correlation: Complex) -> Complex:
    """Return the correlation of the noise of complex inputs with this correlation."""
    likeness = _likeness(converter)
    return np.asarray(likeness(correlation.real) + 1j * likeness(correlation.imag))


@functools.lru_cache(maxsize=16)
def _likeness(converter: Converter) -> Callable[[Array], Array]:
    """Return `Converter.likeness` for arrays, interpolated between correlations that are dense next to 1."""
    from scipy.interpolate import PchipInterpolator

    # In the root of 1 - c, the spread between the inputs, on whose ratio to the step the likeness depends.
    root = np.concatenate([[0.0], np.geomspace(min(converter.step, 1.0) / 50, 1.0, _POINTS - 1)])
    values = np.array([converter.likeness(1.0 - one**2) for one in root])
    curve = PchipInterpolator(root, np.where(values < _NEGLIGIBLE, 0.0, values))

    def likeness(correlations: Array) -> Array:
        c = np.clip(np.abs(correlations), 0.0, 1.0)
        return np.asarray(np.sign(correlations) * curve(np.sqrt(1.0 - c)))

    return likeness
