"""The accountant that a ledger takes by itself: for every kind of event the proven bound that is sharpest."""

from __future__ import annotations

import math

from airfl.privacy.accountants.accountant import Accountant, NamedAccount
from airfl.privacy.accountants.closed_form import AddingUp, IgnoringSampling, total_variation
from airfl.privacy.accountants.cpsgd import BinomialRounds
from airfl.privacy.accountants.dominating_pair import DominatingPair
from airfl.privacy.accountants.pld import Pld
from airfl.privacy.accountants.renyi import Renyi
from airfl.privacy.events import NOTHING, Adjacency, Event, Sampled, has_binomial, releases

# With more releases on samples than this the lattice of loss distributions may be coarse.
MANY = 10**6
# With no more they may be added up: of rare but loud ones beside others, whose lattice is coarse, that may be less.
FEW = 8
# Of the total variation of everything.
ROUNDING = 1e-9


class Auto(Accountant):
    """The sharpest of the others for the event."""

    name = "auto"
    source = "the sharpest of the others for the event"
    slow = True

    def open(self, adjacency: Adjacency) -> Tight:
        """A new account."""
        return Tight(adjacency)


class Tight:
    """Binomial noise: `CpSgd`. Otherwise the smaller of loss distributions (`Pld` under add/remove, `DominatingPair`
    under replace-one, neither above what it is without the sample) and, where they may be smaller, of `Renyi` and
    of `AddingUp`; nothing at all where everything together has a total variation of no more than delta.

    What was told once is not taken back: a later figure for the same delta is no smaller.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._chosen: NamedAccount | None = None
        self._others, self._plain = Renyi(adjacency), IgnoringSampling(adjacency)
        self._sum = AddingUp(adjacency)
        self._sampled, self._alike = 0, 0.0
        self._told: dict[float, float] = {}

    @property
    def name(self) -> str:
        """Of the one that was taken; before anything is entered, of the one for Gaussian noise."""
        return (self._chosen or tightest(NOTHING, self._adjacency)).name

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Account`."""
        if self._chosen is None:
            if not any(True for _ in releases(event, times)):
                return
            self._chosen = tightest(event, self._adjacency)
        self._chosen.compose(event, times)
        if not isinstance(self._chosen, BinomialRounds):
            self._others.compose(event, times)
            self._plain.compose(event, times)
            self._sum.compose(event, times)
            for release, count in releases(event, times):
                self._sampled += count * isinstance(release, Sampled)
                # Drawn alike with probability 1 - TV, one after the other.
                alike = 1 - total_variation(release, self._adjacency)
                self._alike += count * (math.log(alike) if alike > 0 else -math.inf)

    def epsilon(self, delta: float) -> float:
        """See `Account`."""
        if self._chosen is None:
            return 0.0
        if not isinstance(self._chosen, BinomialRounds) and -math.expm1(self._alike) * (1 + ROUNDING) <= delta:
            return self._told.setdefault(delta, 0.0)
        found = self._chosen.epsilon(delta)
        if not isinstance(self._chosen, BinomialRounds) and self._may_be_less(found, delta):
            found = min(found, self._others.epsilon(delta))
        if not isinstance(self._chosen, BinomialRounds) and 0 < self._sampled <= FEW:
            found = min(found, self._sum.epsilon(delta))
        self._told[delta] = max(found, self._told.get(delta, 0.0))
        return self._told[delta]

    def _may_be_less(self, found: float, delta: float) -> bool:
        """Whether Renyi divergences may do better: where loss distributions are coarse, or are no help at all.

        Elsewhere they never did, over thousands of events: conversion alone costs them more than a lattice costs.
        """
        helpless = self._sampled > 1 and found >= self._plain.epsilon(delta) * (1 - 1e-9)
        return self._sampled > MANY or helpless


def tightest(event: Event, adjacency: Adjacency) -> NamedAccount:
    """An account for events like this one."""
    if has_binomial(event):
        return BinomialRounds(adjacency)
    return (Pld() if adjacency == "add_remove" else DominatingPair()).open(adjacency)
