"""What every accountant has to hold, as the conformance suite asks it of those that come with airfl."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from airfl.check.finding import Check
from airfl.check.reading import recording
from airfl.errors import UserError
from airfl.privacy.accountants import Account, Accountant, UnsupportedEventError, account
from airfl.privacy.bounds import epsilon, least
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    composed,
    repeated,
)

DELTA = 1e-3
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")
KINDS: dict[str, Callable[[float], Event]] = {
    "Gaussian noise": Gaussian,
    "a Poisson sample": lambda noise: PoissonSampled(0.1, Gaussian(noise)),
    "a sample of fixed size": lambda noise: FixedSizeSampled(100, 1000, Gaussian(noise)),
}
NOISES, ROUNDS, DELTAS = (0.7, 0.9, 2.5), (1, 2, 9, 40), (1e-7, 1e-5, DELTA, 0.05)
UNKNOWN = PoissonSampled(0.1, PoissonSampled(0.1, Gaussian(1.0)))
"""A sample of a sample, of which nobody has a bound."""


def checks(accountant: Accountant, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one accountant."""
    del overrides
    asked = Asked(accountant)
    return [
        Check("bounds", "it has a bound for Gaussian noise or a sample of it, under some adjacency", asked.something),
        Check("nothing", "nothing entered costs nothing, a release without privacy has no bound", asked.nothing),
        Check("refusals", "what it has no bound for is refused in one line", asked.refusals),
        Check("rounds", "more rounds cost no less", asked.rounds, after=("bounds",)),
        Check("noise", "more noise costs no more", asked.noise, after=("bounds",)),
        Check("delta", "a larger delta costs no more", asked.delta, after=("bounds",)),
        Check("order", "rounds cost the same at once, one by one and in any order", asked.order, after=("bounds",)),
        Check("proven", "it is never below what a pair of neighbours really pays", asked.proven, after=("bounds",)),
        Check("parameters", "every parameter is read", asked.parameters, after=("bounds",)),
    ]


