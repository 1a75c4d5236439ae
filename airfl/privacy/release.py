"""What a round gives away, of whom, and the ledger that adds it up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airfl.privacy.ledger import PrivacyFigures, PrivacyLedger
from airfl.privacy.record import Event, RecordLedger
from airfl.selection import SELECTIONS, Sampling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from airfl.config.settings import Settings
    from airfl.stages.stage import MessageBound
    from airfl.uplinks.uplink import LinkReport


class Ledger(Protocol):
    """Takes the rounds of a run in order; composes when asked."""

    delta: float
    sampling: Sampling

    @property
    def level(self) -> str:
        """Whose data is protected: a client's, or one record of a client."""
        ...

    @property
    def observer(self) -> str:
        """From whom: a third party who sees what is broadcast, or the server."""
        ...

    @property
    def adjacency(self) -> str:
        """The relation `epsilon` is for."""
        ...

    @property
    def accountant(self) -> str:
        """The accountant behind `epsilon`."""
        ...

    def of_one_round(self, noise_multiplier: float, sampling: Sampling) -> float:
        """Tight epsilon of one round by itself, under that sampling; nothing is entered."""
        ...

    def record(
        self, noise_multiplier: float, compose: bool, devices: NDArray[np.int64] | None = None
    ) -> PrivacyFigures:
        """Enter a round of these devices."""
        ...


class Release(Protocol):
    """What a round gives away."""

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Noise over the largest contribution of one device, or record; 0 without noise or bound, inf where nothing was
        released."""
        ...

    def ledger(self, settings: Settings, secure: bool) -> Ledger:
        """Of a run. secure: the server sees the sum only."""
        ...


@dataclass(frozen=True)
class ClientRelease:
    """The sum of the devices' messages under Gaussian noise: that of the channel, and that of the devices."""

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """sqrt(channel's^2 + devices'^2); a lost device takes its share of the devices' noise with it."""
        if math.isnan(report.alignment_coefficient) and not report.devices.active.any():
            return math.inf  # orthogonal links, and nobody was heard
        largest = bound.sensitivity * largest_weight
        own = bound.noise_std * math.sqrt(report.noisy_devices)
        return math.hypot(report.protection, own) / largest

    def ledger(self, settings: Settings, secure: bool) -> Ledger:
        """Client level; without secure aggregation the server sees single messages, and knows whom it asked."""
        sampling = SELECTIONS[settings.selection.kind].sampling
        return PrivacyLedger(
            sampling if secure else "by_channel",
            settings.run.selected,
            settings.run.devices,
            settings.delta,
            settings.csi_tail,
            observer="third_party" if secure else "server",
        )


@dataclass(frozen=True)
class RecordRelease:
    """Every device's own message, perturbed before it leaves the device. events: of one participation."""

    events: tuple[Event, ...]

    def noise_multiplier(self, bound: MessageBound, largest_weight: float, report: LinkReport) -> float:
        """Of the event that is protected least."""
        return min((event.noise_multiplier for event in self.events), default=0.0)

    def ledger(self, settings: Settings, secure: bool) -> Ledger:
        """Record level, against the server."""
        return RecordLedger(self.events, settings.run.devices, settings.delta)
