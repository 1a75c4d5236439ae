"""What privacy figures are for: whose data, against whom, hidden by what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from airfl.errors import UserError
from airfl.privacy.accountants import Accountant, Auto
from airfl.privacy.events import NOTHING, Adjacency, Event, FixedSizeSampled, PoissonSampled, as_poisson
from airfl.privacy.visibility import alike, beta_tells, is_granted
from airfl.selection.draws import sampling_of
from airfl.selection.rule import Sampling

if TYPE_CHECKING:
    from airfl.config.settings import Settings
    from airfl.uplinks.disclosure import Disclosure

Level = Literal["client", "record"]
Observer = Literal["third_party", "server"]
Gains = Literal["public", "private"]
BetaTells = Literal["nothing", "exact", "granted", "unknown"]
"""Of who was selected, where that is kept from the observer. nothing: beta does not follow from them, or there is none;
exact: accounted as it is; granted: accounted as more than it, or something else that shows, may tell; unknown:
accounted as if it told nothing, which rests on gains that the observer does not know."""


@dataclass(frozen=True)
class Statement:
    """What the figures of a run are for.

    Attributes:
        level: Whose data is protected.
        sampling: What hides who took part, as far as anything does.
        selected: r of the sample of devices.
        devices: N of the sample of devices.
        observer: From whom the data is protected.
        delta: delta of the statement, `tail` included.
        tail: The part of delta that pays for noise multipliers that are no bounds for certain.
        accountant: By which epsilon is computed.
        attained: Whether neighbours exist that really pay what is accounted, so that it can be bounded from below.
        gains: Whether the observer knows all devices' channel gains and power limits ("public") or not ("private").
        granted: Whether it is granted who took part, as beta, or something else that shows, tells of them in a way that
            is not worked out, or not known in advance.
        memory: Whether devices keep something from round to round that goes into what they send, so that later rounds
            tell of earlier samples.
    """

    level: Level
    sampling: Sampling
    selected: int
    devices: int
    observer: Observer
    delta: float
    tail: float = 0.0
    accountant: Accountant = field(default_factory=Auto)
    attained: bool = True
    gains: Gains = "public"
    granted: bool = False
    memory: bool = False

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
        return self.sampled and not self.granted and not self.remembered

    @property
    def remembered(self) -> bool:
        """Whether devices' memories may tell of their samples: those of fixed size, of which no amplification is proven
        then. They are granted, and everybody pays for each of their own rounds in full.

        A Poisson sample is a coin of everybody's own, fresh in every round whatever the past was.
        """
        return self.sampled and self.memory and self.sampling == "without_replacement"

    @property
    def sampled(self) -> bool:
        """Whether the observer is not told by anybody which devices took part: beta may still tell."""
        return self.level == "client" and self.sampling != "by_channel" and self.observer == "third_party"

    def of_round(self, event: Event, disclosure: Disclosure | None = None) -> Event:
        """What a round releases that somebody was in with this event, as the observer sees it.

        disclosure: what beta tells of who was in it, None for nothing; the event is then that of whoever is still
        hidden, and nothing where nobody is.
        """
        if not self.hidden:
            return event
        if disclosure is not None and not disclosure.pool:
            return NOTHING
        if self.sampling == "poisson":
            return PoissonSampled(self.selected / self.devices, event)
        if disclosure is None:
            return FixedSizeSampled(self.selected, self.devices, event)
        return FixedSizeSampled(disclosure.sample, disclosure.pool, event) if disclosure.sample else NOTHING

    def of_round_as_poisson(self, event: Event) -> Event:
        """The same by the literature's convention: Poisson samples, of devices or of records."""
        return PoissonSampled(self.selected / self.devices, event) if self.level == "client" else as_poisson(event)


def statement_of(
    settings: Settings,
    level: Level,
    link: str,
    calibrated: bool = False,
    memory: bool = False,
    own_noise: bool = False,
) -> Statement:
    """Of a run over that link. calibrated: whether its noise follows the accountant, and so has to be enough whatever
    beta turns out to tell; memory: whether devices send of what they kept; own_noise: whether they bring noise.

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
    at_server = not (client and secure and wanted != "server")
    # On several antennas, whose samples the server sees, all arrive with strengths of their own.
    apart = link == "analog" and at_server and settings.antennas.count > 1
    unknown_before = link == "analog" and settings.privacy.gains == "public" and beta_tells(settings.radio)
    return Statement(
        level=level,
        sampling=sampling_of(settings.selection.rule) if client else "without_replacement",
        selected=settings.run.selected,
        devices=settings.run.devices,
        observer="server" if at_server else "third_party",
        delta=settings.delta,
        tail=settings.csi_tail if client else 0.0,
        accountant=settings.privacy.privacy_accountant,
        # Whoever is not heard, or arrives with less than others, pays less than is accounted.
        attained=alike(settings.radio, settings.server.weights, link)
        and not apart
        and (not client or settings.privacy.csi_error == "realised"),
        gains=settings.privacy.gains,
        granted=client
        and (is_granted(settings.radio, settings.server.weights, link, own_noise) or (calibrated and unknown_before)),
        memory=memory and client,
    )
