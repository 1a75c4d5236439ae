"""Privacy loss distributions by dp-accounting, composed on a grid.

`pld`: Poisson samples under add/remove, exact to the grid. `dominating_pair`: samples of fixed size under replace-one,
a proven upper bound that is far below that of RDP.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from airfl.privacy.accountants.accountant import LARGEST_MULTIPLIER, unsupported
from airfl.privacy.accountants.closed_form import SENSITIVITY, IgnoringSampling, amplified, release_epsilon
from airfl.privacy.events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Release,
    Sampled,
    noise_of,
    releases,
)
from airfl.privacy.gaussian import amplified_loss

# The grid follows the epsilon of a single release: fine where epsilon is small, coarse where it is large.
FINEST_GRID = 1e-3
GRID_SHARE = 2e-3
# Where losses are large but rare, epsilon may be small: no release takes more of the grid than this.
MOST_POINTS = 20_000
# e^grid is a number.
COARSEST_GRID = 500.0
# A release that loses much more than those before it has all of them composed anew on its coarser grid.
COARSENING = 4.0
# Connecting the dots, the sharper way to a grid, takes exponentials of the loss and of the grid: beyond these they
# overflow.
LARGEST_MU_TO_CONNECT = 30.0
COARSEST_GRID_TO_CONNECT = 100.0
# Of epsilons that dp-accounting finds by itself: near 709 it divides by what has no digits left.
LARGEST_DIRECT = 600.0
# Far beyond any meaning the distributions cannot be built at all, and sampling is left out of account.
LARGEST_MU = 1e4
# Two of so few points are composed as dictionaries.
FEW_POINTS = 31
# Beyond so many standard deviations of the loss it counts as infinite: probability 1e-19.
TAIL = 9.0


Build = Callable[[Any, float], Any]
"""(release, grid) -> its privacy loss distribution."""


class LossDistributions:
    """Composition on a grid, by what a single release becomes there."""

    def __init__(self, name: str, adjacency: Adjacency, kinds: Mapping[type, Build]) -> None:
        """kinds: the releases that there is a loss distribution for."""
        self.name, self._adjacency, self._kinds = name, adjacency, kinds
        self._plain = IgnoringSampling(adjacency)
        self._releases: dict[Release, int] = {}
        self._new: dict[Release, int] = {}
        self._composed: Any = None
        self._grid = 0.0

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Accountant`."""
        for release, count in releases(event, times):
            gaussian = isinstance(release, Gaussian) or amplified(release, self._adjacency)
            if not (isinstance(release, NonPrivate) or (gaussian and type(release) in self._kinds)):
                raise unsupported(self.name, release, self._adjacency)
            self._plain.compose(release, count)
            self._releases[release] = self._releases.get(release, 0) + count
            self._new[release] = self._new.get(release, 0) + count

    def epsilon(self, delta: float) -> float:
        """See `Accountant`; delta must be the same every time, for the grid follows it. A closed form where there is
        one."""
        plain = self._plain.epsilon(delta)
        if sum(self._releases.values()) == 1:
            return release_epsilon(next(iter(self._releases)), self._adjacency, delta)
        sampled = any(not isinstance(release, Gaussian) for release in self._releases)
        if not sampled or not all(map(self._representable, self._releases)):
            return plain
        if self._new:
            new, self._new = self._new, {}
            self._add(new, delta)
        return min(plain, _epsilon_of(self._composed, delta, self._grid))

    def _add(self, new: dict[Release, int], delta: float) -> None:
        grid = max(self._grid_for(release, delta) for release in new)
        if grid > COARSENING * self._grid:
            self._grid, self._composed, new = grid, None, self._releases
        for release, count in new.items():
            distribution = self._kinds[type(release)](release, self._grid).self_compose(count)
            self._composed = distribution if self._composed is None else self._composed.compose(distribution)

    def _grid_for(self, release: Release, delta: float) -> float:
        mu = SENSITIVITY[self._adjacency] / noise_of(release).noise_multiplier
        rate = release.rate if isinstance(release, Sampled) else 1.0
        widest = amplified_loss(mu * mu / 2 + TAIL * mu, rate) / MOST_POINTS
        share = GRID_SHARE * release_epsilon(release, self._adjacency, delta)
        return min(max(FINEST_GRID, share, widest), COARSEST_GRID)

    def _representable(self, release: Release) -> bool:
        if isinstance(release, NonPrivate):
            return False
        return SENSITIVITY[self._adjacency] / noise_of(release).noise_multiplier < LARGEST_MU


