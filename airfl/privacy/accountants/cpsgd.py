"""Binomial noise: cpSGD's own accounting, amplification by the sample and advanced composition."""

from __future__ import annotations

import math

from airfl.privacy.accountants.accountant import Accountant, unsupported
from airfl.privacy.binomial import Quantised, cpsgd_epsilon
from airfl.privacy.events import (
    Adjacency,
    Binomial,
    Event,
    FixedSizeSampled,
    NonPrivate,
    UnsupportedEventError,
    releases,
)


class CpSgd(Accountant):
    """Binomial noise on quantised messages."""

    name = "cpsgd"
    source = "Agarwal et al. 2018; Dwork, Rothblum, Vadhan 2010"
    of_runs = False

    def open(self, adjacency: Adjacency) -> BinomialRounds:
        """A new account."""
        return BinomialRounds(adjacency)


class BinomialRounds:
    """Rounds of one kind of message, a run counting with its round of fewest trials.

    A device that is asked with probability q is amplified (Balle, Barthe, Gaboardi 2018); rounds compose by the smaller
    of adding up and advanced composition (Dwork, Rothblum, Vadhan 2010).
    """

    name = "cpSGD theorem 1, amplification, advanced composition"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._kind: tuple[Quantised, float] | None = None
        self._rounds, self._fewest = 0, math.inf
        self._bare = False

    def compose(self, event: Event, times: int = 1) -> None:
        """See `Account`."""
        for release, count in releases(event, times):
            if isinstance(release, NonPrivate):
                self._bare = True
                continue
            sampled = isinstance(release, FixedSizeSampled)
            rate, noise = (release.rate, release.event) if isinstance(release, FixedSizeSampled) else (1.0, release)
            if self._adjacency != "replace_one" or not isinstance(noise, Binomial):
                raise unsupported("cpsgd", release, self._adjacency)
            if self._kind not in (None, (noise.message, rate)):
                raise UnsupportedEventError(
                    f"accountant 'cpsgd' composes rounds of one message and one sampling rate (given: "
                    f"{'a sample' if sampled else 'everybody'} at rate {rate:g} after others)"
                )
            self._kind = (noise.message, rate)
            self._rounds += count
            self._fewest = min(self._fewest, noise.trials)

    def epsilon(self, delta: float) -> float:
        """See `Account`."""
        if self._bare:
            return math.inf
        if self._kind is None:
            return 0.0
        message, rate = self._kind
        return cpsgd_epsilon(message, int(self._fewest), rate, self._rounds, delta)
