"""The ledger of a run: every round an event, what one round costs, what all rounds cost.

Where chance hides who took part, the rounds are amplified; where the observer knows it, or the channel decides it,
everybody pays for each of their own rounds in full, and the figure is that of whoever pays most. Where beta^t follows
from the selected devices and the observer knows all gains, it is both: those that beta names pay in full, the others
are hidden among those that beta leaves possible (see `Disclosure`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from airfl.privacy.accountants import account
from airfl.privacy.accountants.bins import Bins, on_lattice
from airfl.privacy.bounds import epsilon, least
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Composed,
    Event,
    Gaussian,
    NonPrivate,
    Release,
    Sampled,
    composed,
    has_binomial,
    inverse_square,
    noise_of,
    releases,
)
from airfl.privacy.statement import Statement
from airfl.uplinks.disclosure import Disclosure, followed

if TYPE_CHECKING:
    from numpy.typing import NDArray

# With more different rounds than this, noise is rounded down by no more than the share LATTICE, so that rounds share
# what is computed of them.
FEW = 48
LATTICE = 0.005
# A lower bound may be a little too low.
COARSE_BINS = 0.05
# Sizes of the pool that hides a sample are a factor of e^POOLS apart.
POOLS = 0.01
# Different releases that are kept of one device.
MOST_FOLLOWED = 256


@dataclass(frozen=True)
class PrivacyFigures:
    """Epsilon after a round.

    Attributes:
        epsilon_round: Tight epsilon of that round alone.
        epsilon: Composed so far, for the sampler that ran; nan where that was not asked for.
        epsilon_as_poisson: Composed so far as if sampling was Poisson; nan where that was not asked for, or has no
            figure.
        epsilon_at_least: What some pair of neighbours pays at least for the sampler that ran; nan but after the last
            round.
    """

    epsilon_round: float
    epsilon: float
    epsilon_as_poisson: float
    epsilon_at_least: float = math.nan


class PrivacyLedger:
    """Takes the events of a run's rounds, in order; composes when asked.

    An event is what the round released of somebody who was in it: `Gaussian`, `Binomial`, releases on samples of their
    records, `NonPrivate`, or nothing.
    """

    def __init__(self, statement: Statement, like: Event = NOTHING) -> None:
        """like: an event of the kind that will come, by which the accountant is named before there is any."""
        self.statement = statement
        named = account(statement.accountant, statement.adjacency)
        named.compose(statement.of_round(like))
        self.accountant = named.name
        self._delta = statement.delta_of_noise
        self._own = account(statement.accountant, statement.adjacency)
        self._poisson = account("auto", "add_remove")
        self._view = View(statement)
        self._pending: list[Event] = []
        self._entered = Tally(FEW)
        self._binomial = False
        self._one_round = functools.lru_cache(maxsize=256)(self._figure)

    @property
    def released(self) -> Composed:
        """Everything entered and composed so far, as the observer sees it; of many different rounds something that
        gives away no more, in bins."""
        return self._entered.event

    def of_one_round(self, event: Event, disclosure: Disclosure | None = None) -> float:
        """Tight epsilon of such a round by itself, of whoever pays most; nothing is entered."""
        adjacency = self.statement.adjacency
        hidden = self._one_round(self.statement.of_round(event, disclosure), adjacency)
        if disclosure is None or not len(disclosure.named):
            return hidden
        return max(hidden, self._one_round(event, adjacency))

    def of_one_round_as_poisson(self, event: Event) -> float:
        """The same accounted as Poisson sampling; nan for binomial noise, of which nothing is known there."""
        if has_binomial(event):
            return math.nan
        return self._one_round(self.statement.of_round_as_poisson(event), "add_remove")

    def record(
        self,
        event: Event,
        compose: bool,
        devices: NDArray[np.int64] | None = None,
        last: bool = False,
        disclosure: Disclosure | None = None,
    ) -> PrivacyFigures:
        """Enter a round of these devices (None: of all). After one without privacy everything is inf.

        last: of the run, so that the figure that only then is wanted is computed too; disclosure: what beta tells of
        who was selected, None for nothing.
        """
        own, poisson = self.enter(event, compose, devices, disclosure)
        one = self.of_one_round(event, disclosure)
        return PrivacyFigures(one, own, poisson, self._at_least(own) if last else math.nan)

    def end(self) -> tuple[float, float, float]:
        """Of a run that ends with the rounds entered so far: epsilon, epsilon as Poisson, at least so much."""
        own, poisson = self._composed() if self._pending else self._figures()
        return own, poisson, self._at_least(own)

    def enter(
        self,
        event: Event,
        compose: bool,
        devices: NDArray[np.int64] | None = None,
        disclosure: Disclosure | None = None,
    ) -> tuple[float, float]:
        """Enter a round without asking what it costs by itself; epsilon and epsilon as Poisson so far, where composed.

        A ledger that was told the rounds of another one in this way goes on as that one does.
        """
        self._pending.append(event)
        self._view.enter(event, devices, disclosure)
        self._binomial |= has_binomial(event)
        return self._composed() if compose else (math.nan, math.nan)

    def _composed(self) -> tuple[float, float]:
        statement, rounds, self._pending = self.statement, self._pending, []
        seen = self._view.more()
        self._entered.add(seen)
        self._own.compose(self._rounded(seen))
        if not self._binomial:
            # By the convention a device is hidden even from somebody who knows who took part.
            conventional = rounds if statement.level == "client" else [seen]
            self._poisson.compose(self._rounded(composed(map(statement.of_round_as_poisson, conventional))))
        return self._figures()

    def _figures(self) -> tuple[float, float]:
        """Of what is composed."""
        if self._binomial:
            return self._own.epsilon(self._delta), math.nan
        return self._own.epsilon(self._delta), self._poisson.epsilon(self._delta)

    def _rounded(self, event: Event) -> Event:
        """Where there are many different rounds."""
        return on_lattice([event], LATTICE) if self._entered.many else event

    def _at_least(self, own: float) -> float:
        """What a pair of neighbours pays for certain."""
        if self._binomial or not self.statement.attained:
            return math.nan
        return self._view.at_least(self.released, self._delta)

    def _figure(self, event: Event, adjacency: Adjacency) -> float:
        return epsilon(event, adjacency, self._delta)


class View:
    """What the observer sees of a run: for an upper bound everything that any one device may have paid, for a lower one
    what a certain device did pay.

    Devices that beta names are kept by device, as in `Participation`; everybody counts as hidden in every round, which
    bounds those that were named, or could not have been in it.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._participation = Participation(statement.devices)
        self._new: dict[Event, int] = {}
        self._followed = followed(statement.devices).tolist()
        self._paid = [Tally(MOST_FOLLOWED) for _ in self._followed]
        self._named: dict[int, Tally] = {}
        self._discloses = False

    def enter(self, event: Event, devices: NDArray[np.int64] | None, disclosure: Disclosure | None) -> None:
        """A round of these devices (None: of all), and what beta told of them."""
        if not self._statement.hidden:
            self._participation.enter(event, devices)
            return
        hidden = self._statement.of_round(event, coarser(disclosure, self._statement.devices))
        self._new[hidden] = self._new.get(hidden, 0) + 1
        if disclosure is None:
            return
        self._discloses = True
        self._participation.enter(event, disclosure.named)
        if disclosure.exact:
            self._follow(event, disclosure)

    def more(self) -> Composed:
        """What has come since this was asked before."""
        new, self._new = self._new, {}
        return Composed((*new.items(), *self._participation.more().parts))

    def pairs(self, released: Event) -> list[Event]:
        """Of some devices what they paid, one of which is likely to have paid most; released: of all rounds."""
        if not self._discloses:
            return [released]
        paid = [[tally.event for tally in tallies] for tallies in (self._paid, self._named.values())]
        likely = [max(events, key=_weight, default=NOTHING) for events in paid]
        return [event for event in likely if event.parts]

    def at_least(self, released: Event, delta: float) -> float:
        """What a pair of neighbours pays for certain, a lower bound on epsilon; nan where no such pair is known."""
        found = [least(pair, self._statement.adjacency, delta) for pair in self.pairs(released)]
        return max(found, default=math.nan)

    def _follow(self, event: Event, disclosure: Disclosure) -> None:
        """Some devices, and whoever is named: of these what they paid by name, which is no more than all they did."""
        for device in disclosure.named.tolist():
            self._named.setdefault(device, Tally(MOST_FOLLOWED)).add(event)
        hidden = self._statement.of_round(event, coarser(disclosure, self._statement.devices, upwards=True))
        for device, paid, is_hidden in zip(self._followed, self._paid, disclosure.hidden.tolist(), strict=True):
            if is_hidden:
                paid.add(hidden)
            elif device in disclosure.named:
                paid.add(event)


