"""The accountant that a ledger takes by itself: for every kind of event the proven bound that is sharpest there."""

from __future__ import annotations

import math

import numpy as np

from airfl.privacy.accountants.accountant import Accountant
from airfl.privacy.accountants.advanced import CpSgd
from airfl.privacy.accountants.closed_form import SENSITIVITY, AddingUp, IgnoringSampling
from airfl.privacy.accountants.loss_distributions import pld
from airfl.privacy.accountants.renyi import Renyi
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Binomial,
    Event,
    FixedSizeSampled,
    NonPrivate,
    Release,
    noise_of,
    releases,
)


class SmallestOfThree:
    """r of N without replacement, replace-one: the smallest of three proven bounds.

    RDP with amplification by subsampling (Wang, Balle, Kasiviswanathan 2019), for many rounds with much noise; the
    composed Gaussians without amplification, for little noise; the sum of the rounds' exact figures at delta/T each,
    for few rounds (exact for one). RDP is slow, so it is asked only where it can win: its figure is never more than
    SLACK below its order 2, which is a formula.
    """

    name = "min(RDP without replacement, Gaussian composition, sum of rounds)"
    SLACK = 2 * math.log(2)  # log(1 - 1/2) - log(2 delta) at delta = 1, the lowest the conversion goes

    def __init__(self, adjacency: Adjacency) -> None:
        self._renyi, self._plain, self._added = Renyi(adjacency), IgnoringSampling(adjacency), AddingUp(adjacency)
        self._second_order = 0.0

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Accountant`."""
        for accountant in (self._renyi, self._plain, self._added):
            accountant.compose(event, times)
        self._second_order += sum(count * _of_order_2(release) for release, count in releases(event, times))

    def epsilon(self, delta: float) -> float:
        """See `Accountant`."""
        smaller = min(self._plain.epsilon(delta), self._added.epsilon(delta))
        if self._added.exact or self._second_order - self.SLACK > smaller:
            return smaller
        return min(smaller, self._renyi.epsilon(delta))


class Tight:
    """Binomial noise: `CpSgd`. Otherwise `pld` under add/remove, and `SmallestOfThree` under replace-one."""

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._chosen: Accountant | None = None

    @property
    def name(self) -> str:
        """Of the one that was taken; before anything is entered, of the one for Gaussian noise."""
        return (self._chosen or tightest(NOTHING, self._adjacency)).name

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Accountant`."""
        if self._chosen is None:
            self._chosen = tightest(event, self._adjacency)
        self._chosen.compose(event, times)

    def epsilon(self, delta: float) -> float:
        """See `Accountant`."""
        return 0.0 if self._chosen is None else self._chosen.epsilon(delta)


def tightest(event: Event, adjacency: Adjacency) -> Accountant:
    """An accountant for events like this one."""
    for release, _ in releases(event):
        if isinstance(getattr(release, "event", release), Binomial):
            return CpSgd(adjacency)
    return pld(adjacency) if adjacency == "add_remove" else SmallestOfThree(adjacency)


def _of_order_2(release: Release) -> float:
    """log(1 + q^2 min(4 (e^x - 1), 2 e^x)), x = (2/multiplier)^2: theorem 9 of Wang et al. at order 2."""
    if isinstance(release, NonPrivate):
        return math.inf
    x = (SENSITIVITY["replace_one"] / noise_of(release).noise_multiplier) ** 2
    if not isinstance(release, FixedSizeSampled):
        return x
    if x > math.log(2):
        return float(np.logaddexp(0.0, 2 * math.log(release.rate) + math.log(2) + x))
    return math.log1p(release.rate**2 * 4 * math.expm1(x))
