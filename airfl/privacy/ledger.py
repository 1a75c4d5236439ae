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
from airfl.privacy.accountants.bins import Bins, Released, distinct, on_lattice
from airfl.privacy.accountants.tight import epsilon_alone
from airfl.privacy.bounds import epsilon, least
from airfl.privacy.disclosure import Disclosure, followed
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Composed,
    Event,
    Gaussian,
    Release,
    composed,
    has_binomial,
    inverse_square,
    releases,
    repeated,
    weight,
    without_masks,
)
from airfl.privacy.statement import Statement
from airfl.storage.fingerprint import is_own

if TYPE_CHECKING:
    from numpy.typing import NDArray

# With more different rounds than FEW, noise is rounded down by at most the share LATTICE, so that rounds share computed
# loss distributions.
FEW = 48
LATTICE = 0.005
# Width of the bins for lower bounds, which may be a little too low.
COARSE_BINS = 0.05
# Sizes of the pool that hides a sample are rounded to values a factor of e^POOLS apart.
POOLS = 0.01
# Different releases that are stored of one device before they are binned.
MOST_TRACKED = 256


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
        return self._view.at_least(self.released, self._delta), max(of_rounds, default=math.nan)

    def _figure(self, event: Event, adjacency: Adjacency) -> float:
        alone = epsilon_alone(event, adjacency, self._delta)
        return epsilon(event, adjacency, self._delta) if alone is None else alone


class WorstRounds:
    """The rounds with the least noise, one for each kind of what beta discloses."""

    def __init__(self) -> None:
        self._worst: dict[tuple[bool, int, int] | None, tuple[float, Event, Disclosure | None]] = {}

    def enter(self, event: Event, disclosure: Disclosure | None) -> None:
        """Enter a round, whose noise must be Gaussian."""
        kind = None if disclosure is None else (len(disclosure.named) > 0, disclosure.sample, disclosure.pool)
        heavy = weight(event)
        if kind not in self._worst or heavy > self._worst[kind][0]:
            self._worst[kind] = heavy, event, disclosure

    @property
    def rounds(self) -> list[tuple[Event, Disclosure | None]]:
        """What these rounds released, and what beta disclosed in them."""
        return [(event, disclosure) for _, event, disclosure in self._worst.values()]


