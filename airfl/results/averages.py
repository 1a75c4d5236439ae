"""Mean, deviation and 95% interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Average:
    """Of `count` values: mean, sample standard deviation, ends of Student's 95% interval of the mean; deviation and
    interval are nan for one value, and where a value is not finite."""

    count: int
    mean: float
    deviation: float = math.nan
    low: float = math.nan
    high: float = math.nan

    @property
    def half_width(self) -> float:
        """Of the interval; nan where there is none."""
        return self.high - self.mean


def average(values: Sequence[float]) -> Average:
    """Over seeds. Without any value everything is nan."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return Average(0, math.nan)
    with np.errstate(invalid="ignore"):
        mean = float(array.mean())
    if array.size < 2 or not np.isfinite(array).all():
        return Average(array.size, mean)
    from scipy.special import stdtrit

    deviation = float(array.std(ddof=1))
    half = float(stdtrit(array.size - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(array.size)
    return Average(array.size, mean, deviation, mean - half, mean + half)
