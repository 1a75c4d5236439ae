"""The ledger of a run: what is claimed, what one round costs, what all rounds cost.

Level: client (a device's whole data). Observer: a third party who sees what is broadcast, the combined real part after
decoding. The noise multiplier of a round is the noise on an entry of the sum over the largest contribution of one
device. beta^t follows from channel state and limits of the selected devices, which are taken to be public. Where the
channel chooses who takes part, nothing is amplified: a device pays for each of its own rounds in full, and the figure
is that of the device that pays most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from airfl.privacy.composition import Accountant, OwnRounds, Poisson, WithoutReplacement
from airfl.privacy.gaussian import gaussian_epsilon, sampled_gaussian_epsilon
from airfl.selection import Sampling

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PrivacyFigures:
    """After a round: tight for it alone; composed so far, for the sampler that ran and as if Poisson (or nan)."""

    epsilon_round: float
    epsilon: float
    epsilon_as_poisson: float


class PrivacyLedger:
    """Takes the noise multiplier of every round, in order; composes when asked."""

    level = "client"

    def __init__(
        self,
        sampling: Sampling,
        selected: int,
        devices: int,
        delta: float,
        tail: float = 0.0,
        observer: str = "third_party",
    ) -> None:
        """tail: the part of delta that pays for the accountants' noise multipliers not being bounds for certain."""
        self.sampling, self.delta, self.observer = sampling, delta, observer
        self._noise_delta = delta - tail
        self._own_rounds = OwnRounds(devices if sampling == "by_channel" else 0)
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
        names = {"poisson": Poisson.name, "without_replacement": WithoutReplacement.name, "by_channel": OwnRounds.name}
        return names[self.sampling]

    def of_one_round(self, noise_multiplier: float, sampling: Sampling) -> float:
        """Tight epsilon of one round by itself, under that sampling; nothing is entered."""
        if noise_multiplier <= 0:
            return math.inf
        sensitivity = 1.0 if sampling == "poisson" else 2.0
        if sampling == "by_channel":
            return gaussian_epsilon(self._noise_delta, sensitivity / noise_multiplier)
        return sampled_gaussian_epsilon(
            self._noise_delta, sensitivity / noise_multiplier, self._selected / self._devices
        )

    def record(
        self, noise_multiplier: float, compose: bool, devices: NDArray[np.int64] | None = None
    ) -> PrivacyFigures:
        """Enter a round; 0 means that something was released without noise, and everything is inf from then on.

        devices: who took part; needed where the channel chose them.
        """
        if noise_multiplier > 0:
            self._pending.append(noise_multiplier)
            if self.sampling == "by_channel":
                assert devices is not None
                self._own_rounds.compose(noise_multiplier, devices)
        else:
            self._unprotected = True
        own, as_poisson = self._composed() if compose else (math.nan, math.nan)
        return PrivacyFigures(self.of_one_round(noise_multiplier, self.sampling), own, as_poisson)

    def _composed(self) -> tuple[float, float]:
        if self._unprotected:
            return math.inf, math.inf
        if self._accountants is None:
            poisson = Poisson(self._selected / self._devices, self._noise_delta)
            tight: Accountant = (
                poisson if self.sampling == "poisson" else WithoutReplacement(self._selected, self._devices)
            )
            self._accountants = (tight, poisson)
        own, as_poisson = self._accountants
        own.compose(self._pending)
        if as_poisson is not own:
            as_poisson.compose(self._pending)
        self._pending = []
        if self.sampling == "by_channel":
            return self._own_rounds.epsilon(self._noise_delta), as_poisson.epsilon(self._noise_delta)
        return own.epsilon(self._noise_delta), as_poisson.epsilon(self._noise_delta)
