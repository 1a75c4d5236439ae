"""Privacy of many rounds whose noise differs from round to round, by dp-accounting.

Both accountants take rounds as (noise multiplier, count), an upper bound each: multipliers are grouped into narrow bins
and a bin counts with its smallest. The noise multiplier is always noise over one device's largest contribution (C).
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon

BIN_WIDTH = 0.02
# Small orders carry the large epsilons, large ones the small.
RDP_ORDERS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
# More noise than this is counted as this much: the accountants' numerics end somewhere above.
LARGEST_MULTIPLIER = 1e4
FINEST_GRID = 1e-3
GRID_SHARE = 2e-3
# Connecting the dots, the sharper way to a grid, takes exponentials of the loss and of the grid: beyond these they
# overflow.
LARGEST_MU_TO_CONNECT = 30.0
COARSEST_GRID_TO_CONNECT = 100.0
# Far beyond any meaning the distributions cannot be built at all, and sampling is left out of account.
LARGEST_MU = 1e4


class Accountant(Protocol):
    """Composes rounds; the figure never decreases."""

    name: str

    def compose(self, noise_multipliers: Sequence[float]) -> None:
        """Add rounds with these noise multipliers, all above 0."""
        ...

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon of all rounds so far."""
        ...


def binned(noise_multipliers: Sequence[float]) -> list[tuple[float, int]]:
    """(smallest multiplier, how many) of each bin of relative width BIN_WIDTH; equal ones stay exact."""
    bins: dict[int, list[float]] = {}
    for multiplier in (min(multiplier, LARGEST_MULTIPLIER) for multiplier in noise_multipliers):
        bins.setdefault(math.floor(math.log(multiplier) / BIN_WIDTH), []).append(multiplier)
    return [(min(members), len(members)) for _, members in sorted(bins.items())]


class GaussianComposition:
    """Gaussian releases without regard to sampling: mu_total = sqrt(sum (sensitivity/sigma_t)^2), exactly."""

    name = "gaussian"

    def __init__(self, sensitivity: float) -> None:
        self._sensitivity = sensitivity
        self._mu_squared = 0.0

    def compose(self, noise_multipliers: Sequence[float]) -> None:
        """See `Accountant`."""
        self._mu_squared += sum((self._sensitivity / multiplier) ** 2 for multiplier in noise_multipliers)

    def epsilon(self, delta: float) -> float:
        """See `Accountant`."""
        return gaussian_epsilon(delta, math.sqrt(self._mu_squared))


class OwnRounds:
    """Each device by the rounds it took part in, replace-one, no amplification; the figure is that of the worst one.

    Who takes part is public here and does not depend on data, so a device's rounds compose as Gaussians, exactly.
    """

    name = "Gaussian composition over a device's own rounds"

    def __init__(self, devices: int) -> None:
        self._mu_squared = np.zeros(devices)

    def compose(self, noise_multiplier: float, devices: NDArray[np.int64]) -> None:
        """Add a round of these devices with that noise multiplier, above 0."""
        self._mu_squared[devices] += (2.0 / noise_multiplier) ** 2

    def epsilon(self, delta: float) -> float:
        """Exact epsilon of the device that paid most."""
        return gaussian_epsilon(delta, math.sqrt(float(self._mu_squared.max())))


