"""What privacy figures refer to: whose data is protected, from which observer, with which sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from airfl.privacy.accountants import Accountant, Auto
from airfl.privacy.events import (
    NOTHING,
    Adjacency,
    Composed,
    Event,
    FixedSizeSampled,
    PoissonSampled,
    as_poisson,
    repeated,
    weight,
)
from airfl.selection.rule import Sampling

if TYPE_CHECKING:
    from airfl.privacy.disclosure import Disclosure

Level = Literal["client", "record"]
Observer = Literal["third_party", "server"]
Gains = Literal["public", "private"]
BetaTells = Literal["nothing", "exact", "granted", "unknown"]
"""What beta reveals about the selected devices where the selection is hidden from the observer.

nothing: beta does not depend on the selection, or there is no beta; exact: what beta reveals is accounted exactly;
granted: the observer is assumed to know the selection, which is at least what beta or another observable reveals;
unknown: accounted as if beta revealed nothing, which assumes that the observer does not know the channel gains."""


@dataclass(frozen=True)
class Statement:
    """What the privacy figures of a run refer to.

    Attributes:
        level: Whose data is protected.
        sampling: The sampling that may hide who takes part.
        selected: r, size of the sample of devices.
        devices: N, size of the population.
        observer: From whom the data is protected.
        delta: delta of the statement, `tail` included.
        tail: The part of delta for the probability that a noise multiplier is not a valid bound.
        accountant: The accountant that computes epsilon.
        attained: Whether some pair of neighbours attains the accounted epsilon, which then has a lower bound.
        gains: Whether the observer knows all devices' channel gains and power limits ("public") or not ("private").
        granted: Whether the observer is assumed to know who takes part, because beta or another observable depends on
            the selection in a way that is not analysed or not known in advance.
        memory: Whether the messages of devices depend on state kept between rounds, so that later rounds reveal earlier
            samples.
        participation: At record level, what a device with the fewest samples releases in a round; empty where all
            devices have equally many.
        worse: What devices with more samples release, as far as that may be worse.
        of_devices: What each device releases, [N]; empty where `participation` is.
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
    participation: Composed = NOTHING
    worse: tuple[Composed, ...] = ()
    of_devices: tuple[Composed, ...] = ()

    @property
    def adjacency(self) -> Adjacency:
        """The relation that `epsilon` is for."""
        return "add_remove" if self.sampling == "poisson" else "replace_one"

    @property
    def delta_of_noise(self) -> float:
        """The part of delta that the accountants use."""
        return self.delta - self.tail

    @property
    def hidden(self) -> bool:
        """Whether the observer cannot tell which devices took part."""
        return self.sampled and not self.granted and not self.remembered

    @property
    def remembered(self) -> bool:
        """Whether state kept on the devices may reveal earlier samples of fixed size.

        No amplification is proven for that case, so the observer is assumed to know who takes part, and every device
        is charged for each of its rounds in full. Poisson samples are independent of the past and not affected.
        """
        return self.sampled and self.memory and self.sampling == "without_replacement"

    @property
    def sampled(self) -> bool:
        """Whether no party tells the observer which devices take part; beta may still reveal it."""
        return self.level == "client" and self.sampling != "by_channel" and self.observer == "third_party"

    def of_round(self, event: Event, disclosure: Disclosure | None = None) -> Event:
        """Return what a round releases about a participant to the observer, who may not know who takes part.

        Args:
            event: What the round releases about a device that is known to take part.
            disclosure: What beta reveals about the selection, None for nothing. The result is then for a device that
                remains hidden, and empty where there is no such device.
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

    def of_all(self, event: Event) -> tuple[Event, ...]:
        """Return `event`, which a device with the fewest samples releases in some rounds, and what devices with more
        samples release in as many rounds, as far as that may be worse."""
        times = self.participations_in(event) if self.worse else 0
        return (event, *(repeated(one, times) for one in self.worse)) if times else (event,)

    def participations_in(self, event: Event) -> int:
        """Return in how many rounds a device with the fewest samples releases this; 0 where a release has no noise."""
        whole = weight(event)
        return round(whole / weight(self.participation)) if math.isfinite(whole) else 0

    def of_round_as_poisson(self, event: Event) -> Event:
        """Return the same by the literature's convention: Poisson samples of devices or of records."""
        return PoissonSampled(self.selected / self.devices, event) if self.level == "client" else as_poisson(event)
