"""What a round of cpSGD releases: a sum of integers with binomial noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airfl.errors import UserError
from airfl.privacy.binomial import Quantised
from airfl.privacy.events import NOTHING, Binomial, Event
from airfl.selection import Sampling

if TYPE_CHECKING:
    from airfl.uplinks.stages.stage import MessageBound
    from airfl.uplinks.uplink import LinkReport


@dataclass(frozen=True)
class BinomialRelease:
    """The sum of quantised messages, each with m trials of binomial noise.

    Attributes:
        message: The message of one device.
        trials: m, binomial trials of one device.
        attained: Whether some pair of neighbours attains the accounted epsilon; False, as it is only a bound here.
        level: Whose data is protected.
    """

    message: Quantised
    trials: int
    attained: bool = False
    level: Literal["client"] = "client"

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Return the standard deviation of the noise on the sum over the largest l2 norm of one message, both in steps.
        The trials of a lost device are missing from the noise."""
        received = report.noisy_devices
        return math.sqrt(received * self.trials) / 2 / steps_of(self.message) if received else math.inf

    def event(self, noise_multiplier: float) -> Event:
        """Return binomial noise with the trials of all received devices, or an empty event where none is received."""
        if math.isinf(noise_multiplier):
            return NOTHING
        return Binomial(self.message, round((2 * noise_multiplier * steps_of(self.message)) ** 2))

    def check(self, sampling: Sampling) -> None:
        """Raise UserError for Poisson sampling."""
        if sampling == "poisson":
            raise UserError(
                "selection.kind: cpsgd needs a sample of fixed size for its amplification, got 'poisson'; use 'uniform'"
            )


def steps_of(message: Quantised) -> float:
    """Return the largest l2 norm of one device's message in steps of the quantiser, D (k - 1)/(2 X)."""
    return message.clip_norm * (message.levels - 1) / (2 * message.bound)