class Tally:
    """Releases and how often each came: as they are while there are few different ones, in bins of their noise, each
    counted as the one with most, from then on. An event that costs no more than all of them."""

    def __init__(self, few: int) -> None:
        self._few = few
        self._counts: dict[Release, int] = {}
        self._bins: Bins | None = None

    @property
    def many(self) -> bool:
        """Whether there have been more than a few different releases."""
        return self._bins is not None

    @property
    def event(self) -> Composed:
        """Everything added."""
        return Composed(tuple(self._counts.items())) if self._bins is None else self._bins.event

    def add(self, event: Event) -> None:
        """Enter an event."""
        if self._bins is not None:
            self._bins.add(event)
            return
        for release, count in releases(event):
            self._counts[release] = self._counts.get(release, 0) + count
        if len(self._counts) > self._few:
            bins = Bins(COARSE_BINS, upwards=True)
            bins.add(self.event)
            self._bins, self._counts = bins, {}


def _weight(paid: Event) -> float:
    """By which one device is known to have paid more than another: no more than a choice of who is accounted."""
    total = 0.0
    for release, count in releases(paid):
        if isinstance(release, NonPrivate):
            return math.inf
        rate = release.rate if isinstance(release, Sampled) else 1.0
        total += count * rate * inverse_square(noise_of(release).noise_multiplier)
    return total


