"""Privacy loss distributions, composed by Fourier transforms: an upper bound on epsilon, and a lower one.

`LossDistributions` is what pld.py and dominating_pair.py open. `Attained`: what a pair of neighbours pays for certain,
under either relation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

from airfl.privacy.accountants.accountant import LARGEST_MULTIPLIER, unsupported
from airfl.privacy.accountants.closed_form import SENSITIVITY, IgnoringSampling, amplified, release_epsilon
from airfl.privacy.accountants.fourier import FEW, Composition, Counted, Plan, planned
from airfl.privacy.accountants.lattice import Side
from airfl.privacy.accountants.pairs import Direction, Pair
from airfl.privacy.events import (
    Adjacency,
    Event,
    Gaussian,
    NonPrivate,
    Release,
    Sampled,
    noise_of,
    releases,
)

# Far beyond any meaning sampling is left out of account, or noise counted as no less than this, whichever is safe.
LARGEST_MU = 1e6
# How much finer a lattice is made for the next try, where the first, and the second, was too coarse for its figure.
FINER = (8, 4, 1)
# Releases whose losses lie within a step of one another are off by more of it.
QUIET = 16
# Figures of one release are by a closed form, solved for to so many digits.
SOLVED = 1e-9


class LossDistributions:
    """Composition of a pair of distributions for every release, on one side of its truth."""

    def __init__(self, name: str, adjacency: Adjacency, kinds: Mapping[type, tuple[Direction, ...]]) -> None:
        """kinds: the releases that there is a pair for, and its directions, the same number for all that have any."""
        self.name, self._adjacency, self._kinds = name, adjacency, kinds
        self._plain = IgnoringSampling(adjacency)
        self._releases: dict[Release, int] = {}
        directions = max(map(len, kinds.values()))
        self._composed = [_Growing("above", functools.partial(self._pair, index)) for index in range(directions)]

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Account`."""
        for release, count in releases(event, times):
            gaussian = isinstance(release, Gaussian) or amplified(release, self._adjacency)
            if not (isinstance(release, NonPrivate) or (gaussian and type(release) in self._kinds)):
                raise unsupported(self.name, release, self._adjacency)
            self._plain.compose(release, count)
            self._releases[release] = self._releases.get(release, 0) + count
            for composed in self._composed:
                composed.enter(release, count)

    def epsilon(self, delta: float) -> float:
        """See `Account`. A closed form where there is one, and never more than without the sample."""
        plain = self._plain.epsilon(delta)
        if sum(self._releases.values()) == 1:
            return release_epsilon(next(iter(self._releases)), self._adjacency, delta)
        sampled = any(not isinstance(release, Gaussian) for release in self._releases)
        if not sampled or not all(map(self._representable, self._releases)):
            return plain
        return min(plain, max(composed.epsilon(delta) for composed in self._composed))

    def _pair(self, index: int, release: Release) -> Pair:
        mu = SENSITIVITY[self._adjacency] / min(noise_of(release).noise_multiplier, LARGEST_MULTIPLIER)
        directions = self._kinds[type(release)]
        return _pair(directions[min(index, len(directions) - 1)], mu, release)

    def _representable(self, release: Release) -> bool:
        if isinstance(release, NonPrivate):
            return False
        return SENSITIVITY[self._adjacency] / noise_of(release).noise_multiplier < LARGEST_MU


