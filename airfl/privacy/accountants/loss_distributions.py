"""Upper and lower bounds on epsilon by privacy loss distributions, composed by Fourier transforms.

`LossDistributions` is the account that pld.py and dominating_pair.py open. `Attained` gives a lower bound, the epsilon
of one pair of neighbours, under either relation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from airfl.privacy.accountants.accountant import LARGEST_MULTIPLIER, SENSITIVITY, unsupported
from airfl.privacy.accountants.closed_form import UnsampledGaussianAccount, amplified, release_epsilon
from airfl.privacy.accountants.fourier import FEW, Composition, CompositionPlan, Counted, planned
from airfl.privacy.accountants.lattice import Side
from airfl.privacy.accountants.pairs import Direction, DominatingPair
from airfl.privacy.events import (
    Adjacency,
    Event,
    Gaussian,
    NonPrivate,
    Release,
    Sampled,
    noise_of,
    releases,
    with_noise,
    without_mask,
)

# Above this mu, far beyond any useful epsilon, an upper bound ignores sampling and a lower bound replaces mu by it.
LARGEST_MU = 1e6
# Factors by which the lattice is refined for the second and third try, where its step is too large for the figure.
FINER = (8, 4, 1)
# Weight of the error of releases whose losses lie within one step of each other, in steps.
QUIET = 16
# Relative accuracy of figures that are solved for.
SOLVED = 1e-9


class LossDistributions:
    """The account that composes an upper bound on the loss distribution of every release."""

    def __init__(self, name: str, adjacency: Adjacency, kinds: Mapping[type, tuple[Direction, ...]]) -> None:
        """Open an account.

        Args:
            name: For reports and traces.
            adjacency: How neighbours differ.
            kinds: The supported types of releases with the directions of their pairs; a type with one direction uses it
                in place of any other.
        """
        self.name, self._adjacency, self._kinds = name, adjacency, kinds
        self._plain = UnsampledGaussianAccount(adjacency)
        self._releases: dict[Release, int] = {}
        directions = max(map(len, kinds.values()))
        self._composed = [_Growing("above", functools.partial(self._pair, index)) for index in range(directions)]

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        for release, count in releases(event, times):
            gaussian = isinstance(release, Gaussian) or amplified(release, self._adjacency)
            if not (isinstance(release, NonPrivate) or (gaussian and type(release) in self._kinds)):
                raise unsupported(self.name, release, self._adjacency)
            self._plain.compose(release, count)
            self._releases[release] = self._releases.get(release, 0) + count
            for composed in self._composed:
                composed.enter(release, count)

    def epsilon(self, delta: float) -> float:
        """Return epsilon, by a closed form where one exists, and at most the figure without sampling and masks."""
        if sum(self._releases.values()) == 1:
            return release_epsilon(next(iter(self._releases)), self._adjacency, delta)
        plain = self._plain.epsilon(delta)
        exact = all(isinstance(release, Gaussian) and release.seen == 1 for release in self._releases)
        if exact or not all(map(self._representable, self._releases)):
            return plain
        return min(plain, max(composed.epsilon(delta) for composed in self._composed))

    def _pair(self, index: int, release: Release) -> DominatingPair:
        mu = SENSITIVITY[self._adjacency] / min(noise_of(release).noise_multiplier, LARGEST_MULTIPLIER)
        directions = self._kinds[type(release)]
        return _pair(directions[min(index, len(directions) - 1)], mu, release, noise_of(release).seen)

    def _representable(self, release: Release) -> bool:
        if isinstance(release, NonPrivate):
            return False
        return SENSITIVITY[self._adjacency] / noise_of(release).noise_multiplier < LARGEST_MU


class Attained:
    """A lower bound on epsilon: the epsilon of one pair of neighbours.

    Under add/remove, the neighbours differ by a participant that contributes C to sums over Poisson samples. Under
    replace-one, a participant contributes C or -C while all others contribute -C: its sum over a sample of fixed size
    is 2C larger with probability r/N, and otherwise the same. The bound is nan for releases without a known pair.

    Of a contribution with equal entries a mask shows C sqrt(seen) in every release, of one with a single entry all or
    nothing, with probability `seen`. The bound is the larger one of both.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        """Open an account."""
        self._adjacency = adjacency
        self._known, self._non_private, self._masked = True, False, False
        self._releases: dict[Release, int] = {}
        self._composed = _Growing("below", self._pair)
        self._single = _Growing("below", self._pair_of_single)
        self._least = 0.0

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        for release, count in releases(event, times):
            if isinstance(release, NonPrivate):
                self._non_private = True
            elif not (isinstance(release, Gaussian) or amplified(release, self._adjacency)):
                self._known = False
            else:
                self._releases[release] = self._releases.get(release, 0) + count
                self._masked |= noise_of(release).seen < 1
                self._composed.enter(release, count)
                self._single.enter(release, count)

    def epsilon(self, delta: float) -> float:
        """Return a lower bound on epsilon of everything entered so far; delta must be the same in every call."""
        if self._non_private:
            return math.inf
        if not self._known:
            return math.nan
        if self._releases:
            self._least = max(self._least, self._figure(delta), self._of_weakest(delta))
            if self._masked and sum(self._releases.values()) > 1:
                self._least = max(self._least, self._single.epsilon(delta))
        return self._least

    def _of_weakest(self, delta: float) -> float:
        """Return the bound of the release with the least noise alone, of a contribution with a single entry."""
        weakest = min(self._releases, key=lambda release: noise_of(release).noise_multiplier)
        mu, seen = SENSITIVITY[self._adjacency] / noise_of(weakest).noise_multiplier, noise_of(weakest).seen
        if delta >= seen or mu > LARGEST_MU:
            return 0.0
        return release_epsilon(without_mask(weakest), self._adjacency, delta / seen) * (1 - SOLVED)

    def _figure(self, delta: float) -> float:
        alone = sum(self._releases.values()) == 1
        if not alone and any(isinstance(release, Sampled) for release in self._releases):
            return self._composed.epsilon(delta)
        mu = math.sqrt(sum(count * self._mu(release) ** 2 for release, count in self._releases.items()))
        if math.isinf(mu * mu):
            return math.inf  # the exact value overflows
        if mu > LARGEST_MU:
            # For the Gaussian, delta(eps) >= 1/2 (1 - e^(eps - loss)) at the median loss and below.
            rate = min(release.rate if isinstance(release, Sampled) else 1.0 for release in self._releases)
            return max(0.0, (mu * mu / 2 - 10 * mu + math.log(rate)) * (1 - SOLVED)) if 2 * delta < rate else 0.0
        if alone:
            release = next(iter(self._releases))
            noise = noise_of(release)
            quieter = with_noise(without_mask(release), noise.noise_multiplier / math.sqrt(noise.seen))
            return release_epsilon(quieter, self._adjacency, delta) * (1 - SOLVED)
        return release_epsilon(Gaussian(1 / mu), "add_remove", delta) * (1 - SOLVED)

    def _mu(self, release: Release) -> float:
        """Return what a release shows of a contribution with equal entries, over the noise."""
        noise = noise_of(release)
        return SENSITIVITY[self._adjacency] * math.sqrt(noise.seen) / noise.noise_multiplier

    def _pair(self, release: Release) -> DominatingPair | None:
        """Return the pair of a release, or None where the noise is so large that it can be left out."""
        mu = min(self._mu(release), LARGEST_MU)
        return None if mu < 1 / LARGEST_MULTIPLIER / 100 else _pair("removed", mu, release)

    def _pair_of_single(self, release: Release) -> DominatingPair | None:
        """Return the pair of a release for a contribution with a single entry."""
        pair = self._pair(release)
        if pair is None:
            return None
        seen = noise_of(release).seen
        return replace(pair, mu=min(pair.mu / math.sqrt(seen), LARGEST_MU), seen=seen, single=True)


