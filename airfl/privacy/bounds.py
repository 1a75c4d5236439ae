"""Epsilon of an event as an upper and a lower figure that are close to each other, kept on disk."""

from __future__ import annotations

from dataclasses import dataclass

from airfl.privacy.accountants import ACCOUNTANTS, accountant
from airfl.privacy.accountants.bins import binned, distinct
from airfl.privacy.events import Adjacency, Event
from airfl.privacy.figures_on_disk import kept_figures

# Up to so many different releases none are put together.
FEW = 48
FIRST_WIDTH = 0.01
TOLERANCE = 0.02
MARGIN = 0.8
TRIES = 6


@dataclass(frozen=True)
class Bounds:
    """upper: what holds, and is reported; lower: the same accountant's figure, round by round, is not below it."""

    lower: float
    upper: float


def bounds(
    event: Event, adjacency: Adjacency, delta: float, name: str = "auto", tolerance: float = TOLERANCE
) -> Bounds:
    """Epsilon of an event by the accountant of that name.

    Many different rounds are put into bins, which are narrowed until both figures are within `tolerance` of each other;
    with few different rounds the figures are equal. UnsupportedEventError (a UserError) for an event that the
    accountant has no bound for.
    """
    fresh = accountant(name, adjacency)
    fresh.compose(event)  # what it refuses, it refuses before anything is looked up

    def compute() -> tuple[float, float]:
        if distinct(event) <= FEW:
            figure = epsilon(event, adjacency, delta, name)
            return figure, figure
        return _narrowed(event, adjacency, delta, name, tolerance)

    if not ACCOUNTANTS[name].slow:
        return Bounds(*compute())
    return Bounds(*kept_figures(fresh.name, adjacency, delta, tolerance, event, compute))


def epsilon(event: Event, adjacency: Adjacency, delta: float, name: str = "auto") -> float:
    """The accountant's figure with every round as it is: slow where there are many different ones."""
    fresh = accountant(name, adjacency)
    fresh.compose(event)
    return fresh.epsilon(delta)


def _narrowed(event: Event, adjacency: Adjacency, delta: float, name: str, tolerance: float) -> tuple[float, float]:
    width = FIRST_WIDTH
    for _ in range(TRIES):
        upper = epsilon(binned(event, width), adjacency, delta, name)
        lower = min(epsilon(binned(event, width, upwards=True), adjacency, delta, name), upper)
        if upper <= lower * (1 + tolerance):
            break
        gap = upper / lower - 1 if lower else 1.0
        width *= min(MARGIN * tolerance / gap, 0.5)
    return lower, upper
