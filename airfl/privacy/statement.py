"""What privacy figures are for: whose data, against whom, hidden by what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airfl.errors import UserError
from airfl.privacy.events import Adjacency, Event, FixedSizeSampled, PoissonSampled, as_poisson
from airfl.selection import SELECTIONS, Sampling

if TYPE_CHECKING:
    from airfl.config.settings import Settings

Level = Literal["client", "record"]
Observer = Literal["third_party", "server"]


@dataclass(frozen=True)
class Statement:
    """What the figures of a run are for.

    level: whose data is protected; sampling: what hides who took part, as far as anything does; selected, devices: r
    and N of the sample of devices; observer: from whom; delta: of the statement; tail: the part of it that pays for
    noise multipliers that are no bounds for certain; accountant: a name of the table; attained: whether
    neighbours exist that really pay what is accounted, so that it can be bounded from below.
    """

    level: Level
    sampling: Sampling
    selected: int
    devices: int
    observer: Observer
    delta: float
    tail: float = 0.0
    accountant: str = "auto"
    attained: bool = True

    @property
    def adjacency(self) -> Adjacency:
        """The relation that `epsilon` is for."""
        return "add_remove" if self.sampling == "poisson" else "replace_one"

    @property
    def delta_of_noise(self) -> float:
        """What of delta is left for the accountants."""
        return self.delta - self.tail

    @property
    def hidden(self) -> bool:
        """Whether the observer cannot tell which devices took part."""
        return self.level == "client" and self.sampling != "by_channel" and self.observer == "third_party"

    def of_round(self, event: Event) -> Event:
        """What a round releases that somebody was in with this event, as the observer sees it."""
        if not self.hidden:
            return event
        if self.sampling == "poisson":
            return PoissonSampled(self.selected / self.devices, event)
        return FixedSizeSampled(self.selected, self.devices, event)

    def of_round_as_poisson(self, event: Event) -> Event:
        """The same by the literature's convention: Poisson samples, of devices or of records."""
        return PoissonSampled(self.selected / self.devices, event) if self.level == "client" else as_poisson(event)


def statement_of(settings: Settings, level: Level, link: str) -> Statement:
    """Of a run over that link.

    Client level: without secure aggregation a digital server sees single messages, and knows whom it asked. Record
    level: against the server, who sees each device's message; the sample that hides is that of a device's records.
    UserError where third_party is asked for and the server sees single messages.
    """
    wanted = settings.privacy.observer
    secure = link != "digital" or settings.digital.secure_aggregation != "off"
    if wanted == "third_party" and not (secure and level == "client"):
        raise UserError(
            "privacy.observer: single messages reach the server here, which is who they are protected from; take "
            '"auto" or "server"'
        )
    client = level == "client"
    return Statement(
        level=level,
        sampling=SELECTIONS[settings.selection.kind].sampling if client else "without_replacement",
        selected=settings.run.selected,
        devices=settings.run.devices,
        observer="third_party" if client and secure and wanted != "server" else "server",
        delta=settings.delta,
        tail=settings.csi_tail if client else 0.0,
        accountant=settings.privacy.accountant,
        attained=not client or settings.privacy.csi_error == "realised",
    )
