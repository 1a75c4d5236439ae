"""How long it still takes, told so that it does not jump: by all rounds so far, those that are evaluated by themselves,
without what happens once, such as compiling."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEW = 2
"""Rounds of a kind before anything is said."""
LONGEST = 4.0
"""A round that takes so many times the median counts as that: a machine was asleep, or did something else."""
MEMORY = 2000


@dataclass(frozen=True)
class Left:
    """How long something will still take.

    Attributes:
        seconds: Time in s.
        at_least: Whether there is something ahead of which nobody knows yet how long it takes.
    """

    seconds: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'at least ' if self.at_least else ''}{duration(self.seconds)} left"

    def __add__(self, other: Left) -> Left:
        return Left(self.seconds + other.seconds, self.at_least or other.at_least)


def duration(seconds: float) -> str:
    """For people: 12 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def typical(seconds: Sequence[float]) -> float:
    """The mean, in which no value counts as more than `LONGEST` medians; nan without any."""
    values = np.asarray(seconds, dtype=np.float64)
    return float(np.minimum(values, LONGEST * np.median(values)).mean()) if len(values) else math.nan


@dataclass(frozen=True)
class Rounds:
    """The rounds of a run.

    Attributes:
        rounds: How many.
        evaluate_every: Every which one is evaluated, as the last one is; None where that is not known.
    """

    rounds: int
    evaluate_every: int | None = None

    def evaluations(self, done: int, seen: float = 0.0) -> int:
        """How many of the rounds after so many are evaluated. seen: the share so far, where nothing else is known."""
        if self.evaluate_every is None:
            return round(seen * (self.rounds - done))
        last = done < self.rounds and self.rounds % self.evaluate_every > 0
        return self.rounds // self.evaluate_every - done // self.evaluate_every + last


class Pace:
    """How long rounds take, the first of a run, those that are evaluated, and the others by themselves."""

    def __init__(self) -> None:
        self._first: deque[float] = deque(maxlen=MEMORY)
        self._plain: deque[float] = deque(maxlen=MEMORY)
        self._evaluated: deque[float] = deque(maxlen=MEMORY)

    def add(self, seconds: float, evaluated: bool, first: bool) -> None:
        """Another round. The first one of a process loads, compiles and fills caches."""
        (self._first if first else self._evaluated if evaluated else self._plain).append(seconds)

    @property
    def share_evaluated(self) -> float:
        """Of the rounds so far."""
        known = len(self._evaluated) + len(self._plain)
        return len(self._evaluated) / known if known else 0.0

    def left(self, run: Rounds, done: int) -> Left | None:
        """For the rounds of a run after so many; None as long as too little is known. Of a whole run its first round
        is one."""
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
        # They take as long as others at least.
        return Left(seconds + evaluated * typical(self._plain), at_least=True)

    @property
    def of_a_round(self) -> float:
        """A usual round, nan if none is known."""
        return typical(self._plain or self._evaluated)


class PointsLeft:
    """Time left of a sweep: so many points at a time, each begun when another has ended."""

    def __init__(self) -> None:
        self._begun: list[float] = []
        self._took: deque[float] = deque(maxlen=MEMORY)

    def begin(self, now: float, at_once: int, points: int) -> None:
        """So many of them run from now on."""
        self._begun = [now] * min(at_once, points)

    def ended(self, now: float, took: float, counts: bool, waiting: int) -> None:
        """A point has ended, and another of those waiting has begun. took: its own seconds, nan if nobody knows;
        counts: it says something of others, as one that failed does not."""
        if self._begun:
            started = min(self._begun, key=lambda begun: abs(now - took - begun)) if took == took else min(self._begun)
            self._begun.remove(started)
            if counts:
                self._took.append(now - started if took != took else took)
        if waiting > 0:
            self._begun.append(now)

    def left(self, now: float, points: int) -> Left | None:
        """For so many points that have not ended, those under way among them."""
        each = typical(self._took)
        if math.isnan(each) or not self._begun:
            return None
        under_way = [max(each - (now - begun), 0.0) for begun in self._begun]
        waiting = max(points - len(under_way), 0)
        return Left(max((sum(under_way) + waiting * each) / len(under_way), max(under_way)))
