"""An amplifier at an operating point: what it does to a resource element of an OFDM signal.

Samples of an OFDM signal are close to complex Gaussian. The output of an amplifier without memory is then
y = alpha x + d with d uncorrelated to x (Bussgang's theorem). The gain is expanded into the polynomials that are
orthogonal for such an input, y = sum_n a_n phi_n(x), phi_n(x) = x L_n^(1)(|x|^2)/sqrt(n + 1), with the generalised
Laguerre polynomials L_n^(1): alpha = a_0, and E|d|^2 = sum_{n >= 1} |a_n|^2. Term n has the autocorrelation
|a_n|^2 r |r|^2n for one of r of the input (Price's theorem), hence as spectrum the (2n + 1)-fold convolution of that of
the input. What falls outside of the band does not disturb the message.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.hardware.amplifier import Amplifier, Gains

TERMS = 16
"""Terms of the expansion beyond the first; what is left is taken to have the spectrum of the last one."""
_NODES, _REACH = 200, 60.0  # of the quadrature; e^-60 of the exponential law is left out
_LARGEST_BACK_OFF = 1e12


@dataclass(frozen=True)
class OperatingPoint:
    """An amplifier with a complex Gaussian input of unit power.

    Attributes:
        gain: alpha, the complex gain of the part of the output that is proportional to the input.
        power: E|y|^2 of the output, in and out of the band.
        amplitude: E|y|.
        terms: a_1, a_2, ... of the distortion, complex [TERMS].
    """

    gain: complex
    power: float
    amplitude: float
    terms: Gains

    @property
    def distortion(self) -> float:
        """E|d|^2 = E|y|^2 - |alpha|^2, in and out of the band."""
        return max(self.power - abs(self.gain) ** 2, 0.0)

    def in_band(self, subcarriers: int, turn: complex = 1.0) -> tuple[float, float]:
        """Return the distortion on the used subcarriers, as powers of the real and the imaginary part of an element.

        The split applies to real entries: their signal is conjugate symmetric in time, which the amplifier preserves,
        so that real coefficients a_n give a real distortion. For complex entries only the sum has a meaning.

        Args:
            subcarriers: K, number of used subcarriers.
            turn: Factor of modulus 1 by which the output is turned.
        """
        shares = in_band_shares(subcarriers)
        turned = self.terms * turn
        left = max(self.distortion - float((np.abs(self.terms) ** 2).sum()), 0.0)
        real, imaginary = (float((part**2 * shares).sum()) for part in (turned.real, turned.imag))
        # What the expansion leaves out is in phase with the output where the gain is real.
        sideways = float((turned.imag**2).sum()) / max(float((np.abs(turned) ** 2).sum()), np.finfo(np.float64).tiny)
        rest = left * float(shares[-1])
        return real + rest * (1.0 - sideways), imaginary + rest * sideways


def operating_point(amplifier: Amplifier, back_off: float) -> OperatingPoint:
    """Return what an amplifier does to a complex Gaussian input.

    Gain and power are in closed form where the amplifier has one, and integrals otherwise.

    Args:
        amplifier: The amplifier.
        back_off: rho, input power at saturation over the mean input power; inf for a linear amplifier.

    Raises ValueError for a back-off that is not positive.
    """
    if not back_off > 0:
        raise ValueError(f"back_off must be positive, got {back_off:g}")
    if back_off > _LARGEST_BACK_OFF:
        return OperatingPoint(1.0, 1.0, math.sqrt(math.pi) / 2, np.zeros(TERMS, dtype=np.complex128))
    return _operating_point(amplifier, float(back_off))


@functools.lru_cache(maxsize=4096)
def _operating_point(amplifier: Amplifier, back_off: float) -> OperatingPoint:
    # Two panels that meet at saturation, where a limiter has an edge.
    nodes, weights = _panels(min(back_off, _REACH / 2))
    gains = amplifier.gain(np.sqrt(nodes / back_off))
    density = weights * np.exp(-nodes)
    terms = _laguerre(nodes) @ (density * nodes * gains)
    amplitude = float((density * np.sqrt(nodes) * np.abs(gains)).sum())
    exact = amplifier.closed_form(back_off)
    if exact is None:
        return OperatingPoint(
            complex(terms[0]), float((density * nodes * np.abs(gains) ** 2).sum()), amplitude, terms[1:]
        )
    return OperatingPoint(
        exact.gain, exact.power, amplitude if math.isnan(exact.amplitude) else exact.amplitude, terms[1:]
    )


def _panels(edge: float) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss and Legendre on [0, edge] and [edge, reach]."""
    unit, weights = np.polynomial.legendre.leggauss(_NODES)
    panels = ((0.0, edge), (edge, _REACH))
    nodes = np.concatenate([low + (high - low) * (unit + 1) / 2 for low, high in panels])
    return nodes, np.concatenate([(high - low) / 2 * weights for low, high in panels])


def _laguerre(points: Array) -> Array:
    """Return L_n^(1)(t)/sqrt(n + 1) for n = 0 to TERMS, [TERMS + 1, points], by the three-term recurrence."""
    rows = [np.ones_like(points), 2.0 - points]
    for n in range(1, TERMS):
        rows.append(((2 * n + 2 - points) * rows[n] - (n + 1) * rows[n - 1]) / (n + 1))
    return np.array(rows) / np.sqrt(np.arange(1, TERMS + 2))[:, None]


@functools.lru_cache(maxsize=64)
def in_band_shares(subcarriers: int) -> NDArray[np.float64]:
    """Return the share of distortion of order 3, 5, ..., 2 TERMS + 1 that falls on the K used subcarriers, [TERMS].

    It is the share of the central K of the (2n + 1)-fold convolution of K equal powers. For large K this is the
    probability that the sum of 2n + 1 numbers, uniform in +-1/2, is within +-1/2: 2/3 of order 3, 11/20 of order 5.
    """
    if subcarriers < 1:
        raise ValueError(f"subcarriers must be at least 1, got {subcarriers}")
    shares, one = np.empty(TERMS), np.full(subcarriers, 1.0 / subcarriers)
    length = (2 * TERMS + 1) * (subcarriers - 1) + 1
    size = 1 << (length - 1).bit_length()
    spectrum = np.fft.rfft(one, size)
    for n in range(1, TERMS + 1):
        powers = np.fft.irfft(spectrum ** (2 * n + 1), size)
        first = n * (subcarriers - 1)
        shares[n - 1] = powers[first : first + subcarriers].sum()
    shares.flags.writeable = False
    return shares
