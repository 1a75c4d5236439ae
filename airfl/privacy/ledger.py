"""The ledger of a run: what is claimed, what one round costs, what all rounds cost.

Level: client (a device's whole data). Observer: a third party who sees what is broadcast, the combined real part after
decoding. The noise multiplier of a round is the noise on an entry of the sum over the largest contribution of one
device. beta^t follows from channel state and limits of the selected devices, which are taken to be public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from airfl.privacy.composition import Accountant, Poisson, WithoutReplacement
from airfl.privacy.gaussian import sampled_gaussian_epsilon
from airfl.selection import Sampling


@dataclass(frozen=True)
class PrivacyFigures:
    """After a round: tight for it alone; composed so far, for the sampler that ran and as if Poisson (or nan)."""

    epsilon_round: float
    epsilon: float
    epsilon_as_poisson: float


class PrivacyLedger:
    """Takes the noise multiplier of every round, in order; composes when asked."""

    level = "client"
    observer = "third_party"

    def __init__(self, sampling: Sampling, selected: int, devices: int, delta: float) -> None:
        self.sampling, self.delta = sampling, delta
        self._selected, self._devices = selected, devices
        self._pending: list[float] = []
        self._unprotected = False
        self._accountants: tuple[Accountant, Accountant] | None = None

    @property
    def adjacency(self) -> Literal["add_remove", "replace_one"]:
        """The relation `epsilon` is for."""
        return "add_remove" if self.sampling == "poisson" else "replace_one"

    @property
    def accountant(self) -> str:
        """The accountant behind `epsilon`."""
        return Poisson.name if self.sampling == "poisson" else WithoutReplacement.name

    def of_one_round(self, noise_multiplier: float, sampling: Sampling) -> float:
        """Tight epsilon of one round by itself, under that sampling; nothing is entered."""
        if noise_multiplier <= 0:
            return math.inf
        sensitivity = 1.0 if sampling == "poisson" else 2.0
        return sampled_gaussian_epsilon(self.delta, sensitivity / noise_multiplier, self._selected / self._devices)

    def record(self, noise_multiplier: float, compose: bool) -> PrivacyFigures:
        """Enter a round; 0 means that something was released without noise, and everything is inf from then on."""
        if noise_multiplier > 0:
            self._pending.append(noise_multiplier)
        else:
            self._unprotected = True
        own, as_poisson = self._composed() if compose else (math.nan, math.nan)
        return PrivacyFigures(self.of_one_round(noise_multiplier, self.sampling), own, as_poisson)

    def _composed(self) -> tuple[float, float]:
        if self._unprotected:
            return math.inf, math.inf
        if self._accountants is None:
            poisson = Poisson(self._selected / self._devices, self.delta)
            tight: Accountant = (
                poisson if self.sampling == "poisson" else WithoutReplacement(self._selected, self._devices)
            )
            self._accountants = (tight, poisson)
        own, as_poisson = self._accountants
        own.compose(self._pending)
        if as_poisson is not own:
            as_poisson.compose(self._pending)
        self._pending = []
        return own.epsilon(self.delta), as_poisson.epsilon(self.delta)
