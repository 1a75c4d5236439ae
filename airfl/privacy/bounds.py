"""Upper and lower bounds on epsilon of an event, cached on disk."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airfl.privacy.accountants import Accountant, account, accountant_of
from airfl.privacy.accountants.bins import binned, distinct
from airfl.privacy.accountants.loss_distributions import Attained
from airfl.privacy.events import Adjacency, Composed, Event
from airfl.privacy.figures_on_disk import cached_figures
from airfl.storage.fingerprint import is_own

# Events of at most this many different releases are not binned.
FEW = 48
FIRST_WIDTH = 0.01
TOLERANCE = 0.02
MARGIN = 0.8
TRIES = 6


@dataclass(frozen=True)
class Bounds:
    """Bounds on the exact epsilon of an event.

    Attributes:
        lower: Epsilon that some pair of neighbours attains (`Attained`), for any accountant; nan where no such pair is
            known.
        upper: The accountant's proven bound, which is the reported epsilon.
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
    """Return bounds on epsilon of an event.

    Many different rounds are binned by their noise: the upper bound uses the least noise of each bin, the lower bound
    the most. The bins are narrowed until they change the accountant's figure by at most `tolerance`.

    Args:
        event: What is released.
        adjacency: How neighbours differ.
        delta: Of the privacy statement.
        accountant: The accountant of the upper bound, or its name.
        tolerance: Relative error that binning may add.
        lower: Whether to compute the lower bound as well; else it is nan.

    Raises UnsupportedEventError (a UserError) for an event that the accountant has no bound for.
    """
    chosen = accountant_of(accountant)
    opened = account(chosen, adjacency)
    opened.compose(event)  # raises for an unsupported event before the cache is read

    def compute() -> tuple[float, float]:
        if distinct(event) <= FEW:
            upper, quieter = epsilon(event, adjacency, delta, chosen), event
        else:
            upper, quieter = _narrowed(event, adjacency, delta, chosen, tolerance)
        return least(quieter, adjacency, delta) if lower else math.nan, upper

    if not chosen.slow or is_own(chosen):  # different user-defined accountants may share a name
        return Bounds(*compute())
    label = f"{opened.name} {chosen!r}" if chosen.changed() else opened.name
    key = label if lower else f"{label}, upper bound alone"
    return Bounds(*cached_figures(key, adjacency, delta, tolerance, event, compute))


def least(event: Event, adjacency: Adjacency, delta: float) -> float:
    """Return the epsilon that some pair of neighbours attains, a lower bound; nan where no such pair is known."""
    attained = Attained(adjacency)
    attained.compose(event)
    return attained.epsilon(delta)


def epsilon(event: Event, adjacency: Adjacency, delta: float, accountant: str | Accountant = "auto") -> float:
    """Return the accountant's epsilon without binning, which is slow for many different rounds.

    Args:
        event: What is released.
        adjacency: How neighbours differ.
        delta: Of the privacy statement.
        accountant: The accountant, or its name.

    Raises UnsupportedEventError for an event that the accountant has no bound for.
    """
    opened = account(accountant, adjacency)
    opened.compose(event)
    return opened.epsilon(delta)


def _narrowed(
    event: Event, adjacency: Adjacency, delta: float, accountant: Accountant, tolerance: float
) -> tuple[float, Composed]:
    """Return the accountant's epsilon of the binned event, and the event in the same bins with the noise rounded up."""
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
