"""What a scheme is: a recipe over shared stages and uplinks. The round that follows it knows no scheme by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from airfl.config.settings import Settings
from airfl.local.work import LocalSgd, LocalWork
from airfl.privacy.release import ClientRelease, Release
from airfl.radio.parts import noise_std_of
from airfl.schemes.links import uplink_of
from airfl.schemes.scheme import LinkKind
from airfl.server import ServerRule
from airfl.stages.stage import Stage
from airfl.uplinks.uplink import LinkReport, Uplink


@dataclass(frozen=True)
class Problem:
    """What a recipe is made for.

    Attributes:
        settings: All settings of the run.
        dimension: d, parameters of the model.
        link: What carries the messages.
        largest_weight: The largest weight of a device in the mean; 1 where all are equal.
        samples: m, of the device that has fewest.
    """

    settings: Settings
    dimension: int
    link: LinkKind
    largest_weight: float = 1.0
    samples: int = 1

    @property
    def noise_std(self) -> float:
        """sigma_0, in the settings' units."""
        return noise_std_of(self.settings.channel, self.settings.grid)

    @property
    def batch(self) -> int:
        """b, samples of a mini-batch; m where the device that has fewest has no more."""
        return min(self.settings.local.batch_size, self.samples)

    def uplink(self, privacy_bound: float = math.inf) -> Uplink:
        """What carries the messages; privacy_bound: the largest beta that privacy allows over an analog link."""
        return uplink_of(self.link, self.settings, privacy_bound)


@dataclass(frozen=True)
class Claim:
    """The privacy that a paper claims, by its own formula.

    Attributes:
        epsilon: (what the link did, rounds so far) -> epsilon.
        scope: Whether it is of one round, or of the run up to a round.
        in_tables: Rounds so far -> what the paper's tables print, where that is by another formula; else None.
    """

    epsilon: Callable[[LinkReport, int], float]
    scope: Literal["round", "run"]
    in_tables: Callable[[int], float] | None = None


@dataclass(frozen=True)
class Recipe:
    """What a scheme is made of.

    Attributes:
        stages: Stages of the encoder, left to right.
        uplink: What carries what they make.
        server: What the server does with the mean update.
        local: What the devices compute.
        release: What is released, and of whom.
        claim: The privacy that the paper claims, None for no claim.
        public_data: Whether coordinates are chosen on public data.
        noise_target: The noise multiplier that every round is to have, the channel's noise counting first and the
            devices adding what is missing; None where they always add the same.
        calibrated: Whether noise follows the accountant.
    """

    stages: tuple[Stage, ...]
    uplink: Uplink
    server: ServerRule
    local: LocalWork = field(default_factory=LocalSgd)
    release: Release = field(default_factory=ClientRelease)
    claim: Claim | None = None
    public_data: bool = False
    noise_target: float | None = None
    calibrated: bool = False
