"""What a round releases, and about whom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from airfl.privacy.events import Composed, Event, Gaussian, NonPrivate, noise_of
from airfl.privacy.record import Batches
from airfl.selection import Sampling

if TYPE_CHECKING:
    from airfl.uplinks.stages.stage import MessageBound
    from airfl.uplinks.uplink import LinkReport


class Release(Protocol):
    """What a round releases about a participant."""

    @property
    def level(self) -> Literal["client", "record"]:
        """Whose data is protected: all data of a client, or one record of a client."""
        ...

    @property
    def attained(self) -> bool:
        """Whether some pair of neighbours attains the accounted epsilon, so that it is more than a bound."""
        ...

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Return the noise over the largest contribution of one device or record: 0 without noise or bound, inf where
        nothing is released."""
        ...

    def event(self, noise_multiplier: float) -> Event:
        """Return what a round releases whose channel realisation gave this noise multiplier."""
        ...

    def check(self, sampling: Sampling) -> None:
        """Raise UserError for a sampling under which this release has no known bound."""
        ...


@dataclass(frozen=True)
class ClientRelease:
    """The sum of the devices' messages with the Gaussian noise of the channel and of the devices.

    Attributes:
        attained: Whether some pair of neighbours attains the accounted epsilon: False where only a decision on the sum
            is broadcast, or where no message is known to reach the bound on its norm.
        level: Whose data is protected.
    """

    attained: bool = True
    level: Literal["client"] = "client"

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Return sqrt(channel noise^2 + device noise^2) over the largest contribution, or the multiplier of single
        messages (`MessageBound.local_multiplier`). The noise of a lost device does not count."""
        if math.isnan(report.alignment_coefficient) and not report.devices.active.any():
            return math.inf  # orthogonal links on which no message was received
        if math.isinf(report.protection):
            return math.inf  # no message is observed
        largest = bound.sensitivity * largest_weight
        if bound.local_multiplier is not None:
            return max(report.protection / largest, bound.local_multiplier)
        own = bound.noise_std * math.sqrt(report.noisy_devices)
        return math.hypot(report.protection, own) / largest

    def event(self, noise_multiplier: float) -> Event:
        """Return Gaussian noise, rounded to 12 digits so that rounds with equal noise are equal events."""
        return Gaussian(float(f"{noise_multiplier:.12g}"))

    def check(self, sampling: Sampling) -> None:
        """Accept every sampling."""


@dataclass(frozen=True)
class RecordRelease:
    """The message of every device, perturbed on the device.

    Attributes:
        batches: Gaussian releases of one participation, each on a mini-batch of records, with their counts.
        attained: Whether some pair of neighbours attains the accounted epsilon: False where the batches are an upper
            bound on what is released.
        level: Whose data is protected.
        by_samples: Number of samples -> these releases of a device with more samples than the one with the fewest.
        worse: Those among them that some number of participations may make worse than `batches`.
    """

    batches: Batches
    attained: bool = True
    level: Literal["record"] = "record"
    by_samples: Mapping[int, Batches] = field(default_factory=dict)
    worse: tuple[Batches, ...] = ()

    @property
    def is_private(self) -> bool:
        """Whether every batch is released with noise."""
        return bool(self.batches) and all(noise_of(event).noise_multiplier > 0 for event, _ in self.batches)

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Return the smallest noise multiplier of the releases."""
        return min((noise_of(event).noise_multiplier for event, _ in self.batches), default=0.0)

    def event(self, noise_multiplier: float) -> Event:
        """Return all releases of one participation."""
        return Composed(self.batches) if noise_multiplier > 0 else NonPrivate()

    def check(self, sampling: Sampling) -> None:
        """Accept every sampling, as the selection of devices hides nothing from the server."""
