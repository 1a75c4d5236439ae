"""The ledger of cpSGD: binomial noise on whole numbers, advanced composition, as in its own paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.privacy.binomial import Quantised, cpsgd_epsilon
from airfl.privacy.ledger import PrivacyFigures
from airfl.selection import SELECTIONS, Sampling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from airfl.config.settings import Settings
    from airfl.stages.stage import MessageBound
    from airfl.uplinks.uplink import LinkReport


@dataclass(frozen=True)
class BinomialRelease:
    """The sum of quantised messages, each with m trials of binomial noise. trials: m of one device."""

    message: Quantised
    trials: int

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Standard deviation of the noise on the sum over one device's largest l2 norm, both in steps; a lost device
        takes its trials with it."""
        heard = report.noisy_devices
        return math.sqrt(heard * self.trials) / 2 / steps_of(self.message) if heard else math.inf

    def ledger(self, settings: Settings, secure: bool) -> BinomialLedger:
        """Client level, replace-one."""
        sampling = SELECTIONS[settings.selection.kind].sampling
        if sampling == "poisson":
            raise UserError(
                "selection.kind: the amplification of cpsgd is for a sample of fixed size (given: 'poisson'); take "
                "'uniform'"
            )
        rate = settings.run.selected / settings.run.devices if secure and sampling == "without_replacement" else 1.0
        return BinomialLedger(self.message, rate, settings.delta, "third_party" if secure else "server")


class BinomialLedger:
    """Rounds with at least so many trials each; with the interface of `airfl.privacy.ledger.PrivacyLedger`.

    A device that is asked with probability q is amplified (Balle, Barthe, Gaboardi 2018); rounds compose by the smaller
    of adding up and advanced composition (Dwork, Rothblum, Vadhan 2010). A run counts with its round of fewest trials.
    """

    level = "client"
    adjacency = "replace_one"
    accountant = "cpSGD theorem 1, amplification, advanced composition"
    sampling: Sampling = "without_replacement"

    def __init__(self, message: Quantised, rate: float, delta: float, observer: str) -> None:
        self.delta, self.observer = delta, observer
        self._message, self._rate = message, rate
        self._rounds, self._fewest = 0, math.inf

    def of_one_round(self, noise_multiplier: float, sampling: Sampling) -> float:
        """Epsilon of one round by itself; nan as Poisson, for which nothing is known."""
        if sampling == "poisson":
            return math.nan
        return 0.0 if math.isinf(noise_multiplier) else self._epsilon(self._trials(noise_multiplier), 1)

    def record(
        self, noise_multiplier: float, compose: bool, devices: NDArray[np.int64] | None = None
    ) -> PrivacyFigures:
        """Enter a round; one that nobody was heard in (inf) releases nothing."""
        if not math.isinf(noise_multiplier):
            self._rounds += 1
            self._fewest = min(self._fewest, self._trials(noise_multiplier))
        whole = math.nan
        if compose:
            whole = self._epsilon(int(self._fewest), self._rounds) if self._rounds else 0.0
        return PrivacyFigures(self.of_one_round(noise_multiplier, self.sampling), whole, math.nan)

    def _trials(self, noise_multiplier: float) -> int:
        return round((2 * noise_multiplier * steps_of(self._message)) ** 2)

    def _epsilon(self, trials: int, rounds: int) -> float:
        return cpsgd_epsilon(self._message, trials, self._rate, rounds, self.delta)


def steps_of(message: Quantised) -> float:
    """The largest l2 norm of one device's message in steps of the quantiser, D (k - 1)/(2 X)."""
    return message.clip_norm * (message.levels - 1) / (2 * message.bound)
