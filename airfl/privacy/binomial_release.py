"""What a round of cpSGD gives away: a sum of whole numbers under binomial noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airfl.errors import UserError
from airfl.privacy.binomial import Quantised
from airfl.privacy.events import NOTHING, Binomial, Event
from airfl.selection import Sampling

if TYPE_CHECKING:
    from airfl.stages.stage import MessageBound
    from airfl.uplinks.uplink import LinkReport


@dataclass(frozen=True)
class BinomialRelease:
    """The sum of quantised messages, each with m trials of binomial noise.

    Attributes:
        message: What a device adds to the sum.
        trials: m, of one device.
        attained: Whether some pair of neighbours really pays what is accounted; here it is a mere bound.
        level: Whose data is protected.
    """

    message: Quantised
    trials: int
    attained: bool = False
    level: Literal["client"] = "client"

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Standard deviation of the noise on the sum over one device's largest l2 norm, both in steps; a lost device
        takes its trials with it."""
        heard = report.noisy_devices
        return math.sqrt(heard * self.trials) / 2 / steps_of(self.message) if heard else math.inf

    def event(self, noise_multiplier: float) -> Event:
        """The trials of all that were heard; nothing where nobody was."""
        if math.isinf(noise_multiplier):
            return NOTHING
        return Binomial(self.message, round((2 * noise_multiplier * steps_of(self.message)) ** 2))

    def check(self, sampling: Sampling) -> None:
        """UserError for a Poisson sample."""
        if sampling == "poisson":
            raise UserError(
                "selection.kind: the amplification of cpsgd is for a sample of fixed size (given: 'poisson'); take "
                "'uniform'"
            )


def steps_of(message: Quantised) -> float:
    """The largest l2 norm of one device's message in steps of the quantiser, D (k - 1)/(2 X)."""
    return message.clip_norm * (message.levels - 1) / (2 * message.bound)
