"""The analog-to-digital converter of a receiver: uniform quantisation of both parts of every sample, with ideal gain.

The gain control sets the input's root mean square for the least squared error of a Gaussian input (Max 1960), and the
output is rescaled so that the input has a gain of 1. What is left is noise that is uncorrelated to the input
(Bussgang's theorem; additive quantisation noise model).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from channels.draws import Array

MOST_BITS = 12
_SUMMED_BITS = 6  # beyond, errors are correlated as those of a quantiser without limits
_HARMONICS = 200


@dataclass(frozen=True)
class Converter:
    """A mid-rise quantiser with 2^bits levels for each of the real and the imaginary part.

    Attributes:
        bits: Resolution, 1 to 12.

    Raises ValueError for another resolution.
    """

    bits: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MOST_BITS:
            raise ValueError(f"bits must be 1 to {MOST_BITS}, got {self.bits}")

    @property
    def step(self) -> float:
        """Distance of the levels over the input's root mean square, for the least squared error."""
        return _best_step(self.bits)

    @property
    def thresholds(self) -> Array:
        """Decision thresholds over the input's root mean square, ascending, [2^bits - 1]."""
        return np.asarray((np.arange(1, 2**self.bits) - 2 ** (self.bits - 1)) * self.step)

    @property
    def gain(self) -> float:
        """E[x Q(x)] of a standard normal x: step times the sum of the densities at the thresholds (Stein's lemma)."""
        return float(self.step * _density(self.thresholds).sum())

    @property
    def distortion(self) -> float:
        """E[Q^2]/E[x Q]^2 - 1: power of the noise over that of the input, after rescaling. pi/2 - 1 for one bit."""
        return _second_moment(self.bits, self.step) / self.gain**2 - 1.0

    def quantise(self, samples: NDArray[np.complex128], rms: float) -> NDArray[np.complex128]:
        """Return the rescaled output for complex samples of which each part has this root mean square."""
        scale = self.step * rms
        highest = 2 ** (self.bits - 1) - 0.5

        def levels(part: Array) -> Array:
            return np.clip(np.floor(part / scale) + 0.5, -highest, highest) * scale / self.gain

        return np.asarray(levels(samples.real) + 1j * levels(samples.imag))

    def likeness(self, correlation: float) -> float:
        """Return the correlation coefficient of the noise of two Gaussian inputs with this correlation coefficient.

        For one bit it is (asin(c) - c)/(pi/2 - 1). Up to 6 bits it is computed by quadrature; beyond, it is that of a
        quantiser without limits, sum_m 6/(pi m)^2 exp(-(2 pi m/step)^2 (1 - c)), which is up to 0.16 lower.
        """
        c, sign = min(abs(correlation), 1.0), math.copysign(1.0, correlation)
        if c >= 1.0:
            return sign
        if self.bits > _SUMMED_BITS:
            m = np.arange(1, _HARMONICS + 1)
            decay = np.exp(-((2 * np.pi * m / self.step) ** 2) * (1.0 - c))
            return sign * float((6 / (np.pi * m) ** 2 * decay).sum())
        if self.bits == 1:
            return sign * (math.asin(c) - c) / (math.pi / 2 - 1.0)
        # Q averaged over the part of the input that the two do not share.
        shared = np.linspace(-8.0, 8.0, 4001)
        argument = (math.sqrt(c) * shared[:, None] - self.thresholds) / math.sqrt(1.0 - c)
        mean = self.step * (ndtr(argument).sum(axis=1) - (2**self.bits - 1) / 2)
        alike = float((mean**2 * _density(shared)).sum()) * (shared[1] - shared[0]) - c * self.gain**2
        return float(sign * alike / (self.distortion * self.gain**2))


def _density(x: Array) -> Array:
    return np.asarray(np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def _second_moment(bits: int, step: float) -> float:
    """Return E[Q^2] of a standard normal input."""
    half = 2 ** (bits - 1)
    edges = np.append(np.arange(half) * step, np.inf)
    return float(2 * (((np.arange(half) + 0.5) * step) ** 2 * np.diff(ndtr(edges))).sum())


@functools.cache
def _best_step(bits: int) -> float:
    """Return the step with the least squared error for a standard normal input."""

    def error(step: float) -> float:
        thresholds = (np.arange(1, 2**bits) - 2 ** (bits - 1)) * step
        return _second_moment(bits, step) - 2.0 * float(step * _density(thresholds).sum())

    # The range of inputs grows slowly with the resolution, from 1.6 times the root mean square to some 6 times.
    largest = 2.0 * 6.0 / 2**bits
    return float(minimize_scalar(error, bounds=(largest / 8, 2 * largest), method="bounded", options={"xatol": 1e-9}).x)