def coarser(disclosure: Disclosure | None, devices: int, upwards: bool = False) -> Disclosure | None:
    """The same with its pool rounded down (upwards: up) to one of few sizes, so that rounds share what is computed of
    them: N and those a factor of e^POOLS apart, but not less than the sample."""
    if disclosure is None or not disclosure.pool:
        return disclosure
    steps = math.log(devices / disclosure.pool) / POOLS
    if upwards:
        pool = math.ceil(devices * math.exp(-math.floor(steps) * POOLS))
    else:
        pool = math.floor(devices * math.exp(-math.ceil(steps) * POOLS))
    return replace(disclosure, pool=max(min(pool, devices), disclosure.sample, 1))


class Participation:
    """What every device has taken part in, and by how much that of the one with most has grown.

    Gaussian releases are summed as 1/z^2, others counted: the largest over devices of each bounds them all, and is
    that of one device where rounds are of one kind.
    """

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._inverse_squares = np.zeros(devices)
        self._counts: dict[Release, NDArray[np.int64]] = {}
        self._told_inverse_square = 0.0
        self._told: dict[Release, int] = {}

    def enter(self, event: Event, devices: NDArray[np.int64] | None) -> None:
        """A round of these devices (None: of all)."""
        who = slice(None) if devices is None else devices
        for release, count in releases(event):
            if isinstance(release, Gaussian):
                self._inverse_squares[who] += count * inverse_square(release.noise_multiplier)
                continue
            counted = self._counts.setdefault(release, np.zeros(self._devices, dtype=np.int64))
            counted[who] += count

    def more(self) -> Composed:
        """What has come since this was asked before."""
        grown: list[tuple[Event, int]] = []
        inverse_square = float(self._inverse_squares.max(initial=0.0))
        if inverse_square > self._told_inverse_square:
            grown.append((Gaussian(1 / math.sqrt(inverse_square - self._told_inverse_square)), 1))
            self._told_inverse_square = inverse_square
        for release, counts in self._counts.items():
            most = int(counts.max(initial=0))
            if most > self._told.get(release, 0):
                grown.append((release, most - self._told.get(release, 0)))
                self._told[release] = most
        return Composed(tuple(grown))