def _epsilon_of(losses: Any, delta: float, grid: float) -> float:
    """Of a composed distribution; where e^-epsilon has left the floating-point numbers, by bisection on delta."""
    with np.errstate(over="ignore"):
        direct = float(losses.get_epsilon_for_delta(delta))
    if direct < LARGEST_DIRECT:
        return direct
    low, high = 0.0, LARGEST_DIRECT
    while losses.get_delta_for_epsilon(high) > delta:
        low, high = high, 2 * high
        if math.isinf(high):
            return math.inf
    while high - low > grid / 4:
        middle = (low + high) / 2
        low, high = (middle, high) if losses.get_delta_for_epsilon(middle) > delta else (low, middle)
    return high


def pld(adjacency: Adjacency) -> LossDistributions:
    """As dp-accounting has it, which knows no sample of fixed size."""
    kinds: dict[type, Build] = {Gaussian: functools.partial(gaussian_losses, SENSITIVITY[adjacency])}
    if adjacency == "add_remove":
        kinds[PoissonSampled] = poisson_losses
    return LossDistributions("PLD", adjacency, kinds)


def dominating_pair(adjacency: Adjacency) -> LossDistributions:
    """Of a sample of fixed size under replace-one, composed as a loss distribution (Zhu, Dong, Wang 2022, theorem 11).

    One release has delta(log(1 + q (e^eps - 1))) <= q delta_0(eps) for either of two neighbours (Balle, Barthe,
    Gaboardi 2018), which gives its hockey-stick divergence at every order; a pair with that very profile dominates the
    release, and dominating pairs compose (theorem 10).
    """
    kinds: dict[type, Build] = {Gaussian: functools.partial(gaussian_losses, SENSITIVITY[adjacency])}
    if adjacency == "replace_one":
        kinds[FixedSizeSampled] = fixed_size_losses
    return LossDistributions("dominating pair", adjacency, kinds)


@functools.lru_cache(maxsize=1024)
def gaussian_losses(sensitivity: float, release: Gaussian, grid: float) -> Any:
    """Of a release without sampling."""
    return _from_gaussian(release.noise_multiplier / sensitivity, 1.0, grid)


@functools.lru_cache(maxsize=1024)
def poisson_losses(release: PoissonSampled, grid: float) -> Any:
    """Of a Poisson sample under add/remove, in both directions; kept, for the rows of a comparison share rounds."""
    return _from_gaussian(noise_of(release).noise_multiplier, release.rate, grid)


def _from_gaussian(multiplier: float, rate: float, grid: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    return _as_arrays(
        privacy_loss_distribution.from_gaussian_mechanism(
            min(multiplier, LARGEST_MULTIPLIER),
            sampling_prob=rate,
            value_discretization_interval=grid,
            use_connect_dots=1 / multiplier < LARGEST_MU_TO_CONNECT and grid < COARSEST_GRID_TO_CONNECT,
        )
    )


def _as_arrays(losses: Any) -> Any:
    """The same with its probabilities in arrays: in dictionaries, as dp-accounting has up to 1,000 of them, they take
    ten times the memory, and are made arrays wherever they are composed."""
    parts = [losses._pmf_remove] if losses._symmetric else [losses._pmf_remove, losses._pmf_add]
    return type(losses)(*(part.to_dense_pmf() if part.size > FEW_POINTS else part for part in parts))


@functools.lru_cache(maxsize=1024)
def fixed_size_losses(release: FixedSizeSampled, grid: float) -> Any:
    """The pair that dominates a sample of fixed size, on the grid; the same in both directions."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    mu = SENSITIVITY["replace_one"] / min(noise_of(release).noise_multiplier, LARGEST_MULTIPLIER)
    largest = amplified_loss(mu * mu / 2 + TAIL * mu, release.rate)
    steps = max(math.ceil(largest / grid), 1)
    epsilon = np.asarray(grid * np.arange(1, steps + 1), dtype=np.float64)
    positive = _fixed_size_delta(epsilon, mu, release.rate)
    at_zero = _fixed_size_delta(np.zeros(1), mu, release.rate)
    # H_a(P || Q) = 1 - a + a H_(1/a)(Q || P), and the two are bounded alike.
    negative = -np.expm1(-epsilon) + np.exp(-epsilon) * positive
    deltas = np.concatenate([negative[::-1], at_zero, positive])
    losses = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, -steps, steps, deltas)
    return _as_arrays(privacy_loss_distribution.PrivacyLossDistribution(losses))


def _fixed_size_delta(epsilon: NDArray[np.float64], mu: float, rate: float) -> NDArray[np.float64]:
    """q delta_0(log((e^eps - 1 + q)/q)) with delta_0 of the Gaussian mechanism, for epsilon >= 0."""
    inner = epsilon + np.log((-np.expm1(-epsilon) + rate * np.exp(-epsilon)) / rate)
    first = log_ndtr(mu / 2 - inner / mu)
    second = inner + log_ndtr(-mu / 2 - inner / mu)
    return np.asarray(-rate * np.exp(first) * np.expm1(np.minimum(second - first, 0.0)))
