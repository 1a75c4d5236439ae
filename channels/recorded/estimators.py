"""Estimators of a channel's statistics: correlation over an axis, spread, coherence bandwidth and K factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array

MOST_LAGS = 48
"""Lags at which the correlation over frequency or time is computed."""
HALF = 0.5
"""Correlation that defines the coherence bandwidth."""
DROP = 0.02
"""1 - |rho|^2 from which on a spread is taken from the curvature of the correlation: above rounding and below a bias of
about this share."""
FEWEST_FADES = 32
"""Values of |h|^2 of a device from which on the K factor is estimated."""


@dataclass
class Correlation:
    """Sums for the correlation of each device at some lags along an axis.

    Attributes:
        lags: The lags in steps, [lags].
        product: Sum of h(x + lag) times the conjugate of h(x), [devices, lags].
        before: Sum of |h(x)|^2 over the same x, [devices, lags].
        after: Sum of |h(x + lag)|^2, [devices, lags].
    """

    lags: NDArray[np.int64]
    product: NDArray[np.complex128]
    before: Array
    after: Array

    @staticmethod
    def over(length: int, devices: int) -> Correlation:
        """Return empty sums for an axis: lags up to half of it, about evenly spread in their logarithm."""
        lags = np.unique(np.geomspace(1, max(length // 2, 1), MOST_LAGS).astype(np.int64))
        shape = (devices, len(lags))
        return Correlation(lags, np.zeros(shape, np.complex128), np.zeros(shape), np.zeros(shape))

    def add(self, rows: slice, values: NDArray[np.complexfloating]) -> None:
        """Add values of some devices, [devices, ..., x]."""
        power = np.abs(values).astype(np.float64) ** 2
        axes = tuple(range(1, values.ndim))
        for place, lag in enumerate(self.lags.tolist()):
            left, right = values[..., :-lag], values[..., lag:]
            self.product[rows, place] += (right * left.conj()).sum(axis=axes, dtype=np.complex128)
            self.before[rows, place] += power[..., :-lag].sum(axis=axes)
            self.after[rows, place] += power[..., lag:].sum(axis=axes)

    def modulus(self) -> Array:
        """Return |rho|, at most 1, [devices, lags]; nan without any power."""
        scale = np.sqrt(self.before * self.after)
        rho = np.divide(np.abs(self.product), scale, out=np.full(scale.shape, np.nan), where=scale > 0)
        return np.asarray(np.minimum(rho, 1))


def spread(moments: Array) -> Array:
    """Return the root mean square deviation of each device from sums of weights, values and squares, [3, devices]."""
    weight, first, second = moments
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = first / weight
        return np.asarray(np.sqrt(np.maximum(second / weight - mean**2, 0)))


def from_curvature(distances: NDArray[np.floating], rho: Array) -> Array:
    """Return sqrt(1 - |rho|^2) / (2 pi d) at the smallest distance where |rho| has dropped enough, or the largest."""
    drop = 1 - rho**2
    enough = drop >= DROP
    place = np.where(enough.any(axis=1), enough.argmax(axis=1), len(distances) - 1)
    chosen = np.take_along_axis(drop, place[:, None], axis=1)[:, 0]
    return np.asarray(np.sqrt(chosen) / (2 * np.pi * distances[place]))


def falls_to_half(distances: NDArray[np.floating], rho: Array) -> Array:
    """Return the distance at which |rho| first falls to 0.5, interpolated; infinite if it does not."""
    distances = np.concatenate([[0.0], distances])
    rho = np.concatenate([np.ones((len(rho), 1)), rho], axis=1)
    below = rho <= HALF
    place = np.maximum(below.argmax(axis=1), 1)
    right = np.take_along_axis(rho, place[:, None], axis=1)[:, 0]
    left = np.take_along_axis(rho, place[:, None] - 1, axis=1)[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (left - HALF) / (left - right)
    found = distances[place - 1] + share * (distances[place] - distances[place - 1])
    return np.where(np.isnan(rho[:, 1]), math.nan, np.where(below.any(axis=1), found, math.inf))


def k_factor_by_moments(fades: Array) -> tuple[float, int]:
    """Return K by moments and the number of values of a device; nan if there are too few."""
    counts, first, second = fades
    heard = counts > 0
    samples = int(counts[heard].min()) if heard.any() else 0
    if samples < FEWEST_FADES:
        return math.nan, samples
    counts, first, second = fades[:, heard]
    mean = first / counts
    variance = np.maximum(second / counts - mean**2, 0) * counts / (counts - 1)
    gamma = float(np.mean(variance / mean**2))
    line = math.sqrt(max(1 - gamma, 0.0))
    return (line / (1 - line) if line < 1 else math.inf), samples


def normalised(values: Array | None) -> Array:
    """Return values over the largest of them."""
    assert values is not None
    total = values.max(initial=0.0)
    return np.asarray(values / total if total > 0 else values)


def even(points: Array | None) -> bool:
    """Whether points are evenly spaced."""
    if points is None or len(points) < 2:
        return False
    steps = np.diff(points)
    return bool(np.allclose(steps, steps.mean(), rtol=1e-3, atol=0))


def spacing(points: Array | None) -> float:
    """Return the mean step from point to point; nan without two of them."""
    return float(np.diff(points).mean()) if points is not None and len(points) > 1 else math.nan
