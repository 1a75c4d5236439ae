"""Epsilon of an event as an upper and a lower bound, kept on disk."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airfl.fingerprint import is_own
from airfl.privacy.accountants import Accountant, account, accountant_of
from airfl.privacy.accountants.bins import binned, distinct
from airfl.privacy.accountants.loss_distributions import Attained
from airfl.privacy.events import Adjacency, Composed, Event
from airfl.privacy.figures_on_disk import kept_figures

# Up to so many different releases none are put together.
FEW = 48
FIRST_WIDTH = 0.01
TOLERANCE = 0.02
MARGIN = 0.8
TRIES = 6


@dataclass(frozen=True)
class Bounds:
    """Bounds on the exact epsilon of an event.

    Attributes:
        lower: What a pair of neighbours pays for certain (`Attained`), whatever the accountant; nan where no such pair
            is known.
        upper: What holds, and is reported.
    """

    lower: float
    upper: float


def bounds(
    event: Event,
    adjacency: Adjacency,
    delta: float,
    accountant: str | Accountant = "auto",
    tolerance: float = TOLERANCE,
    lower: bool = True,
) -> Bounds:
    """Epsilon of an event, its upper bound by that accountant. lower: whether that is wanted, too.

    Many different rounds are put into bins, with the least noise of any in it for the upper and the most for the lower
    bound, which are narrowed until that moves the accountant's figure by no more than `tolerance`.
    UnsupportedEventError (a UserError) for an event that the accountant has no bound for.
    """
    chosen = accountant_of(accountant)
    fresh = account(chosen, adjacency)
    fresh.compose(event)  # what it refuses, it refuses before anything is looked up

    def compute() -> tuple[float, float]:
        if distinct(event) <= FEW:
            upper, quieter = epsilon(event, adjacency, delta, chosen), event
        else:
            upper, quieter = _narrowed(event, adjacency, delta, chosen, tolerance)
        return least(quieter, adjacency, delta) if lower else math.nan, upper

    if not chosen.slow or is_own(chosen):  # another user's, or the next version of it, may have the same name
        return Bounds(*compute())
    by = f"{fresh.name} {chosen!r}" if chosen.changed() else fresh.name
    kept = by if lower else f"{by}, upper bound alone"
    return Bounds(*kept_figures(kept, adjacency, delta, tolerance, event, compute))


def least(event: Event, adjacency: Adjacency, delta: float) -> float:
    """What a pair of neighbours pays for certain, a lower bound on epsilon; nan where no such pair is known."""
    attained = Attained(adjacency)
    attained.compose(event)
    return attained.epsilon(delta)


def epsilon(event: Event, adjacency: Adjacency, delta: float, accountant: str | Accountant = "auto") -> float:
    """The accountant's figure with every round as it is: slow where there are many different ones.

    Args:
        event: What was released.
        adjacency: How neighbours differ.
        delta: Of the statement.
        accountant: Itself, or its name.

    Raises UnsupportedEventError for an event that the accountant has no bound for.
    """
    fresh = account(accountant, adjacency)
    fresh.compose(event)
    return fresh.epsilon(delta)


def _narrowed(
    event: Event, adjacency: Adjacency, delta: float, accountant: Accountant, tolerance: float
) -> tuple[float, Composed]:
    """The accountant's figure of an event in bins, and the event in the same bins with no less noise than there was."""
    width = FIRST_WIDTH
    for _ in range(TRIES):
        quieter = binned(event, width, upwards=True)
        upper = epsilon(binned(event, width), adjacency, delta, accountant)
        other = min(epsilon(quieter, adjacency, delta, accountant), upper)
        if upper <= other * (1 + tolerance):
            break
        gap = upper / other - 1 if other else 1.0
        width *= min(MARGIN * tolerance / gap, 0.5)
    return upper, quieter
