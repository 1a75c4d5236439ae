"""What the observer of a run sees of its devices: the releases that privacy figures are computed from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from airfl.privacy.accountants.bins import Bins, Released
from airfl.privacy.bounds import least
from airfl.privacy.disclosure import Disclosure, followed
from airfl.privacy.events import (
    NOTHING,
    Composed,
    Event,
    Gaussian,
    Release,
    composed,
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

# Most different releases that are kept one by one of everything that is released, and of one device; more are binned.
FEW, MOST_TRACKED = 48, 256
# Width of the bins for lower bounds, which may be a little too low.
COARSE_BINS = 0.05
# Sizes of the pool that hides a sample are rounded to values a factor of e^POOLS apart.
POOLS = 0.01


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