class _Growing:
    """A composition that grows, with a new plan whenever the present one does not fit its releases."""

    def __init__(self, side: Side, pair_of: Callable[[Release], DominatingPair | None]) -> None:
        self._side: Side = side
        self._pair_of = pair_of
        self._all: dict[DominatingPair, int] = {}
        self._new: dict[DominatingPair, int] = {}
        self._composed: Composition | None = None
        self._delta = math.nan
        self._outside = math.inf if side == "above" else 0.0  # the bound where the plan's window does not hold it
        self._again_at = 0  # releases from which on such a bound is a reason for a new plan

    def enter(self, release: Release, count: int) -> None:
        """Enter a release `count` times."""
        if isinstance(release, NonPrivate):
            return
        pair = self._pair_of(release)
        if pair is not None:
            self._all[pair] = self._all.get(pair, 0) + count
            self._new[pair] = self._new.get(pair, 0) + count

    def epsilon(self, delta: float) -> float:
        """Return the bound on epsilon."""
        new: list[Counted] = list(self._new.items())
        self._new = {}
        if not self._all:
            return 0.0
        if self._composed is None or delta != self._delta or not self._composed.has_room_for(new):
            bound = self._with_new_plan(delta)
        else:
            self._composed.add(new)
            bound = self._composed.epsilon(delta)
            if bound == self._outside and self._composed.releases >= self._again_at:
                bound = self._with_new_plan(delta)
        if self._side == "above":  # epsilon is at most the sum of the largest losses
            largest = math.fsum(count * pair.largest_loss for pair, count in self._all.items())
            return min(bound, largest * (1 + SOLVED))
        return bound

    def _with_new_plan(self, delta: float) -> float:
        """Plan the composition of all releases again, and return its bound."""
        parts, self._delta = tuple(self._all.items()), delta
        if len(parts) > FEW:
            self._composed, bound = _bounded(parts, delta, self._side)
        else:
            plan, bound = _memoised(parts, delta, self._side)
            self._composed = Composition(plan, self._side)
            self._composed.add(parts)
        # Where a new plan finds nothing else either, as for a lower bound of 0, the next one waits for more releases.
        self._again_at = 2 * self._composed.releases if bound == self._outside else 0
        return bound


def _bounded(parts: Sequence[Counted], delta: float, side: Side) -> tuple[Composition, float]:
    """Compose the releases and return the bound. The lattice is refined while its error may dominate the bound, as for
    rare releases with a tiny epsilon, or for many releases with much noise next to some with little."""
    step = math.inf
    for finer in FINER:
        plan = planned(parts, delta, side, step=step)
        composed = Composition(plan, side)
        composed.add(parts)
        bound = composed.epsilon(delta)
        quiet = sum(count for pair, count in parts if pair.rate * pair.mu < plan.grid)
        if bound >= plan.grid * (composed.releases + QUIET * quiet):
            break
        step = plan.grid / finer
    return composed, bound


@functools.lru_cache(maxsize=256)
def _memoised(parts: tuple[Counted, ...], delta: float, side: Side) -> tuple[CompositionPlan, float]:
    """Return the plan and the bound for a few releases. Runs with other seeds or links often have the same releases."""
    composed, bound = _bounded(parts, delta, side)
    return composed.plan, bound


def _pair(direction: Direction, mu: float, release: Release, seen: float = 1.0) -> DominatingPair:
    if isinstance(release, Sampled):
        return DominatingPair(direction, mu, release.rate, seen)
    return DominatingPair("removed", mu, 1.0, seen)
