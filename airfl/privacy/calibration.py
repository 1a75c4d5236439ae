"""The inverse questions: which noise ends a run at an epsilon, and which run the noise there is would do for."""

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

EventOf = Callable[[float], Event]
"""Noise multiplier -> what a round releases of somebody who is in it."""

# Between no meaning and the end of the accountants' numerics.
SMALLEST, LARGEST = 1e-3, 1e4
ACCURACY = 1e-5
LARGEST_POPULATION = 10**9
# Populations and samples that would do are told to so many per cent.
SHARE = 0.02


def run_event(statement: Statement, event: Event, rounds: int, participations: int) -> Event:
    """What a run of equal rounds releases of the device that is in most of them.

    rounds: T; participations: of that device, which count where the observer knows who takes part.
    """
    return repeated(statement.of_round(event), rounds if statement.hidden else participations)


def run_epsilon(statement: Statement, event: Event, rounds: int, participations: int) -> float:
    """Upper bound on epsilon of such a run."""
    released = run_event(statement, event, rounds, participations)
    return bounds(released, statement.adjacency, statement.delta_of_noise, statement.accountant, lower=False).upper


def smallest_noise(
    statement: Statement, epsilon: float, rounds: int, participations: int, event_of: EventOf = Gaussian
) -> float:
    """The smallest noise multiplier with which the whole run ends at epsilon, to 1e-5 and never above it.

    UserError where no noise does; ValueError unless epsilon is above 0.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon = {epsilon:g} asks for noise without end: give one above 0")
    with accountant_of_settings():
        found = smallest(lambda tried: run_epsilon(statement, event_of(tried), rounds, participations), epsilon)
    if found is None:
        raise UserError(
            f"privacy.epsilon: {epsilon:g} over {rounds:,} rounds is out of reach of any noise at delta = "
            f"{statement.delta:g} (noise multipliers up to {LARGEST:g}); ask for more, or run fewer rounds"
        )
    return found


def smallest(epsilon_of: Callable[[float], float], epsilon: float) -> float | None:
    """The smallest noise multiplier whose epsilon is not above `epsilon`, to 1e-5; None where there is none."""

    def excess(log_multiplier: float) -> float:
        found = epsilon_of(math.exp(log_multiplier))
        return math.log(max(found, 1e-300) / epsilon) if math.isfinite(found) else math.inf

    low, high = _bracket(excess)
    if high is None:
        return None
    if low is None:
        return SMALLEST
    found = float(brentq(excess, low, high, xtol=ACCURACY / 10))
    while excess(found) > 0:
        found += ACCURACY / 4
    return math.exp(found)


def _bracket(excess: Callable[[float], float]) -> tuple[float | None, float | None]:
    """Logarithms with too little and with enough noise, a factor of two apart; None where there are no such."""
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
    """A number with too little noise at which epsilon is finite."""
    while math.isinf(excess(low)):
        low = (low + high) / 2
    return low


@dataclass(frozen=True)
class WouldDo:
    """What would end a run at an epsilon with all else as it is; None where nothing of the kind would.

    Attributes:
        noise_multiplier: Noise multiplier of every round.
        power_db: By how much the received amplitude of an update has to fall, in dB; above 0 where it has to.
        rounds: T, at most.
        devices: N, at least.
        selected: r, at most.
    """

    noise_multiplier: float | None
    power_db: float | None
    rounds: int | None
    devices: int | None
    selected: int | None

    def in_words(self, over_the_air: bool) -> str:
        """One phrase, with what there is; over_the_air: whether power has to do with it."""
        ways = {
            "a received power {0:.1f} dB lower": self.power_db if over_the_air else None,
            "a noise multiplier of {0:.4g}": None if over_the_air else self.noise_multiplier,
            "T <= {0:,} rounds": self.rounds,
            "N >= {0:,} devices": self.devices,
            "r <= {0:,} selected": self.selected,
        }
        return ", or ".join(text.format(value) for text, value in ways.items() if value is not None) or "nothing"


def what_would_do(
    statement: Statement,
    epsilon: float,
    rounds: int,
    participations: int,
    multiplier: float,
    event_of: EventOf = Gaussian,
) -> WouldDo:
    """Of a run whose rounds have this noise multiplier; delta stays what it is."""
    try:
        needed = smallest_noise(statement, epsilon, rounds, participations, event_of)
    except UserError:
        needed = None
    decibels = 20 * math.log10(needed / multiplier) if needed and multiplier > 0 else None
    if multiplier <= 0:
        return WouldDo(needed, None, None, None, None)
    event = event_of(multiplier)

    def ends(changed: Statement, over: int) -> bool:
        return run_epsilon(changed, event, over, min(over, participations)) <= epsilon

    return WouldDo(
        noise_multiplier=needed,
        power_db=decibels,
        rounds=_largest(lambda t: ends(statement, t), rounds),
        devices=_smallest_population(lambda n: ends(replace(statement, devices=n), rounds), statement),
        selected=_largest(lambda r: ends(replace(statement, selected=r), rounds), statement.selected)
        if statement.hidden
        else None,
    )


def _largest(enough: Callable[[int], bool], limit: int) -> int | None:
    """The largest whole number up to `limit` that is enough, 1 being the easiest; None where that is not."""
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
    """The smallest N that is enough, in whole per cents."""
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
def calibrated(statement: Statement, epsilon: float, rounds: int, participations: int) -> float:
    """`smallest_noise` of Gaussian rounds, kept."""
    return smallest_noise(statement, epsilon, rounds, participations)
