"""The inverse problems: the noise with which a run meets a target epsilon, and the run that given noise allows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy.optimize import brentq

from airfl.errors import UserError
from airfl.privacy.accountants import accountant_of_settings
from airfl.privacy.bounds import bounds
from airfl.privacy.events import Event, Gaussian, repeated
from airfl.privacy.statement import Statement

EventOf = Callable[[float], Event | tuple[Event, ...]]
"""Noise multiplier -> what a round releases about a participant, or several events, of which the worst counts."""

# Range of noise multipliers that are meaningful and within the accountants' numerical range.
SMALLEST, LARGEST = 1e-3, 1e4
ACCURACY = 1e-5
LARGEST_POPULATION = 10**9
# Relative accuracy of the populations, samples and rounds found.
SHARE = 0.02


def run_event(statement: Statement, event: Event, rounds: int, participations: int) -> Event:
    """Return what a run of equal rounds releases about the device with most participations.

    Args:
        statement: The privacy statement.
        event: What a round releases about a participant.
        rounds: T.
        participations: Rounds of that device, which count where the observer knows who takes part.
    """
    return repeated(statement.of_round(event), rounds if statement.hidden else participations)


def run_epsilon(statement: Statement, event: Event | tuple[Event, ...], rounds: int, participations: int) -> float:
    """Return an upper bound on epsilon of such a run; event: as by `EventOf`."""
    delta, accountant = statement.delta_of_noise, statement.accountant

    def epsilon_of(one: Event) -> float:
        released = run_event(statement, one, rounds, participations)
        return bounds(released, statement.adjacency, delta, accountant, lower=False).upper

    return max(map(epsilon_of, event if isinstance(event, tuple) else (event,)))


def smallest_noise(
    statement: Statement, epsilon: float, rounds: int, participations: int, event_of: EventOf = Gaussian
) -> float:
    """Return the smallest noise multiplier with which the whole run ends at epsilon or below, to a relative 1e-5.

    Raises UserError where no noise multiplier meets epsilon, and ValueError unless epsilon is positive.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon:g}")
    with accountant_of_settings():
        multiplier = smallest(lambda tried: run_epsilon(statement, event_of(tried), rounds, participations), epsilon)
    if multiplier is None:
        raise UserError(
            f"privacy.epsilon: no noise multiplier up to {LARGEST:g} meets {epsilon:g} over {rounds:,} rounds at delta "
            f"= {statement.delta:g}; raise epsilon, or run fewer rounds"
        )
    return multiplier


def smallest(epsilon_of: Callable[[float], float], epsilon: float) -> float | None:
    """Return the smallest noise multiplier with epsilon_of at most `epsilon`, to a relative 1e-5, or None."""

    def excess(log_multiplier: float) -> float:
        figure = epsilon_of(math.exp(log_multiplier))
        return math.log(max(figure, 1e-300) / epsilon) if math.isfinite(figure) else math.inf

    low, high = _bracket(excess)
    if high is None:
        return None
    if low is None:
        return SMALLEST
    root = float(brentq(excess, low, high, xtol=ACCURACY / 10))
    while excess(root) > 0:
        root += ACCURACY / 4
    return math.exp(root)


def _bracket(excess: Callable[[float], float]) -> tuple[float | None, float | None]:
    """Return logarithms of multipliers with too little and with enough noise, a factor of two apart; None for one that
    does not exist in range."""
    step, high = math.log(2), 0.0
    if excess(high) > 0:
        while excess(high) > 0:
            high += step
            if high > math.log(LARGEST):
                return high, None
        return _finite(excess, high - step, high), high
    while excess(high - step) <= 0:
        high -= step
        if high < math.log(SMALLEST):
            return None, high
    return _finite(excess, high - step, high), high


def _finite(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return a logarithm with too little noise at which epsilon is finite."""
    while math.isinf(excess(low)):
        low = (low + high) / 2
    return low


@dataclass(frozen=True)
class Remedies:
    """Single changes that would let a run meet a target epsilon, all else unchanged; None where no such change does.

    Attributes:
        noise_multiplier: Noise multiplier of every round.
        power_db: Reduction of the received amplitude of an update in dB; positive where one is needed.
        rounds: Largest T.
        devices: Smallest N.
        selected: Largest r.
    """

    noise_multiplier: float | None
    power_db: float | None
    rounds: int | None
    devices: int | None
    selected: int | None

    def in_words(self, over_the_air: bool) -> str:
        """Return the changes as one phrase; over_the_air: whether received power sets the noise multiplier."""
        ways = {
            "a received power {0:.1f} dB lower": self.power_db if over_the_air else None,
            "a noise multiplier of {0:.4g}": None if over_the_air else self.noise_multiplier,
            "T <= {0:,} rounds": self.rounds,
            "N >= {0:,} devices": self.devices,
            "r <= {0:,} selected": self.selected,
        }
        return ", or ".join(text.format(value) for text, value in ways.items() if value is not None) or "none"


def remedies(
    statement: Statement,
    epsilon: float,
    rounds: int,
    participations: int,
    multiplier: float,
    event_of: EventOf = Gaussian,
) -> Remedies:
    """Return the single changes that let a run whose rounds have this noise multiplier end at epsilon, at the same
    delta."""
    try:
        needed = smallest_noise(statement, epsilon, rounds, participations, event_of)
    except UserError:
        needed = None
    decibels = 20 * math.log10(needed / multiplier) if needed and multiplier > 0 else None
    if multiplier <= 0:
        return Remedies(needed, None, None, None, None)
    event = event_of(multiplier)

    def ends(changed: Statement, over: int) -> bool:
        return run_epsilon(changed, event, over, min(over, participations)) <= epsilon

    return Remedies(
        noise_multiplier=needed,
        power_db=decibels,
        rounds=_largest(lambda t: ends(statement, t), rounds),
        devices=_smallest_population(lambda n: ends(replace(statement, devices=n), rounds), statement),
        selected=_largest(lambda r: ends(replace(statement, selected=r), rounds), statement.selected)
        if statement.hidden
        else None,
    )


def _largest(enough: Callable[[int], bool], limit: int) -> int | None:
    """Return the largest integer up to `limit` that satisfies `enough`, which is monotone; None where 1 does not."""
    if enough(limit):
        return limit
    if not enough(1):
        return None
    low, high = 1, limit
    while high - low > max(1, SHARE * low):
        middle = math.isqrt(low * high) if high > 4 * low else (low + high) // 2
        middle = min(max(middle, low + 1), high - 1)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def _smallest_population(enough: Callable[[int], bool], statement: Statement) -> int | None:
    """Return the smallest N that satisfies `enough`, to a relative `SHARE`, or None."""
    if not statement.hidden:
        return None
    low, high = statement.devices, LARGEST_POPULATION
    if enough(low):
        return low
    if not enough(high):
        return None
    while high - low > max(1, SHARE * low):
        middle = max(math.isqrt(low * high), low + 1)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@functools.lru_cache(maxsize=256)
def calibrated(statement: Statement, epsilon: float, rounds: int, participations: int, seen: float = 1.0) -> float:
    """Return `smallest_noise` of Gaussian rounds, memoised. seen: share that a mask leaves, see `Gaussian`."""
    return smallest_noise(statement, epsilon, rounds, participations, lambda tried: Gaussian(tried, seen))