class ObserverView:
    """What the observer sees of a run: for an upper bound the most that any device may have released, for a lower bound
    what particular devices did release.

    Devices that beta identifies are tracked individually, as in `Participation`, as if no mask were laid over what they
    release in these rounds, unless the whole sample is taken to be known. In addition every device counts as hidden in
    every round, which is a bound also for those that were identified or excluded in it.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._participation = Participation(statement.devices, list_all=is_own(statement.accountant))
        self._new: dict[Event, int] = {}
        self._hidden: dict[Event, int] = {}
        self._tracked = followed(statement.devices).tolist()
        self._totals = [Tally(MOST_TRACKED) for _ in self._tracked]
        self._named: dict[int, Tally] = {}
        self._discloses = False

    def enter(self, event: Event, devices: NDArray[np.int64] | None, disclosure: Disclosure | None) -> None:
        """Enter a round of these devices (None: all), and what beta revealed about them."""
        if not self._statement.hidden:
            self._participation.enter(event, devices)
            return
        hidden = self._statement.of_round(event, with_rounded_pool(disclosure, self._statement.devices))
        self._new[hidden] = self._new.get(hidden, 0) + 1
        if disclosure is None:
            return
        self._discloses = True
        whole_sample = not (disclosure.exact or disclosure.pool)
        self._participation.enter(event if whole_sample else without_masks(event), disclosure.named)
        if disclosure.exact:
            self._track(event, disclosure)

    @property
    def took_part(self) -> NDArray[np.int64]:
        """The devices that are known to have taken part."""
        return np.flatnonzero(self._participation.weights)

    @property
    def sums(self) -> bool:
        """Whether everything returned by `new_releases` so far, composed, bounds what was released."""
        return not (self._participation.list_all and self._participation.lists)

    @property
    def lists(self) -> bool:
        """Whether `listed` bounds what was released, and may do so more tightly."""
        return self._participation.lists

    def new_releases(self) -> Composed:
        """Return what was released since the previous call."""
        new, self._new = self._new, {}
        for event, count in new.items():
            self._hidden[event] = self._hidden.get(event, 0) + count
        return Composed((*new.items(), *self._participation.new_releases().parts))

    def listed(self) -> Composed:
        """Return what all rounds before the last `new_releases` released, with the releases that do not compose to one
        in a list."""
        return Composed((*self._hidden.items(), *self._participation.listed().parts))

    def at_least(self, released: Event, delta: float) -> float:
        """Return a lower bound on epsilon, nan where none is known. released: what all rounds released."""
        figures = [least(event, self._statement.adjacency, delta) for event in self._of_single_devices(released)]
        return max(figures, default=math.nan)

    def _of_single_devices(self, released: Event) -> list[Event]:
        """Return what a few single devices released, one of which is likely to have the largest epsilon."""
        statement = self._statement
        if statement.of_devices:
            times = self._participation.weights / weight(statement.participation)
            if not np.isfinite(times).all():
                return [released]
            worst = int(np.argmax(times * np.array([weight(one) for one in statement.of_devices])))
            return [repeated(statement.of_devices[worst], round(times[worst]))]
        if self.lists and not statement.hidden:
            weights = self._participation.weights
            if not np.isfinite(weights).all():
                return [released]
            return [self._participation.listed_of(int(np.argmax(weights)))]
        if not self._discloses:
            return [released]
        totals = [[tally.event for tally in tallies] for tallies in (self._totals, self._named.values())]
        likely = [max(events, key=weight, default=NOTHING) for events in totals]
        return [event for event in likely if event.parts]

    def _track(self, event: Event, disclosure: Disclosure) -> None:
        """Add the round to the totals of the tracked devices, and to those of the identified devices, which hold only
        rounds that identify them: at most what they released."""
        named, released = disclosure.named.tolist(), Released(event)
        for device in named:
            self._named.setdefault(device, Tally(MOST_TRACKED)).add(released)
        rounded = with_rounded_pool(disclosure, self._statement.devices, upwards=True)
        hidden = Released(self._statement.of_round(event, rounded))
        for device, total, is_hidden in zip(self._tracked, self._totals, disclosure.hidden.tolist(), strict=True):
            if is_hidden:
                total.add(hidden)
            elif device in named:
                total.add(released)


class Tally:
    """Counts of releases: exact while there are few different ones, then in bins of their noise, rounded up. The event
    has at most the epsilon of everything added."""

    def __init__(self, few: int) -> None:
        self._few = few
        self._counts: dict[Release, int] = {}
        self._bins: Bins | None = None

    @property
    def many(self) -> bool:
        """Whether the releases are binned, because there are many different ones."""
        return self._bins is not None

    @property
    def event(self) -> Composed:
        """Everything added."""
        return Composed(tuple(self._counts.items())) if self._bins is None else self._bins.event

    def add(self, event: Event | Released) -> None:
        """Add an event."""
        if self._bins is not None:
            self._bins.add(event)
            return
        released = event if isinstance(event, Released) else Released(event)
        for release, count in released.parts:
            self._counts[release] = self._counts.get(release, 0) + count
        if len(self._counts) > self._few:
            bins = Bins(COARSE_BINS, upwards=True)
            bins.add(self.event)
            self._bins, self._counts = bins, {}


def with_rounded_pool(disclosure: Disclosure | None, devices: int, upwards: bool = False) -> Disclosure | None:
    """Return the disclosure with its pool rounded down (upwards: up) to N e^(-k POOLS) for an integer k, at least the
    sample, so that rounds share computed loss distributions."""
    if disclosure is None or not disclosure.pool:
        return disclosure
    steps = math.log(devices / disclosure.pool) / POOLS
    if upwards:
        pool = math.ceil(devices * math.exp(-math.floor(steps) * POOLS))
    else:
        pool = math.floor(devices * math.exp(-math.ceil(steps) * POOLS))
    pool = max(min(pool, devices), disclosure.sample, 1)
    return Disclosure(disclosure.named, disclosure.sample, pool, disclosure.hidden, disclosure.exact)


class Participation:
    """The releases that every device took part in, and the growth of the largest total.

    Gaussian releases are summed as 1/z^2 and others are counted. The maximum of each over devices bounds every device,
    and is attained by one device where all rounds are of one kind. Gaussian releases that do not compose to one are
    listed for each device: no device releases more than one whose j-th least noise is, for every j, the least of all
    devices' j-th.
    """

    def __init__(self, devices: int, list_all: bool = False) -> None:
        """Begin with no releases.

        Args:
            devices: N.
            list_all: Whether to list all Gaussian releases, for an accountant by which they may not compose to one, and
                not only those behind masks. They are then left out of `new_releases`.
        """
        self._devices = devices
        self.list_all = list_all
        self._inverse_squares, self._unlisted = np.zeros(devices), np.zeros(devices)
        self._listed: list[tuple[Gaussian, NDArray[np.int32]]] = []
        self._counts: dict[Release, NDArray[np.int64]] = {}
        self._reported_inverse_square = 0.0
        self._reported: dict[Release, int] = {}

    def enter(self, event: Event, devices: NDArray[np.int64] | None) -> None:
        """Enter a round of these devices (None: all)."""
        who = slice(None) if devices is None else devices
        for release, count in releases(event):
            if isinstance(release, Gaussian):
                squares = count * inverse_square(release.noise_multiplier)
                self._inverse_squares[who] += squares
                if release.seen < 1 or self.list_all:
                    ids = np.arange(self._devices) if devices is None else devices
                    self._listed += [(release, ids.astype(np.int32))] * count
                else:
                    self._unlisted[who] += squares
            else:
                counted = self._counts.setdefault(release, np.zeros(self._devices, dtype=np.int64))
                counted[who] += count

    @property
    def lists(self) -> bool:
        """Whether some Gaussian releases are listed."""
        return bool(self._listed)

    def listed_of(self, device: int) -> Composed:
        """Return the listed releases that a device took part in; many are binned, with their noise rounded up."""
        tally = Tally(FEW)
        for release, devices in self._listed:
            if device in devices:
                tally.add(release)
        return tally.event

    def listed(self) -> Composed:
        """Return releases that bound those of every device, with those that are listed one by one."""
        summed = float(self._unlisted.max(initial=0.0))
        gaussian: list[tuple[Event, int]] = [(Gaussian(1 / math.sqrt(summed)), 1)] if summed else []
        counted = [(release, int(counts.max(initial=0))) for release, counts in self._counts.items()]
        return Composed((*gaussian, *counted, (self._most_listed(), 1)))

    def _most_listed(self) -> Composed:
        if not self._listed:
            return NOTHING
        devices = np.concatenate([ids for _, ids in self._listed])
        noise = np.repeat(
            [release.noise_multiplier for release, _ in self._listed], [len(ids) for _, ids in self._listed]
        )
        order = np.lexsort((noise, devices))
        devices, noise = devices[order], noise[order]
        rank = np.arange(len(devices)) - np.searchsorted(devices, devices)
        least_noise = np.full(int(rank.max(initial=-1)) + 1, np.inf)
        np.minimum.at(least_noise, rank, noise)
        seen = max(release.seen for release, _ in self._listed)
        return composed(Gaussian(one, seen) for one in least_noise.tolist())

    @property
    def weights(self) -> NDArray[np.float64]:
        """The `weight` of what every device released, [devices]."""
        total = self._inverse_squares.copy()
        for release, counted in self._counts.items():
            who = counted > 0
            total[who] += weight(release) * counted[who]
        return total

    def new_releases(self) -> Composed:
        """Return the growth since the previous call."""
        grown: list[tuple[Event, int]] = []
        inverse_square = 0.0 if self.list_all else float(self._inverse_squares.max(initial=0.0))
        if inverse_square > self._reported_inverse_square:
            grown.append((Gaussian(1 / math.sqrt(inverse_square - self._reported_inverse_square)), 1))
            self._reported_inverse_square = inverse_square
        for release, counts in self._counts.items():
            most = int(counts.max(initial=0))
            if most > self._reported.get(release, 0):
                grown.append((release, most - self._reported.get(release, 0)))
                self._reported[release] = most
        return Composed(tuple(grown))
