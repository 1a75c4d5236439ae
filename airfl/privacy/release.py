"""What a round gives away, and of whom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from airfl.privacy.events import Composed, Event, Gaussian, NonPrivate, noise_of
from airfl.selection import Sampling

if TYPE_CHECKING:
    from airfl.stages.stage import MessageBound
    from airfl.uplinks.uplink import LinkReport


class Release(Protocol):
    """What a round gives away of somebody who was in it."""

    @property
    def level(self) -> Literal["client", "record"]:
        """Whose data is protected: a client's, or one record of a client."""
        ...

    @property
    def attained(self) -> bool:
        """Whether what is accounted is what an observer sees, and somebody can move it so far: no mere bound."""
        ...

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Noise over the largest contribution of one device, or record; 0 without noise or bound, inf where nothing was
        released."""
        ...

    def event(self, noise_multiplier: float) -> Event:
        """What a round with that noise multiplier released; what the channel really had that round is in it."""
        ...

    def check(self, sampling: Sampling) -> None:
        """UserError for a sampling under which nothing is known of this release."""
        ...


@dataclass(frozen=True)
class ClientRelease:
    """The sum of the devices' messages under Gaussian noise: that of the channel, and that of the devices.

    Attributes:
        attained: Whether some pair of neighbours really pays what is accounted: false where only a decision on the sum
            is broadcast, or no message is known that moves it to its bound.
        level: Whose data is protected.
    """

    attained: bool = True
    level: Literal["client"] = "client"

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """sqrt(channel's^2 + devices'^2); a lost device takes its share of the devices' noise with it."""
        if math.isnan(report.alignment_coefficient) and not report.devices.active.any():
            return math.inf  # orthogonal links, and nobody was heard
        largest = bound.sensitivity * largest_weight
        own = bound.noise_std * math.sqrt(report.noisy_devices)
        return math.hypot(report.protection, own) / largest

    def event(self, noise_multiplier: float) -> Event:
        """Gaussian noise; rounds whose noise differs in the last digits only are equal."""
        return Gaussian(float(f"{noise_multiplier:.12g}"))

    def check(self, sampling: Sampling) -> None:
        """Anything goes."""


@dataclass(frozen=True)
class RecordRelease:
    """Every device's own message, perturbed before it leaves the device.

    Attributes:
        batches: Gaussian releases of one participation, each on a mini-batch of its records, and how often each.
        attained: Whether some pair of neighbours really pays what is accounted: false where the batches stand for a
            release that says less.
        level: Whose data is protected.
    """

    batches: tuple[tuple[Event, int], ...]
    attained: bool = True
    level: Literal["record"] = "record"

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Of the release that is protected least."""
        return min((noise_of(event).noise_multiplier for event, _ in self.batches), default=0.0)

    def event(self, noise_multiplier: float) -> Event:
        """All releases of a participation."""
        return Composed(self.batches) if noise_multiplier > 0 else NonPrivate()

    def check(self, sampling: Sampling) -> None:
        """Anything goes: that of devices hides nothing from the server."""
