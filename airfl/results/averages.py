"""Mean, deviation and 95% interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
FEWEST = 3
"""Values from which on there is an interval: of two, Student's is 12.7 times as wide as half of what lies between."""
Bounds = tuple[float, float]
SHARE: Bounds = (0.0, 1.0)
PERCENT: Bounds = (0.0, 100.0)
NOT_NEGATIVE: Bounds = (0.0, math.inf)
"""Costs, losses, norms, epsilons: every figure of a run that is no share."""


def bounds_of(figure: str) -> Bounds:
    """Within which a figure of `Summary`, or of a course, lies."""
    return SHARE if figure.endswith(("accuracy", "share")) else NOT_NEGATIVE


@dataclass(frozen=True)
class Average:
    """Mean of some values, and how sure it is.

    The interval is Student's, cut to the range that the quantity has: a mean outside of it is impossible, so that the
    rest covers the true one as often (Mandelkern, Statistical Science 17, 2002).

    Attributes:
        count: How many values.
        mean: Their mean.
        deviation: Sample standard deviation; nan of one value, and where a value is not finite.
        low: Lower end of the 95% interval of the mean; nan of fewer than three values, and where a value is not finite.
        high: Upper end of that interval, nan likewise.
        values: What the mean is of.
    """

    count: int
    mean: float
    deviation: float = math.nan
    low: float = math.nan
    high: float = math.nan
    values: tuple[float, ...] = ()

    @property
    def below(self) -> float:
        """From the interval's lower end to the mean; nan where there is none."""
        return self.mean - self.low

    @property
    def above(self) -> float:
        """From the mean to the interval's upper end; nan where there is none."""
        return self.high - self.mean

    @property
    def points(self) -> tuple[float, ...]:
        """The values where they are too few for an interval, and more than one."""
        return self.values if 1 < len(self.values) < FEWEST else ()

    def written(self, write: Callable[[float], str]) -> str:
        """The mean and its interval, as `mean ± half`, or `mean (low to high)` where an end is cut; of two values
        both."""
        text = write(self.mean)
        if self.points:
            return "; ".join(map(write, self.points))
        if not math.isfinite(self.low):
            return text
        if math.isclose(self.below, self.above, rel_tol=1e-9, abs_tol=1e-300):
            return f"{text} ± {write(self.above)}"
        return f"{text} ({write(self.low)} to {write(self.high)})"


def average(values: Sequence[float], within: Bounds = (-math.inf, math.inf)) -> Average:
    """Over seeds, of a quantity within these bounds. Without any value everything is nan."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return Average(0, math.nan)
    kept = tuple(array.tolist())
    with np.errstate(invalid="ignore"):
        mean = float(array.mean())
    if array.size < 2 or not np.isfinite(array).all():
        return Average(array.size, mean, values=kept)
    deviation = float(array.std(ddof=1))
    if array.size < FEWEST:
        return Average(array.size, mean, deviation, values=kept)
    from scipy.special import stdtrit

    half = float(stdtrit(array.size - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(array.size)
    return Average(array.size, mean, deviation, max(mean - half, within[0]), min(mean + half, within[1]), kept)
