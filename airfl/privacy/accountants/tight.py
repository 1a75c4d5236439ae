"""The default accountant, which gives the tightest proven bound for every kind of event."""

from __future__ import annotations

import math

from airfl.privacy.accountants.accountant import Accountant, NamedAccount
from airfl.privacy.accountants.closed_form import (
    BasicCompositionAccount,
    UnsampledGaussianAccount,
    amplified,
    release_epsilon,
    total_variation,
)
from airfl.privacy.accountants.cpsgd import CpSgdAccount
from airfl.privacy.accountants.dominating_pair import DominatingPair
from airfl.privacy.accountants.pld import Pld
from airfl.privacy.accountants.renyi import RdpAccount
from airfl.privacy.events import NOTHING, Adjacency, Event, Gaussian, Sampled, has_binomial, releases

# Above this many releases on samples, the lattice of loss distributions may be coarse.
MANY = 10**6
# Up to this many releases, basic composition is tried as well. It may be smaller for rare releases with little noise
# next to others, for which the lattice is coarse.
FEW = 8
# Relative error of the total variation.
ROUNDING = 1e-9


class Auto(Accountant):
    """The tightest of the other accountants for each event."""

    name = "auto"
    source = "the tightest of the others for each event"
    slow = True

    def open(self, adjacency: Adjacency) -> AutoAccount:
        """Open a new account."""
        return AutoAccount(adjacency)


class AutoAccount:
    """The account of `Auto`: `CpSgd` for binomial noise, else loss distributions (`Pld` under add/remove,
    `DominatingPair` under replace-one, at most the figure without sampling).

    `RdpAccount` and `BasicCompositionAccount` are computed as well where they may be smaller. Epsilon is 0 where the
    total variation of everything together is at most delta. A later figure for the same delta is never smaller than an
    earlier one.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._chosen: NamedAccount | None = None
        self._renyi, self._plain = RdpAccount(adjacency), UnsampledGaussianAccount(adjacency)
        self._sum = BasicCompositionAccount(adjacency)
        self._sampled, self._log_equal = 0, 0.0
        self._reported: dict[float, float] = {}

    @property
    def name(self) -> str:
        """The name of the account in use, or of that for Gaussian noise before anything is entered."""
        return (self._chosen or tightest(NOTHING, self._adjacency)).name

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        if self._chosen is None:
            if not any(True for _ in releases(event, times)):
                return
            self._chosen = tightest(event, self._adjacency)
        self._chosen.compose(event, times)
        if not isinstance(self._chosen, CpSgdAccount):
            self._renyi.compose(event, times)
            self._plain.compose(event, times)
            self._sum.compose(event, times)
            for release, count in releases(event, times):
                self._sampled += count * isinstance(release, Sampled)
                # A coupling draws the same output for both neighbours with probability 1 - TV, in every release.
                equal = 1 - total_variation(release, self._adjacency)
                self._log_equal += count * (math.log(equal) if equal > 0 else -math.inf)

    def epsilon(self, delta: float) -> float:
        """Return epsilon of everything entered so far."""
        if self._chosen is None:
            return 0.0
        if not isinstance(self._chosen, CpSgdAccount) and -math.expm1(self._log_equal) * (1 + ROUNDING) <= delta:
            return self._reported.setdefault(delta, 0.0)
        figure = self._chosen.epsilon(delta)
        if not isinstance(self._chosen, CpSgdAccount) and self._may_be_less(figure, delta):
            figure = min(figure, self._renyi.epsilon(delta))
        if not isinstance(self._chosen, CpSgdAccount) and 0 < self._sampled <= FEW:
            figure = min(figure, self._sum.epsilon(delta))
        self._reported[delta] = max(figure, self._reported.get(delta, 0.0))
        return self._reported[delta]

    def _may_be_less(self, figure: float, delta: float) -> bool:
        """Return whether Renyi divergences may give less: where the lattice of loss distributions may be coarse, or
        they are no better than without sampling.

        Elsewhere they never did, over thousands of events: their conversion to epsilon loses more than a lattice does.
        """
        no_gain = self._sampled > 1 and figure >= self._plain.epsilon(delta) * (1 - 1e-9)
        return self._sampled > MANY or no_gain


def epsilon_alone(event: Event, adjacency: Adjacency, delta: float) -> float | None:
    """Return what an `AutoAccount` gives for an event of at most one Gaussian release, on a sample or not, by its
    closed form and without opening accounts; None for other events."""
    found = list(releases(event))
    if not found:
        return 0.0
    release, count = found[0]
    if len(found) > 1 or count > 1 or not (isinstance(release, Gaussian) or amplified(release, adjacency)):
        return None
    return release_epsilon(release, adjacency, delta)


def tightest(event: Event, adjacency: Adjacency) -> NamedAccount:
    """Open the account for events like this one."""
    if has_binomial(event):
        return CpSgdAccount(adjacency)
    return (Pld() if adjacency == "add_remove" else DominatingPair()).open(adjacency)
