"""Renyi differential privacy by dp-accounting: Poisson samples under add/remove (Mironov, Talwar, Zhang 2019) and
samples of fixed size under replace-one (Wang, Balle, Kasiviswanathan 2019)."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from airfl.errors import UserError
from airfl.privacy.accountants.accountant import LARGEST_MULTIPLIER, SENSITIVITY, Accountant, unsupported
from airfl.privacy.accountants.closed_form import amplified
from airfl.privacy.events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Release,
    noise_of,
    releases,
)
from channels.part import PartError, parameter

# Small orders are best for large epsilon, large orders for small epsilon.
WHOLE_ORDERS = (*range(2, 33), 36, 40, 44, 48, 56, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024)
# Only Poisson samples have a formula at fractional orders.
FRACTIONAL_ORDERS = tuple(1 + tenth / 10 for tenth in range(1, 100) if tenth % 10)
ORDERS: Mapping[Adjacency, tuple[float, ...]] = {
    "add_remove": tuple(sorted((*FRACTIONAL_ORDERS, *WHOLE_ORDERS))),
    "replace_one": WHOLE_ORDERS,
}
# Orders above CHEAP take up to tenths of a second per release. They are tried only where the best of the others is at
# least LARGE.
CHEAP = 64
LARGE = 40
# Any order gives a bound. With more than MANY different releases, a few of them determine the best integer order, and
# only orders near it are computed for all.
MANY = 24
NEIGHBOURS = 12


class Rdp(Accountant):
    """Renyi divergences, converted to epsilon at the best order."""

    name = "rdp"
    source = "Mironov, Talwar, Zhang 2019; Wang, Balle, Kasiviswanathan 2019, by dp-accounting"
    slow = True

    orders: tuple[float, ...] | None = parameter(
        None, description="Renyi orders to try, each above 1; none = 1.1 to 1024, only integers under replace-one"
    )

    def check(self) -> None:
        """Check that there is at least one order, and that all are finite and above 1."""
        if self.orders is not None and not (self.orders and all(1 < one < math.inf for one in self.orders)):
            raise PartError(f"orders must be finite and above 1, got {list(self.orders)}", "orders")

    def open(self, adjacency: Adjacency) -> RdpAccount:
        """Open a new account. Raises UserError where no order has a formula under this adjacency."""
        if self.orders is None:
            return RdpAccount(adjacency)
        orders = sorted({one for one in self.orders if adjacency == "add_remove" or one == int(one)})
        if not orders:
            raise UserError(
                f"orders must hold an integer under replace-one, got {list(self.orders)}; add one, for instance 32"
            )
        return RdpAccount(adjacency, tuple(orders))


class RdpAccount:
    """The account of `Rdp`: the smallest epsilon over the orders."""

    name = "RDP"

    def __init__(self, adjacency: Adjacency, orders: tuple[float, ...] | None = None) -> None:
        """Open an account. orders: the orders to try, ascending; None for the default ones."""
        self._adjacency = adjacency
        self._orders = orders
        self._releases: dict[Release, int] = {}

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        for release, count in releases(event, times):
            if not (isinstance(release, (Gaussian, NonPrivate)) or amplified(release, self._adjacency)):
                raise unsupported(self.name, release, self._adjacency)
            self._releases[release] = self._releases.get(release, 0) + count

    def epsilon(self, delta: float) -> float:
        """Return epsilon of everything entered so far."""
        if any(isinstance(release, NonPrivate) for release in self._releases):
            return math.inf
        orders = self._orders or ORDERS[self._adjacency]
        if self._orders is None and len(self._releases) > MANY:
            whole = [order for order in orders if order == int(order)]
            best = orders.index(self._best(_thinned(self._releases), whole, delta)[0])
            near = orders[max(best - NEIGHBOURS, 0) : best + NEIGHBOURS + 1]
            bound = self._best(self._releases, near, delta)[1]
            if math.isfinite(bound):
                return max(0.0, bound)
        return max(0.0, self._best(self._releases, orders, delta)[1])

    def _best(self, counts: Mapping[Release, int], orders: Sequence[float], delta: float) -> tuple[float, float]:
        """Return the order with the smallest bound, and that bound."""
        cheap = [order for order in orders if order <= CHEAP] or list(orders)
        bound, best = min((self._bound(counts, order, delta), order) for order in cheap)
        if best >= LARGE:
            expensive = [(self._bound(counts, order, delta), order) for order in orders if order > CHEAP]
            bound, best = min([(bound, best), *expensive])
        return best, bound

    def _bound(self, counts: Mapping[Release, int], order: float, delta: float) -> float:
        return _converted(order, self._divergence(counts, order), delta)

    def _divergence(self, counts: Mapping[Release, int], order: float) -> float:
        return math.fsum(count * divergence(release, self._adjacency, order) for release, count in counts.items())


def _thinned(counts: Mapping[Release, int]) -> dict[Release, int]:
    """Return a few releases that represent all, chosen by their noise."""
    by_noise = sorted(counts, key=lambda release: noise_of(release).noise_multiplier)
    step = math.ceil(len(by_noise) / MANY)
    return {
        by_noise[start]: sum(counts[release] for release in by_noise[start : start + step])
        for start in range(0, len(by_noise), step)
    }


def _converted(order: float, total: float, delta: float) -> float:
    """Return epsilon from the divergence at one order (Canonne, Kamath, Steinke 2020, proposition 12)."""
    from dp_accounting import rdp

    return float(rdp.compute_epsilon((order,), (total,), delta)[0]) if math.isfinite(total) else math.inf


@functools.lru_cache(maxsize=1 << 17)
def divergence(release: Release, adjacency: Adjacency, order: float) -> float:
    """Return the Renyi divergence of one release between neighbours. On a sample a mask is left out, which bounds it
    from above."""
    import dp_accounting
    from dp_accounting import rdp

    accountant = rdp.RdpAccountant((order,), neighboring_relation=_relation(adjacency))
    # dp-accounting's Gaussian has sensitivity 1; under replace-one the sensitivity is two contributions.
    multiplier = min(noise_of(release).noise_multiplier, LARGEST_MULTIPLIER) / SENSITIVITY[adjacency]
    if multiplier * multiplier == 0:
        return math.inf
    if isinstance(release, Gaussian) and release.seen < 1:
        # E e^(order (order - 1) mu^2 S/2) is convex in the share S that a mask leaves, so all or nothing is the worst.
        exponent = order * (order - 1) / (2 * multiplier**2)
        return float(np.logaddexp(math.log(release.seen) + exponent, math.log1p(-release.seen))) / (order - 1)
    gaussian: Any = dp_accounting.GaussianDpEvent(multiplier)
    if isinstance(release, PoissonSampled):
        gaussian = dp_accounting.PoissonSampledDpEvent(release.rate, gaussian)
    elif isinstance(release, FixedSizeSampled):
        gaussian = dp_accounting.SampledWithoutReplacementDpEvent(release.population, release.sample, gaussian)
    with _quiet():
        accountant.compose(gaussian)
        value = float(accountant.rdp[0])
    return value if math.isfinite(value) else math.inf


def _relation(adjacency: Adjacency) -> Any:
    import dp_accounting

    relations = dp_accounting.NeighboringRelation
    return relations.REPLACE_ONE if adjacency == "replace_one" else relations.ADD_OR_REMOVE_ONE


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of dp-accounting about orders it cannot compute, and of numpy about overflow in it. The
    divergence at such an order is inf."""
    logger = logging.getLogger("absl")
    logger.addFilter(_is_error)  # changing the level instead would clear the cache of every logger of the process
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        logger.removeFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