class WithoutReplacement:
    """r of N without replacement, replace-one, sensitivity 2C: the smallest of three proven bounds.

    RDP with amplification by subsampling (Wang, Balle, Kasiviswanathan 2019), for many rounds with much noise; the
    composed Gaussians without amplification, for little noise; the sum of the rounds' exact figures at delta/T each,
    for few rounds (exact for one). The RDP accountant is slow, so it is asked only where it can win: its figure is
    never more than SLACK below its order 2, which is a formula.
    """

    name = "min(RDP without replacement, Gaussian composition, sum of rounds)"
    SLACK = 2 * math.log(2)  # log(1 - 1/2) - log(2 delta) at delta = 1, the lowest the conversion goes

    def __init__(self, selected: int, devices: int) -> None:
        self._selected, self._devices = selected, devices
        self._plain = GaussianComposition(sensitivity=2.0)
        self._second_order = 0.0
        self._rounds: list[float] = []
        self._composed = 0
        self._rdp: Any = None

    def compose(self, noise_multipliers: Sequence[float]) -> None:
        """See `Accountant`."""
        self._plain.compose(noise_multipliers)
        self._second_order += sum(self._rdp_of_order_2(multiplier) for multiplier in noise_multipliers)
        self._rounds.extend(noise_multipliers)

    def epsilon(self, delta: float) -> float:
        """See `Accountant`."""
        smaller = min(self._plain.epsilon(delta), self._sum_of_rounds(delta))
        if self._second_order - self.SLACK > smaller:
            return smaller
        return min(smaller, self._amplified(delta))

    def _sum_of_rounds(self, delta: float) -> float:
        share, rate = delta / max(len(self._rounds), 1), self._selected / self._devices
        return sum(
            count * sampled_gaussian_epsilon(share, 2 / multiplier, rate) for multiplier, count in binned(self._rounds)
        )

    def _amplified(self, delta: float) -> float:
        import dp_accounting
        from dp_accounting import rdp

        if self._rdp is None:
            replace_one = dp_accounting.NeighboringRelation.REPLACE_ONE
            self._rdp = rdp.RdpAccountant(RDP_ORDERS, neighboring_relation=replace_one)
        with _quiet():
            for multiplier, count in binned(self._rounds[self._composed :]):
                # dp-accounting's Gaussian has sensitivity 1; a replaced device moves the sum by 2C.
                gaussian = dp_accounting.GaussianDpEvent(multiplier / 2)
                sampled = dp_accounting.SampledWithoutReplacementDpEvent(self._devices, self._selected, gaussian)
                self._rdp.compose(sampled, count)
            self._composed = len(self._rounds)
            return float(self._rdp.get_epsilon(delta))

    def _rdp_of_order_2(self, multiplier: float) -> float:
        """log(1 + q^2 min(4 (e^x - 1), 2 e^x)), x = (2/multiplier)^2: theorem 9 of Wang et al. at order 2."""
        rate, x = self._selected / self._devices, (2 / multiplier) ** 2
        if x > math.log(2):
            return float(np.logaddexp(0.0, 2 * math.log(rate) + math.log(2) + x))
        return math.log1p(rate**2 * 4 * math.expm1(x))


class Poisson:
    """Every device with probability q by itself, add/remove: privacy loss distributions on a grid.

    The grid follows the largest loss of a single round so far, fine where epsilon is small, coarse where it is large;
    a round that loses much more than those before it has all of them composed anew on its coarser grid.
    """

    name = "PLD"
    COARSENING = 4.0

    def __init__(self, sampling_rate: float, delta: float) -> None:
        self._rate, self._delta = sampling_rate, delta
        self._plain = GaussianComposition(sensitivity=1.0)
        self._rounds: list[tuple[float, int]] = []
        self._composed: Any = None
        self._grid = 0.0

    def compose(self, noise_multipliers: Sequence[float]) -> None:
        """See `Accountant`."""
        self._plain.compose(noise_multipliers)
        new = binned(noise_multipliers)
        self._rounds += new
        if not new or not self._representable:
            return
        grid = self._grid_for(min(multiplier for multiplier, _ in new))
        if grid > self.COARSENING * self._grid:
            self._grid, self._composed, new = grid, None, self._rounds
        for multiplier, count in new:
            distribution = _sampled_gaussian(multiplier, self._rate, self._grid).self_compose(count)
            self._composed = distribution if self._composed is None else self._composed.compose(distribution)

    def epsilon(self, delta: float) -> float:
        """See `Accountant`."""
        plain = self._plain.epsilon(delta)
        if self._composed is None or not self._representable:
            return plain
        return min(plain, float(self._composed.get_epsilon_for_delta(delta)))

    @property
    def _representable(self) -> bool:
        return all(1 / multiplier < LARGEST_MU for multiplier, _ in self._rounds)

    def _grid_for(self, multiplier: float) -> float:
        one = sampled_gaussian_epsilon(self._delta, 1 / multiplier, self._rate)
        return max(FINEST_GRID, GRID_SHARE * one)


@functools.lru_cache(maxsize=1024)
def _sampled_gaussian(multiplier: float, rate: float, grid: float) -> Any:
    """The privacy loss distribution of one round; kept, for the rows of a comparison share their rounds."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        multiplier,
        sampling_prob=rate,
        value_discretization_interval=grid,
        use_connect_dots=1 / multiplier < LARGEST_MU_TO_CONNECT and grid < COARSEST_GRID_TO_CONNECT,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """dp-accounting warns of every order it drops; the figure that remains is what counts."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