class Attained:
    """A lower bound on epsilon: what one pair of neighbours pays, and never more than that.

    Under add/remove, somebody who contributes C to sums of Poisson samples, and leaves. Under replace-one, somebody
    among others who all contribute -C, and whose own contribution is C, or -C: their sum over a sample of fixed size is
    2C larger with probability r/N, and otherwise the same. nan for a release of which no such pair is known.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._known, self._bare = True, False
        self._releases: dict[Release, int] = {}
        self._mu_squared = 0.0
        self._composed = _Growing("below", self._pair)
        self._least = 0.0

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event."""
        for release, count in releases(event, times):
            if isinstance(release, NonPrivate):
                self._bare = True
            elif not (isinstance(release, Gaussian) or amplified(release, self._adjacency)):
                self._known = False
            else:
                self._releases[release] = self._releases.get(release, 0) + count
                self._composed.enter(release, count)

    def epsilon(self, delta: float) -> float:
        """A lower bound on epsilon of everything so far; delta must be the same every time."""
        if self._bare:
            return math.inf
        if not self._known:
            return math.nan
        if self._releases:
            self._least = max(self._least, self._figure(delta))
        return self._least

    def _figure(self, delta: float) -> float:
        alone = sum(self._releases.values()) == 1
        if not alone and any(isinstance(release, Sampled) for release in self._releases):
            loudest = min(self._releases, key=lambda release: noise_of(release).noise_multiplier)
            by_itself = release_epsilon(loudest, self._adjacency, delta) * (1 - SOLVED)
            return max(self._composed.epsilon(delta), by_itself if self._mu(loudest) <= LARGEST_MU else 0.0)
        mu = math.sqrt(sum(count * self._mu(release) ** 2 for release, count in self._releases.items()))
        if math.isinf(mu * mu):
            return math.inf  # as near as numbers go
        if mu > LARGEST_MU:
            # Of a Gaussian, delta(eps) >= 1/2 (1 - e^(eps - loss)) for whatever loss half of it is above.
            rate = min(release.rate if isinstance(release, Sampled) else 1.0 for release in self._releases)
            return max(0.0, (mu * mu / 2 - 10 * mu + math.log(rate)) * (1 - SOLVED)) if 2 * delta < rate else 0.0
        if alone:
            return release_epsilon(next(iter(self._releases)), self._adjacency, delta) * (1 - SOLVED)
        return release_epsilon(Gaussian(1 / mu), "add_remove", delta) * (1 - SOLVED)

    def _mu(self, release: Release) -> float:
        return SENSITIVITY[self._adjacency] / noise_of(release).noise_multiplier

    def _pair(self, release: Release) -> Pair | None:
        """None for noise so large that nothing is lost by leaving it out."""
        mu = min(self._mu(release), LARGEST_MU)
        return None if mu < 1 / LARGEST_MULTIPLIER / 100 else _pair("removed", mu, release)


class _Growing:
    """A composition that releases are entered into, and that is planned anew where what was planned does not do."""

    def __init__(self, side: Side, pair_of: Callable[[Release], Pair | None]) -> None:
        self._side: Side = side
        self._pair_of = pair_of
        self._all: dict[Pair, int] = {}
        self._new: dict[Pair, int] = {}
        self._composed: Composition | None = None
        self._delta = math.nan

    def enter(self, release: Release, count: int) -> None:
        """Enter a release so many times."""
        if isinstance(release, NonPrivate):
            return
        pair = self._pair_of(release)
        if pair is not None:
            self._all[pair] = self._all.get(pair, 0) + count
            self._new[pair] = self._new.get(pair, 0) + count

    def epsilon(self, delta: float) -> float:
        """The bound."""
        new: list[Counted] = list(self._new.items())
        self._new = {}
        if not self._all:
            return 0.0
        if self._composed is None or delta != self._delta or not self._composed.has_room_for(new):
            found = self._anew(delta)
        else:
            self._composed.add(new)
            found = self._composed.epsilon(delta)
        if self._side == "above":  # no loss is larger than the largest
            return min(found, math.fsum(count * pair.most for pair, count in self._all.items()) * (1 + SOLVED))
        return found

    def _anew(self, delta: float) -> float:
        """The bound by a new plan."""
        parts, self._delta = tuple(self._all.items()), delta
        if len(parts) > FEW:
            self._composed, found = _bounded(parts, delta, self._side)
        else:
            plan, found = _known(parts, delta, self._side)
            self._composed = Composition(plan, self._side)
            self._composed.add(parts)
        return found


def _bounded(parts: Sequence[Counted], delta: float, side: Side) -> tuple[Composition, float]:
    """The bound by a plan, and by finer ones where what is found is of the size of the steps of all releases: of rare
    releases with a tiny epsilon, or of many quiet ones beside loud ones, the lattice would be most."""
    step = math.inf
    for finer in FINER:
        plan = planned(parts, delta, side, step=step)
        composed = Composition(plan, side)
        composed.add(parts)
        found = composed.epsilon(delta)
        quiet = sum(count for pair, count in parts if pair.rate * pair.mu < plan.grid)
        if found >= plan.grid * (composed.releases + QUIET * quiet):
            break
        step = plan.grid / finer
    return composed, found


@functools.lru_cache(maxsize=256)
def _known(parts: tuple[Counted, ...], delta: float, side: Side) -> tuple[Plan, float]:
    """The plan and the bound for a few releases, kept because runs with other seeds or links often have the same."""
    composed, found = _bounded(parts, delta, side)
    return composed.plan, found


def _pair(direction: Direction, mu: float, release: Release) -> Pair:
    if isinstance(release, Sampled):
        return Pair(direction, mu, release.rate)
    return Pair("removed", mu, 1.0)
