"""Binomial noise: cpSGD's accounting, amplification by sampling and advanced composition."""

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

    def open(self, adjacency: Adjacency) -> CpSgdAccount:
        """Open a new account."""
        return CpSgdAccount(adjacency)


class CpSgdAccount:
    """Rounds of one kind of message, all accounted with the fewest trials of any round.

    A device selected with probability q is amplified (Balle, Barthe, Gaboardi 2018). Rounds compose by the smaller of
    basic and advanced composition (Dwork, Rothblum, Vadhan 2010).
    """

    name = "cpSGD theorem 1, amplification, advanced composition"

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency
        self._kind: tuple[Quantised, float] | None = None
        self._rounds, self._fewest = 0, math.inf
        self._non_private = False

    def compose(self, event: Event, times: int = 1) -> None:
        """Enter an event `times` times."""
        for release, count in releases(event, times):
            if isinstance(release, NonPrivate):
                self._non_private = True
                continue
            sampled = isinstance(release, FixedSizeSampled)
            rate, noise = (release.rate, release.event) if isinstance(release, FixedSizeSampled) else (1.0, release)
            if self._adjacency != "replace_one" or not isinstance(noise, Binomial):
                raise unsupported("cpsgd", release, self._adjacency)
            if self._kind not in (None, (noise.message, rate)):
                raise UnsupportedEventError(
                    "accountant 'cpsgd' composes rounds of one message and one sampling rate, got "
                    f"{'a sample' if sampled else 'all devices'} at rate {rate:g} after others; enter equal rounds only"
                )
            self._kind = (noise.message, rate)
            self._rounds += count
            self._fewest = min(self._fewest, noise.trials)

    def epsilon(self, delta: float) -> float:
        """Return epsilon of everything entered so far."""
        if self._non_private:
            return math.inf
        if self._kind is None:
            return 0.0
        message, rate = self._kind
        return cpsgd_epsilon(message, int(self._fewest), rate, self._rounds, delta)
