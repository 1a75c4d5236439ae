"""Mean, standard deviation and 95% confidence interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
FEWEST = 3
"""Smallest number of values with an interval; for two, Student's half-width is 12.7 times half their difference."""
Bounds = tuple[float, float]
SHARE: Bounds = (0.0, 1.0)
PERCENT: Bounds = (0.0, 100.0)
NOT_NEGATIVE: Bounds = (0.0, math.inf)
"""Costs, losses, norms, epsilons: every figure of a run that is not a share."""


def bounds_of(figure: str) -> Bounds:
    """Return the range of a figure of `Summary` or of a course."""
    return SHARE if figure.endswith(("accuracy", "share")) else NOT_NEGATIVE


@dataclass(frozen=True)
class Average:
    """The mean of some values and its confidence interval.

    The interval is Student's, truncated to the range of the quantity. A mean outside the range is impossible, so
    truncation does not change the coverage (Mandelkern, Statistical Science 17, 2002).

    Attributes:
        count: Number of values.
        mean: Their mean.
        deviation: Sample standard deviation; nan for one value, and where a value is not finite.
        low: Lower end of the 95% interval of the mean; nan for fewer than three values, and where a value is not
            finite.
        high: Upper end of that interval, nan in the same cases.
        values: The values.
    """

    count: int
    mean: float
    deviation: float = math.nan
    low: float = math.nan
    high: float = math.nan
    values: tuple[float, ...] = ()

    @property
    def below(self) -> float:
        """The distance from the interval's lower end to the mean; nan without an interval."""
        return self.mean - self.low

    @property
    def above(self) -> float:
        """The distance from the mean to the interval's upper end; nan without an interval."""
        return self.high - self.mean

    @property
    def points(self) -> tuple[float, ...]:
        """The values where there are several but too few for an interval, else nothing."""
        return self.values if 1 < len(self.values) < FEWEST else ()

    def written(self, write: Callable[[float], str]) -> str:
        """Return the mean and its interval as text: `mean ± half`, or `mean (low to high)` where the interval is
        truncated. Two values are both written instead."""
        text = write(self.mean)
        if self.points:
            return "; ".join(map(write, self.points))
        if not math.isfinite(self.low):
            return text
        if math.isclose(self.below, self.above, rel_tol=1e-9, abs_tol=1e-300):
            return f"{text} ± {write(self.above)}"
        return f"{text} ({write(self.low)} to {write(self.high)})"


LOWER_BOUNDS = ("epsilon_at_least", "epsilon_round_at_least")
"""The epsilon that is a lower bound; all others are upper bounds, or claims."""


def epsilon_of_seeds(name: str, values: Sequence[float] | Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return what bounds the epsilon of every seed: the largest of upper bounds, the least of lower bounds.

    A mean of bounds bounds none of the runs.

    Args:
        name: Which epsilon, as in `Summary`.
        values: That of each seed, [seeds] or [seeds, rounds]; the result is nan where one of them is.
    """
    array = np.asarray(values, dtype=np.float64)
    return np.asarray(array.min(axis=0) if name in LOWER_BOUNDS else array.max(axis=0))


def average(values: Sequence[float], within: Bounds = (-math.inf, math.inf)) -> Average:
    """Return the average over seeds of a quantity within these bounds; all nan without any value."""
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return Average(0, math.nan)
    listed = tuple(array.tolist())
    with np.errstate(invalid="ignore"):
        mean = float(array.mean())
    if array.size < 2 or not np.isfinite(array).all():
        return Average(array.size, mean, values=listed)
    deviation = float(array.std(ddof=1))
    if array.size < FEWEST:
        return Average(array.size, mean, deviation, values=listed)
    from scipy.special import stdtrit

    half = float(stdtrit(array.size - 1, (1 + CONFIDENCE) / 2)) * deviation / math.sqrt(array.size)
    return Average(array.size, mean, deviation, max(mean - half, within[0]), min(mean + half, within[1]), listed)