class Asked:
    """An accountant and the questions that it is asked."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant

    def something(self) -> str | None:
        """That not everything is refused."""
        return None if list(self._accepted()) else "it refuses every event of Gaussian noise"

    def nothing(self) -> str | None:
        """The two ends."""
        for adjacency in ADJACENCIES:
            fresh = account(self._accountant, adjacency)
            for event in (NOTHING, Composed(((NOTHING, 3),)), Gaussian(math.inf)):
                if fresh.epsilon(DELTA) != 0:
                    return f"it gives {fresh.epsilon(DELTA):g} under {adjacency} with nothing entered; 0 is wanted"
                fresh.compose(event)
            if fresh.epsilon(DELTA) != 0:
                return f"it gives {fresh.epsilon(DELTA):g} under {adjacency} for no release at all; 0 is wanted"
            fresh.compose(NonPrivate())
            if fresh.epsilon(DELTA) != math.inf:
                return (
                    f"it gives {fresh.epsilon(DELTA):g} under {adjacency} for a release without privacy; inf is wanted"
                )
        return None

    def refusals(self) -> str | None:
        """By the error that airfl tells in one line."""
        for adjacency, event in itertools.product(ADJACENCIES, [UNKNOWN, *(of(1.0) for of in KINDS.values())]):
            try:
                account(self._accountant, adjacency).compose(event)
            except UnsupportedEventError as error:
                if "\n" in str(error):
                    return f"it refuses {event!r} in several lines"
                continue
            except UserError:
                raise
            except Exception as error:
                return (
                    f"it refuses {event!r} under {adjacency} by {type(error).__name__}; raise UnsupportedEventError "
                    "with one line"
                )
            if event is UNKNOWN:
                return f"it takes {event!r}, of which nobody has a bound; raise UnsupportedEventError"
        return None

    def rounds(self) -> str | None:
        """Both of fresh accounts, and of one that goes on."""
        for adjacency, kind, of in self._accepted(rounds=2):
            event = of(NOISES[1])
            figures = [self._of(adjacency, repeated(event, count)) for count in ROUNDS]
            if not _rise(figures):
                return f"{kind} under {adjacency} costs {_listed(figures)} after {_listed(ROUNDS)} rounds"
            going_on, parts = account(self._accountant, adjacency), []
            for _ in range(4):
                going_on.compose(event)
                parts.append(going_on.epsilon(DELTA))
            if not _rise(parts):
                return f"{kind} under {adjacency}, entered round by round, costs {_listed(parts)}"
        return None

    def noise(self) -> str | None:
        """At one round."""
        for adjacency, kind, of in self._accepted():
            figures = [self._of(adjacency, of(noise)) for noise in NOISES]
            if not _rise(figures[::-1]):
                return f"{kind} under {adjacency} costs {_listed(figures)} at noise multipliers {_listed(NOISES)}"
        return None

    def delta(self) -> str | None:
        """Of fresh accounts, and of one that is asked for several."""
        for adjacency, kind, of in self._accepted():
            opened = account(self._accountant, adjacency)
            opened.compose(of(NOISES[1]))
            apart = [self._of(adjacency, of(NOISES[1]), delta) for delta in DELTAS]
            for figures in (apart, [opened.epsilon(delta) for delta in reversed(DELTAS)][::-1]):
                if not _rise(figures[::-1]):
                    return f"{kind} under {adjacency} costs {_listed(figures)} at delta = {_listed(DELTAS)}"
        return None

    def order(self) -> str | None:
        """Of three different rounds."""
        for adjacency, kind, of in self._accepted(rounds=3):
            events = [of(noise) for noise in NOISES]
            whole = self._of(adjacency, composed(events))
            for order in itertools.permutations(events):
                parts: Account = account(self._accountant, adjacency)
                for event in order:
                    parts.compose(event)
                if not math.isclose(parts.epsilon(DELTA), whole, rel_tol=1e-3, abs_tol=1e-9):
                    return f"{kind} under {adjacency} costs {whole:g} at once and {parts.epsilon(DELTA):g} one by one"
            times = account(self._accountant, adjacency)
            times.compose(events[0], 3)
            if not math.isclose(times.epsilon(DELTA), self._of(adjacency, repeated(events[0], 3)), rel_tol=1e-3):
                return f"{kind} under {adjacency}, composed with times=3, is not three rounds"
        return None

    def proven(self) -> str | None:
        """Against the lower bound that every accountant's figure is reported with."""
        for adjacency, kind, of in self._accepted():
            for noise, rounds in itertools.product(NOISES, (1, 40)):
                event = repeated(of(noise), rounds)
                if rounds > 1 and self._refused(adjacency, event):
                    continue
                figure, paid = self._of(adjacency, event), least(event, adjacency, DELTA)
                if figure < paid * (1 - 1e-3):
                    return (
                        f"{rounds} rounds of {kind} under {adjacency} cost {figure:g} at noise {noise:g}, and "
                        f"neighbours are known that pay {paid:g}: it is no upper bound"
                    )
        return None

    def parameters(self) -> str | None:
        """By a round of something that it takes."""
        spied, read = recording(self._accountant)
        for adjacency, _, of in self._accepted():
            opened = spied.open(adjacency)
            opened.compose(of(NOISES[1]))
            opened.epsilon(DELTA)
        unread = sorted(self._accountant.values().keys() - read)
        return f"{', '.join(unread)} is never read" if unread else None

    def _accepted(self, rounds: int = 1) -> Iterator[tuple[Adjacency, str, Callable[[float], Event]]]:
        """The events that it takes so many rounds of."""
        for adjacency, (kind, of) in itertools.product(ADJACENCIES, KINDS.items()):
            if not self._refused(adjacency, repeated(of(1.0), rounds)):
                yield adjacency, kind, of

    def _refused(self, adjacency: Adjacency, event: Event) -> bool:
        try:
            account(self._accountant, adjacency).compose(event)
        except UnsupportedEventError:
            return True
        return False

    def _of(self, adjacency: Adjacency, event: Event, delta: float = DELTA) -> float:
        return epsilon(event, adjacency, delta, self._accountant)


def _rise(figures: Sequence[float]) -> bool:
    """To the grids of loss distributions."""
    return all(before <= after * (1 + 1e-3) + 1e-9 for before, after in itertools.pairwise(figures))


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)
