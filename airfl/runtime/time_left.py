"""Estimates of the time left, which vary little: they use the mean over all rounds so far.

Evaluated rounds are counted separately, and one-time costs such as compilation are left out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEW = 2
"""Rounds of a kind that are needed for an estimate."""
LONGEST = 4.0
"""A duration counts as at most this many times the median: the machine may have been asleep or busy."""
MEMORY = 2000
"""Number of latest durations that are kept."""


@dataclass(frozen=True)
class Left:
    """An estimate of the time left.

    Attributes:
        seconds: Time in s.
        at_least: Whether it is a lower bound, because the duration of something ahead is still unknown.
    """

    seconds: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'at least ' if self.at_least else ''}{duration(self.seconds)} left"

    def __add__(self, other: Left) -> Left:
        return Left(self.seconds + other.seconds, self.at_least or other.at_least)


def duration(seconds: float) -> str:
    """Format a duration, such as 12 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def typical(seconds: Sequence[float]) -> float:
    """Return the mean of durations, each limited to `LONGEST` times their median; nan if there are none."""
    values = np.asarray(seconds, dtype=np.float64)
    return float(np.minimum(values, LONGEST * np.median(values)).mean()) if len(values) else math.nan


@dataclass(frozen=True)
class RunLength:
    """The rounds of a run.

    Attributes:
        rounds: Number of rounds.
        evaluate_every: Rounds between evaluations (the last one is also evaluated); None if unknown.
    """

    rounds: int
    evaluate_every: int | None = None

    def evaluations(self, done: int, share: float = 0.0) -> int:
        """Return how many of the rounds after the first `done` are evaluated.

        share: the share of evaluated rounds so far, used if `evaluate_every` is unknown.
        """
        if self.evaluate_every is None:
            return round(share * (self.rounds - done))
        last = done < self.rounds and self.rounds % self.evaluate_every > 0
        return self.rounds // self.evaluate_every - done // self.evaluate_every + last


class Pace:
    """The durations of rounds, separately for first rounds of a run, evaluated rounds, and others."""

    def __init__(self) -> None:
        self._first: deque[float] = deque(maxlen=MEMORY)
        self._plain: deque[float] = deque(maxlen=MEMORY)
        self._evaluated: deque[float] = deque(maxlen=MEMORY)

    def add(self, seconds: float, evaluated: bool, first: bool) -> None:
        """Add the duration of a round. The first one in a process also loads, compiles and fills caches."""
        (self._first if first else self._evaluated if evaluated else self._plain).append(seconds)

    @property
    def share_evaluated(self) -> float:
        """The share of evaluated rounds so far."""
        known = len(self._evaluated) + len(self._plain)
        return len(self._evaluated) / known if known else 0.0

    def left(self, run: RunLength, done: int) -> Left | None:
        """Estimate the time left of a run after `done` rounds; None while too little is known."""
        first = 0.0
        if not done:
            if not self._first:
                return None
            first, done = typical(self._first), 1
        evaluated = run.evaluations(done, self.share_evaluated)
        plain = run.rounds - done - evaluated
        if plain and len(self._plain) < FEW:
            return None
        if not plain and evaluated and not self._evaluated:
            return None
        seconds = first + (plain * typical(self._plain) if plain else 0.0)
        if not evaluated:
            return Left(seconds)
        if self._evaluated:
            return Left(seconds + evaluated * typical(self._evaluated))
        # Evaluated rounds take at least as long as others.
        return Left(seconds + evaluated * typical(self._plain), at_least=True)

    @property
    def of_a_round(self) -> float:
        """The typical duration of a round in s; nan if unknown."""
        return typical(self._plain or self._evaluated)


class PointsLeft:
    """The time left of a sweep that runs several points at a time and starts one whenever another ends."""

    def __init__(self) -> None:
        self._begun: list[float] = []
        self._took: deque[float] = deque(maxlen=MEMORY)

    def begin(self, now: float, at_once: int, points: int) -> None:
        """Start with `at_once` of the points at time `now`."""
        self._begun = [now] * min(at_once, points)

    def ended(self, now: float, took: float, counts: bool, waiting: int) -> None:
        """Note that a point has ended, and that another one has started if any is waiting.

        Args:
            now: Time in s.
            took: The point's duration in s; nan if unknown.
            counts: Whether its duration is typical, unlike that of a point that failed.
            waiting: Number of points that have not started.
        """
        if self._begun:
            started = min(self._begun, key=lambda begun: abs(now - took - begun)) if took == took else min(self._begun)
            self._begun.remove(started)
            if counts:
                self._took.append(now - started if took != took else took)
        if waiting > 0:
            self._begun.append(now)

    def left(self, now: float, points: int) -> Left | None:
        """Estimate the time left for `points` that have not ended, including running ones; None while unknown."""
        each = typical(self._took)
        if math.isnan(each) or not self._begun:
            return None
        under_way = [max(each - (now - begun), 0.0) for begun in self._begun]
        waiting = max(points - len(under_way), 0)
        return Left(max((sum(under_way) + waiting * each) / len(under_way), max(under_way)))
