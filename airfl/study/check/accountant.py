"""Checks of accountants, as the conformance suite makes them for built-in ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

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
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread

DELTA = 1e-3
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")
KINDS: dict[str, Callable[[float], Event]] = {
    "Gaussian noise": Gaussian,
    "a Poisson sample": lambda noise: PoissonSampled(0.1, Gaussian(noise)),
    "a sample of fixed size": lambda noise: FixedSizeSampled(100, 1000, Gaussian(noise)),
}
NOISES, ROUNDS, DELTAS = (0.7, 0.9, 2.5), (1, 2, 9, 40), (1e-7, 1e-5, DELTA, 0.05)
UNKNOWN = PoissonSampled(0.1, PoissonSampled(0.1, Gaussian(1.0)))
"""A sample of a sample, for which no bound is known."""


def checks(accountant: Accountant, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of an accountant."""
    del overrides
    of = _Checks(accountant)
    return [
        Check("bounds", "it has a bound for Gaussian noise or a sample of it, under some adjacency", of.something),
        Check("nothing", "no event costs nothing, a release without privacy has no bound", of.nothing),
        Check("refusals", "events without a bound are rejected in one line", of.refusals),
        Check("rounds", "more rounds cost no less", of.rounds, after=("bounds",)),
        Check("noise", "more noise costs no more", of.noise, after=("bounds",)),
        Check("delta", "a larger delta costs no more", of.delta, after=("bounds",)),
        Check("order", "rounds cost the same composed at once, one by one and in any order", of.order, ("bounds",)),
        Check("proven", "epsilon is never below that of a known pair of neighbours", of.proven, after=("bounds",)),
        Check("parameters", "every parameter is read", of.parameters, after=("bounds",)),
    ]


class _Checks:
    """The checks of one accountant. Each returns what is wrong, or None."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant

    def something(self) -> str | None:
        """Check that not every event is rejected."""
        return None if list(self._accepted()) else "it rejects every event of Gaussian noise"

    def nothing(self) -> str | None:
        """Check epsilon without any release, and for a release without privacy."""
        for adjacency in ADJACENCIES:
            new = account(self._accountant, adjacency)
            for event in (NOTHING, Composed(((NOTHING, 3),)), Gaussian(math.inf)):
                if new.epsilon(DELTA) != 0:
                    return f"epsilon under {adjacency} must be 0 before any event, got {new.epsilon(DELTA):g}"
                new.compose(event)
            if new.epsilon(DELTA) != 0:
                return f"epsilon under {adjacency} must be 0 without any release, got {new.epsilon(DELTA):g}"
            new.compose(NonPrivate())
            if new.epsilon(DELTA) != math.inf:
                return (
                    f"epsilon under {adjacency} must be inf for a release without privacy, got {new.epsilon(DELTA):g}"
                )
        return None

    def refusals(self) -> str | None:
        """Check that events without a bound raise UnsupportedEventError with one line."""
        for adjacency, event in itertools.product(ADJACENCIES, [UNKNOWN, *(of(1.0) for of in KINDS.values())]):
            try:
                account(self._accountant, adjacency).compose(event)
            except UnsupportedEventError as error:
                if "\n" in str(error):
                    return f"it rejects {event!r} in several lines"
                continue
            except UserError:
                raise
            except Exception as error:
                return (
                    f"it rejects {event!r} under {adjacency} with {type(error).__name__}; raise UnsupportedEventError "
                    "with one line"
                )
            if event is UNKNOWN:
                return f"it accepts {event!r}, for which no bound is known; raise UnsupportedEventError"
        return None

    def rounds(self) -> str | None:
        """Check new accounts, and one to which rounds are added."""
        for adjacency, kind, of in self._accepted(rounds=2):
            event = of(NOISES[1])
            figures = [self._of(adjacency, repeated(event, count)) for count in ROUNDS]
            if not _rise(figures):
                return f"{kind} under {adjacency} costs {_listed(figures)} after {_listed(ROUNDS)} rounds"
            growing, parts = account(self._accountant, adjacency), []
            for _ in range(4):
                growing.compose(event)
                parts.append(growing.epsilon(DELTA))
            if not _rise(parts):
                return f"{kind} under {adjacency}, composed round by round, costs {_listed(parts)}"
        return None

    def noise(self) -> str | None:
        """Check one round with several noise multipliers."""
        for adjacency, kind, of in self._accepted():
            figures = [self._of(adjacency, of(noise)) for noise in NOISES]
            if not _rise(figures[::-1]):
                return f"{kind} under {adjacency} costs {_listed(figures)} at noise multipliers {_listed(NOISES)}"
        return None

    def delta(self) -> str | None:
        """Check new accounts, and one that is evaluated at several values of delta."""
        for adjacency, kind, of in self._accepted():
            opened = account(self._accountant, adjacency)
            opened.compose(of(NOISES[1]))
            apart = [self._of(adjacency, of(NOISES[1]), delta) for delta in DELTAS]
            for figures in (apart, [opened.epsilon(delta) for delta in reversed(DELTAS)][::-1]):
                if not _rise(figures[::-1]):
                    return f"{kind} under {adjacency} costs {_listed(figures)} at delta = {_listed(DELTAS)}"
        return None

    def order(self) -> str | None:
        """Check three different rounds in all orders."""
        for adjacency, kind, of in self._accepted(rounds=3):
            events = [of(noise) for noise in NOISES]
            whole = self._of(adjacency, composed(events))
            for order in itertools.permutations(events):
                parts: Account = account(self._accountant, adjacency)
                for event in order:
                    parts.compose(event)
                if not math.isclose(parts.epsilon(DELTA), whole, rel_tol=1e-3, abs_tol=1e-9):
                    return f"{kind} under {adjacency} costs {whole:g} at once, but {parts.epsilon(DELTA):g} one by one"
            times = account(self._accountant, adjacency)
            times.compose(events[0], 3)
            if not math.isclose(times.epsilon(DELTA), self._of(adjacency, repeated(events[0], 3)), rel_tol=1e-3):
                return f"{kind} under {adjacency}, composed with times=3, does not cost the same as three rounds"
        return None

    def proven(self) -> str | None:
        """Compare with the lower bound from pairs of neighbours that airfl reports along with epsilon."""
        for adjacency, kind, of in self._accepted():
            for noise, rounds in itertools.product(NOISES, (1, 40)):
                event = repeated(of(noise), rounds)
                if rounds > 1 and self._refused(adjacency, event):
                    continue
                figure, paid = self._of(adjacency, event), least(event, adjacency, DELTA)
                if figure < paid * (1 - 1e-3):
                    return (
                        f"{rounds} rounds of {kind} under {adjacency} cost {figure:g} at noise {noise:g}, but a pair "
                        f"of neighbours with epsilon {paid:g} is known: it is not an upper bound"
                    )
        return None

    def parameters(self) -> str | None:
        """Check that all parameters are read in one round of each event that it accepts."""
        spied, read = recording(self._accountant)
        for adjacency, _, of in self._accepted():
            opened = spied.open(adjacency)
            opened.compose(of(NOISES[1]))
            opened.epsilon(DELTA)
        return unread(self._accountant, read)

    def _accepted(self, rounds: int = 1) -> Iterator[tuple[Adjacency, str, Callable[[float], Event]]]:
        """Yield the events of which it accepts this number of rounds."""
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
    """Whether values do not decrease, up to the resolution of discretised loss distributions."""
    return all(before <= after * (1 + 1e-3) + 1e-9 for before, after in itertools.pairwise(figures))


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)
