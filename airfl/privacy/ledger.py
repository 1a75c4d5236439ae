"""The privacy ledger of a run: every round is an event, and the ledger gives epsilon of one round and of all rounds.

Where random sampling hides who takes part, rounds are amplified. Where the observer knows who takes part, or the
channel decides it, every device is charged for each of its rounds in full, and the figure is that of the device with
the largest epsilon. Where beta^t depends on the selected devices and the observer knows all gains, both apply: devices
that beta identifies are charged in full, the others are hidden among those that are possible given beta (see
`Disclosure`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.privacy.accountants import NamedAccount, account
from airfl.privacy.accountants.bins import distinct, on_lattice
from airfl.privacy.accountants.tight import epsilon_alone
from airfl.privacy.bounds import epsilon, least
from airfl.privacy.disclosure import Disclosure, Kind, kind_of
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Composed,
    Event,
    composed,
    has_binomial,
    weight,
)
from airfl.privacy.observer import FEW, ObserverView, Tally
from airfl.privacy.statement import Statement

if TYPE_CHECKING:
    from numpy.typing import NDArray

# With more different rounds than FEW, noise is rounded down by at most the share LATTICE, so that rounds share computed
# loss distributions.
LATTICE = 0.005


@dataclass(frozen=True)
class PrivacyFigures:
    """Epsilon after a round.

    Attributes:
        epsilon_round: Upper bound on epsilon of that round alone, tight without a random mask.
        epsilon: Composed so far, for the run's sampling; nan where it was not requested.
        epsilon_as_poisson: Composed so far as if the sampling were Poisson; nan where it was not requested or is not
            defined.
        epsilon_at_least: Lower bound on epsilon for the run's sampling; nan except after the last round.
        epsilon_round_at_least: Lower bound on epsilon of the worst round alone; nan except after the last round.
    """

    epsilon_round: float
    epsilon: float
    epsilon_as_poisson: float
    epsilon_at_least: float = math.nan
    epsilon_round_at_least: float = math.nan


class PrivacyLedger:
    """Enters the events of a run's rounds in order, and composes them on request.

    An event is what the round released about a participant: `Gaussian`, `Binomial`, releases on samples of its records,
    `NonPrivate`, or an empty event.
    """

    def __init__(self, statement: Statement, like: Event = NOTHING) -> None:
        """Open a ledger. like: an event of the kind that will be entered, which determines the accountant's name."""
        self.statement = statement
        named = account(statement.accountant, statement.adjacency)
        named.compose(statement.of_round(like))
        self.accountant = named.name
        self._delta = statement.delta_of_noise
        # One account for each number of samples that may be the worst.
        self._own, self._poisson = self._new_accounts(), self._new_accounts_as_poisson()
        # The same for releases in a list, see `ObserverView.listed`; opened anew whenever they are composed.
        self._own_listed: list[NamedAccount] = []
        self._poisson_listed: list[NamedAccount] = []
        self._reported = 0.0
        self._view = ObserverView(statement)
        self._pending: list[Event] = []
        self._entered = Tally(FEW)
        self._binomial = False
        self._worst = WorstRounds()
        self._one_round = functools.lru_cache(maxsize=256)(self._figure)

    @property
    def released(self) -> Composed:
        """Everything composed so far, as the observer sees it. Many different rounds are binned with their noise
        rounded up, which releases no more."""
        return self._entered.event

    def of_one_round(self, event: Event, disclosure: Disclosure | None = None) -> float:
        """Return an upper bound on epsilon of such a round alone, for the device with the largest; nothing is entered.
        It is tight without a random mask."""
        adjacency = self.statement.adjacency
        hidden = max(
            self._one_round(self.statement.of_round(one, disclosure), adjacency) for one in self.statement.of_all(event)
        )
        if disclosure is None or not len(disclosure.named):
            return hidden
        return max(hidden, self._one_round(event, adjacency))

    def of_one_round_at_least(self, event: Event, disclosure: Disclosure | None, devices: NDArray[np.int64]) -> float:
        """Return a lower bound on epsilon of such a round alone, nan where none is known; nothing is entered.

        devices: Those that take part in such rounds, which matters if they have different numbers of samples.
        """
        statement = self.statement
        if has_binomial(event) or not statement.attained:
            return math.nan
        if statement.hidden and disclosure is not None and not disclosure.exact:
            return math.nan  # the observer may know less than is accounted
        alone = {statement.of_devices[one] for one in devices.tolist()} if statement.of_devices else {event}
        observed = [statement.of_round(one, disclosure) for one in alone]
        if disclosure is not None and len(disclosure.named):
            observed.append(event)
        return max((least(one, statement.adjacency, self._delta) for one in observed), default=0.0)

    def of_one_round_as_poisson(self, event: Event) -> float:
        """Return the same for Poisson sampling; nan for binomial noise, which has no bound there."""
        if has_binomial(event):
            return math.nan
        statement = self.statement
        return max(self._one_round(statement.of_round_as_poisson(one), "add_remove") for one in statement.of_all(event))

    def record(
        self,
        event: Event,
        compose: bool,
        devices: NDArray[np.int64] | None = None,
        last: bool = False,
        disclosure: Disclosure | None = None,
    ) -> PrivacyFigures:
        """Enter a round and return its figures. After a round without privacy all composed figures are inf.

        Args:
            event: What the round released about a participant.
            compose: Whether to compute the composed figures.
            devices: The devices that took part, None for all.
            last: Whether this is the last round, so that the lower bound is computed as well.
            disclosure: What beta reveals about the selection, None for nothing.
        """
        composed, poisson = self.enter(event, compose, devices, disclosure)
        one = self.of_one_round(event, disclosure)
        return PrivacyFigures(one, composed, poisson, *(self._at_least() if last else (math.nan, math.nan)))

    def end(self) -> tuple[float, float, float, float]:
        """Return epsilon, epsilon as Poisson and both lower bounds of `PrivacyFigures` for a run that ends with the
        rounds entered so far."""
        composed, poisson = self._composed() if self._pending else self._figures()
        return composed, poisson, *self._at_least()

    def enter(
        self,
        event: Event,
        compose: bool,
        devices: NDArray[np.int64] | None = None,
        disclosure: Disclosure | None = None,
    ) -> tuple[float, float]:
        """Enter a round without computing its own epsilon, and return epsilon and epsilon as Poisson so far (nan unless
        `compose`).

        A new ledger that has entered the same rounds in this way continues exactly as the original one.
        """
        self._pending.append(event)
        self._view.enter(event, devices, disclosure)
        self._binomial |= has_binomial(event)
        if not self._binomial:
            self._worst.enter(event, disclosure)
        return self._composed() if compose else (math.nan, math.nan)

    def _composed(self) -> tuple[float, float]:
        statement, rounds, self._pending = self.statement, self._pending, []
        observed = self._view.new_releases()
        self._entered.add(observed)
        # The convention treats a device as hidden even from an observer who knows who took part.
        convention, by_record = statement.of_round_as_poisson, statement.level == "record"
        self._compose(self._own, observed, self._rounded)
        if by_record and not self._binomial:
            self._compose(self._poisson, observed, lambda event: self._rounded(convention(event)))
        elif not self._binomial:
            self._compose(self._poisson, composed(map(convention, rounds)), self._rounded)
        if self._view.lists:
            listed = self._view.listed()
            listed = on_lattice([listed], LATTICE) if distinct(listed) > FEW else listed
            self._own_listed, self._poisson_listed = self._new_accounts(), self._new_accounts_as_poisson()
            self._compose(self._own_listed, listed, lambda event: event)
            if by_record:
                self._compose(self._poisson_listed, listed, convention)
        return self._figures()

    def _compose(self, accounts: list[NamedAccount], observed: Event, change: Callable[[Event], Event]) -> None:
        """Enter what was observed, for each number of samples that may be the worst, after a change of the events."""
        for own, released in zip(accounts, self.statement.of_all(observed), strict=False):
            own.compose(change(released))

    def _new_accounts(self) -> list[NamedAccount]:
        """Open one account for each number of samples that may be the worst."""
        statement = self.statement
        return [account(statement.accountant, statement.adjacency) for _ in (NOTHING, *statement.worse)]

    def _new_accounts_as_poisson(self) -> list[NamedAccount]:
        return [account("auto", "add_remove") for _ in (NOTHING, *self.statement.worse)]

    def _figures(self) -> tuple[float, float]:
        """Return epsilon and epsilon as Poisson of everything composed."""
        own, by_record = self._largest(self._own), self.statement.level == "record"
        if self._own_listed:
            listed = self._largest(self._own_listed)
            own = min(own, listed) if self._view.sums else listed
        # New accounts round in other places, and may report a little less than the previous ones.
        self._reported = max(self._reported, own)
        if self._binomial:
            return self._reported, math.nan
        poisson = self._largest(self._poisson)
        if by_record and self._poisson_listed:
            poisson = min(poisson, self._largest(self._poisson_listed))
        return self._reported, poisson

    def _largest(self, accounts: list[NamedAccount]) -> float:
        return max(one.epsilon(self._delta) for one in accounts)

    def _rounded(self, event: Event) -> Event:
        """Return the event with its noise rounded down where there are many different rounds."""
        return on_lattice([event], LATTICE) if self._entered.many else event

    def _at_least(self) -> tuple[float, float]:
        """Return the lower bounds on epsilon of the run and of its worst round, nan where none are known."""
        if self._binomial or not self.statement.attained:
            return math.nan, math.nan
        of_rounds = [
            self.of_one_round_at_least(event, disclosure, self._view.took_part)
            for event, disclosure in self._worst.rounds
        ]
        known = [one for one in of_rounds if not math.isnan(one)]
        return self._view.at_least(self.released, self._delta), max(known, default=math.nan)

    def _figure(self, event: Event, adjacency: Adjacency) -> float:
        alone = epsilon_alone(event, adjacency, self._delta)
        return epsilon(event, adjacency, self._delta) if alone is None else alone


class WorstRounds:
    """The rounds with the least noise, one for each kind of what beta discloses."""

    def __init__(self) -> None:
        self._worst: dict[Kind | None, tuple[float, Event, Disclosure | None]] = {}

    def enter(self, event: Event, disclosure: Disclosure | None) -> None:
        """Enter a round, whose noise must be Gaussian."""
        kind = None if disclosure is None else kind_of(disclosure)
        heavy = weight(event)
        if kind not in self._worst or heavy > self._worst[kind][0]:
            self._worst[kind] = heavy, event, disclosure

    @property
    def rounds(self) -> list[tuple[Event, Disclosure | None]]:
        """What these rounds released, and what beta disclosed in them."""
        return [(event, disclosure) for _, event, disclosure in self._worst.values()]
