"""The ledger where every device protects its own records: what one device's releases cost one of its records.

Level: record. Observer: the server, who sees each device's message and knows whom it asked, so that only the mini-batch
is a secret sample; a device pays for the rounds it took part in, and the figure is that of the device that pays most.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from airfl.privacy.composition import (
    COARSEST_GRID_TO_CONNECT,
    FINEST_GRID,
    GRID_SHARE,
    LARGEST_MU,
    LARGEST_MU_TO_CONNECT,
    LARGEST_MULTIPLIER,
    RDP_ORDERS,
)
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon
from airfl.privacy.ledger import PrivacyFigures
from airfl.selection import Sampling

ORDERS = (*range(2, 33), 36, 40, 44, 48, 56, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024)
# Shares of a message's noise that go to the sampled half of a variance-reduced estimator, tried one after the other.
SPLITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 2 / 3, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


@dataclass(frozen=True)
class Event:
    """`count` Gaussian releases a participation, each on `sample` of `samples` records drawn without replacement.

    noise_multiplier: noise on an entry over the largest contribution of one record; to replace a record moves the
    release by twice that. sample = samples: nothing is drawn.
    """

    noise_multiplier: float
    sample: int
    samples: int
    count: int = 1

    @property
    def rate(self) -> float:
        """Share of the records in a release."""
        return self.sample / self.samples

    @property
    def sampled(self) -> bool:
        """Whether chance hides who is in a release."""
        return self.sample < self.samples


class RecordLedger:
    """Counts every device's rounds and composes when asked; with the interface of `airfl.privacy.ledger.PrivacyLedger`.

    epsilon, replace-one: the smallest of RDP with amplification by subsampling without replacement (Wang, Balle,
    Kasiviswanathan 2019), the composed Gaussians without amplification, and the sum of the releases' exact figures at
    an equal share of delta each. epsilon_as_poisson: add/remove, Poisson sampling of the records, by privacy loss
    distributions.
    """

    level = "record"
    observer = "server"
    sampling: Sampling = "without_replacement"
    adjacency: Literal["replace_one"] = "replace_one"
    accountant = "min(RDP without replacement, Gaussian composition, sum of releases)"

    def __init__(self, events: Sequence[Event], devices: int, delta: float) -> None:
        self.delta = delta
        self._rounds = np.zeros(devices, dtype=np.int64)
        self._bare = any(event.noise_multiplier <= 0 for event in events)
        self._unprotected = self._bare
        kept = [] if self._bare else events
        self._replace_one, self._poisson = ReplaceOne(kept), AsPoisson(kept, delta)
        self._one_round: float | None = None
        self._figures: dict[int, tuple[float, float]] = {}

    def of_one_round(self, noise_multiplier: float, sampling: Sampling) -> float:
        """Tight epsilon of one participation by itself; "poisson" gives that with Poisson sampling of the records.

        noise_multiplier: 0 where a message is released bare; the events hold how much noise there is otherwise.
        """
        if noise_multiplier <= 0 or self._bare:
            return math.inf
        if sampling == "poisson":
            return self._poisson.of_one()
        if self._one_round is None:
            self._one_round = self._replace_one.epsilon(1, self.delta)
        return self._one_round

    def record(
        self, noise_multiplier: float, compose: bool, devices: NDArray[np.int64] | None = None
    ) -> PrivacyFigures:
        """Enter a round of these devices (None: of all); a noise multiplier of 0 means that something was released
        without noise, and everything is inf from then on."""
        self._rounds[slice(None) if devices is None else devices] += 1
        one = self.of_one_round(noise_multiplier, self.sampling)
        self._unprotected |= noise_multiplier <= 0
        own, as_poisson = self._composed() if compose else (math.nan, math.nan)
        return PrivacyFigures(one, own, as_poisson)

    def _composed(self) -> tuple[float, float]:
        if self._unprotected:
            return math.inf, math.inf
        most = int(self._rounds.max(initial=0))
        if most not in self._figures:
            self._figures[most] = self._replace_one.epsilon(most, self.delta), self._poisson.epsilon(most)
        return self._figures[most]


class ReplaceOne:
    """Three proven bounds for any number of participations; what they rest on is computed once."""

    def __init__(self, events: Sequence[Event], orders: tuple[int, ...] = ORDERS) -> None:
        self._orders = orders
        self._sampled = [event for event in events if event.sampled]
        self._mu_squared = _mu_squared(events, sensitivity=2.0)
        self._mu_squared_unsampled = _mu_squared([event for event in events if not event.sampled], sensitivity=2.0)
        self._rdp: NDArray[np.float64] | None = None

    def epsilon(self, participations: int, delta: float) -> float:
        """Upper bound on epsilon of so many participations of one device."""
        if participations == 0:
            return 0.0
        plain = gaussian_epsilon(delta, math.sqrt(participations * self._mu_squared))
        if not self._sampled:
            return plain
        return min(plain, self._sum_of_releases(participations, delta), self._amplified(participations, delta))

    def _sum_of_releases(self, participations: int, delta: float) -> float:
        """Releases on everything are one Gaussian, exactly; that and each release on a sample get the same share."""
        unsampled = self._mu_squared_unsampled * participations
        parts = participations * sum(event.count for event in self._sampled) + (unsampled > 0)
        amplified = sum(
            event.count * sampled_gaussian_epsilon(delta / parts, 2 / event.noise_multiplier, event.rate)
            for event in self._sampled
        )
        return participations * amplified + gaussian_epsilon(delta / parts, math.sqrt(unsampled))

    def _amplified(self, participations: int, delta: float) -> float:
        from dp_accounting import rdp

        if self._rdp is None:
            self._rdp = np.asarray(self._orders) * self._mu_squared_unsampled / 2
            for event in self._sampled:
                self._rdp = self._rdp + event.count * _rdp_without_replacement(event, self._orders)
        return float(rdp.compute_epsilon(self._orders, participations * self._rdp, delta)[0])


class AsPoisson:
    """Add/remove, every record in a release by its own coin: loss distributions, composed on as rounds go by."""

    def __init__(self, events: Sequence[Event], delta: float) -> None:
        self._events, self._delta = events, delta
        self._mu_squared = _mu_squared(events, sensitivity=1.0)
        self._representable = all(1 / event.noise_multiplier < LARGEST_MU for event in events)
        ones = [sampled_gaussian_epsilon(delta, 1 / event.noise_multiplier, event.rate) for event in events]
        self._grid = max(FINEST_GRID, GRID_SHARE * max(ones, default=0.0))
        self._one: Any = None
        self._composed: Any = None
        self._participations = 0

    def of_one(self) -> float:
        """Epsilon of one participation: in closed form where that is one release."""
        if len(self._events) == 1 and self._events[0].count == 1:
            return sampled_gaussian_epsilon(self._delta, math.sqrt(self._mu_squared), self._events[0].rate)
        return self._at_most(1, self._of_a_participation() if self._representable else None)

    def epsilon(self, participations: int) -> float:
        """Epsilon of so many participations, never fewer than asked for before."""
        more, self._participations = participations - self._participations, participations
        if more and self._representable:
            new = self._of_a_participation().self_compose(more)
            self._composed = new if self._composed is None else self._composed.compose(new)
        return self._at_most(participations, self._composed)

    def _at_most(self, participations: int, losses: Any) -> float:
        plain = gaussian_epsilon(self._delta, math.sqrt(participations * self._mu_squared))
        return plain if losses is None else min(plain, float(losses.get_epsilon_for_delta(self._delta)))

    def _of_a_participation(self) -> Any:
        if self._one is None:
            for event in self._events:
                releases = _loss_distribution(event, self._grid).self_compose(event.count)
                self._one = releases if self._one is None else self._one.compose(releases)
        return self._one


def variance_reduced_events(
    noise_std: float,
    clip: float,
    batch: int,
    samples: int,
    participations: int = 100,
    delta: float = 1e-3,
) -> tuple[Event, ...]:
    """Events of an SVRG or SAGA estimate with noise: A = the mean over b of m records of phi, ||phi|| <= 2 G; B = the
    mean over all m of psi, ||psi|| <= G (SoteriaFL, lemma 1; clip: G).

    A + B + xi follows from (A + xi_1, B + xi_2) with variances that add up to that of xi, for any split between them:
    A is a release on a sample, B one on everything. Every split gives a bound; of `SPLITS` the one is taken that is
    best for so many participations at this delta, and it is kept. SAGA's table remembers who was in earlier batches;
    as in the paper, a batch counts as freshly drawn all the same.
    """
    if noise_std <= 0:
        return (Event(0.0, batch, samples), Event(0.0, samples, samples))

    def events(share: float) -> tuple[Event, ...]:
        in_batch = Event(math.sqrt(share) * noise_std * batch / (2 * clip), batch, samples)
        in_all = Event(math.sqrt(1 - share) * noise_std * samples / clip, samples, samples)
        return in_batch, in_all

    return min(map(events, SPLITS), key=lambda pair: ReplaceOne(pair, RDP_ORDERS).epsilon(participations, delta))


def _mu_squared(events: Sequence[Event], sensitivity: float) -> float:
    return sum(event.count * (sensitivity / event.noise_multiplier) ** 2 for event in events)


@functools.lru_cache(maxsize=256)
def _rdp_without_replacement(event: Event, orders: tuple[int, ...]) -> NDArray[np.float64]:
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant(orders, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    # dp-accounting's Gaussian has sensitivity 1; a replaced record moves the release by twice its contribution.
    gaussian = dp_accounting.GaussianDpEvent(min(event.noise_multiplier, LARGEST_MULTIPLIER) / 2)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(event.samples, event.sample, gaussian))
    return np.array(accountant.rdp, dtype=np.float64)


def _loss_distribution(event: Event, grid: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution

    mu = 1 / event.noise_multiplier
    return privacy_loss_distribution.from_gaussian_mechanism(
        min(event.noise_multiplier, LARGEST_MULTIPLIER),
        sampling_prob=event.rate,
        value_discretization_interval=grid,
        use_connect_dots=mu < LARGEST_MU_TO_CONNECT and grid < COARSEST_GRID_TO_CONNECT,
    )
