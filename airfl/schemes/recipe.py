"""The recipe of a scheme: which shared stages, uplink and server rule it combines.

`airfl.core.round` runs any recipe and knows no scheme by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from airfl.config.settings import Settings
from airfl.learning.server import ServerRule
from airfl.learning.work import LocalSgd, LocalWork
from airfl.schemes.links import uplink_of
from airfl.schemes.release import ClientRelease, Release
from airfl.schemes.scheme import LinkKind
from airfl.uplinks.radio.parts import noise_std_of
from airfl.uplinks.stages.stage import MessageBound, Stage
from airfl.uplinks.uplink import LinkReport, Uplink


@dataclass(frozen=True)
class Problem:
    """The learning problem that a recipe is built for.

    Attributes:
        settings: All settings of the run.
        dimension: d, number of model parameters.
        link: The link that carries the messages.
        largest_weight: The largest weight of a device in the mean; 1 if all are equal.
        samples: m, samples of the device with the fewest.
        silent: Whether some devices have no channel in some rounds, as recorded ones may.
        more_samples: The numbers of samples that other devices have, ascending.
    """

    settings: Settings
    dimension: int
    link: LinkKind
    largest_weight: float = 1.0
    samples: int = 1
    silent: bool = False
    more_samples: tuple[int, ...] = ()

    @property
    def of_other_sizes(self) -> tuple[Problem, ...]:
        """The problem as a device with each of `more_samples` has it."""
        return tuple(replace(self, samples=samples, more_samples=()) for samples in self.more_samples)

    @property
    def noise_std(self) -> float:
        """sigma_0, standard deviation of the receiver noise, in the units of the settings."""
        return noise_std_of(self.settings.channel, self.settings.grid)

    @property
    def batch(self) -> int:
        """b, the mini-batch size, at most m."""
        return min(self.settings.local.batch_size, self.samples)

    def uplink(self, privacy_bound: float = math.inf) -> Uplink:
        """Build the uplink. privacy_bound: the largest beta that privacy allows over an analog link."""
        return uplink_of(self.link, self.settings, privacy_bound)


@dataclass(frozen=True)
class Claim:
    """The privacy that a paper claims, by its own formula.

    Attributes:
        epsilon: Maps (link report of the round, rounds so far) to epsilon.
        scope: Whether epsilon covers a single round, or the run up to and including the round.
        in_tables: Maps the rounds so far to the epsilon printed in the paper's tables; None if the tables use the same
            formula.
    """

    epsilon: Callable[[LinkReport, int], float]
    scope: Literal["round", "run"]
    in_tables: Callable[[int], float] | None = None


@dataclass(frozen=True)
class Recipe:
    """The components of a scheme.

    Attributes:
        stages: Stages of the encoder, in the order of encoding.
        uplink: The uplink that carries the encoded messages.
        server: How the server applies the mean update.
        local: What the devices compute.
        release: What is released, at client or record level.
        claim: The privacy that the paper claims, None for no claim.
        public_data: Whether coordinates are selected, or words trained, on public data.
        public_steps: Steps of the server's training on public data; None for those of a device of mean size.
        noise_target: The noise multiplier of every round. Channel noise counts toward it, and the devices add the rest.
            None if the devices always add the same noise.
        calibrated: Whether the noise is calibrated by the accountant.
    """

    stages: tuple[Stage, ...]
    uplink: Uplink
    server: ServerRule
    local: LocalWork = field(default_factory=LocalSgd)
    release: Release = field(default_factory=ClientRelease)
    claim: Claim | None = None
    public_data: bool = False
    public_steps: int | None = None
    noise_target: float | None = None
    calibrated: bool = False

    def adds_noise(self, bound: MessageBound) -> bool:
        """Return whether the devices add noise to messages with this bound."""
        # Other releases have noise in the training, or noise that is not Gaussian.
        return self.stages_add_noise(bound) or not isinstance(self.release, ClientRelease)

    def stages_add_noise(self, bound: MessageBound) -> bool:
        """Return whether a stage adds noise to messages with this bound, also if a later stage changes it."""
        return bound.noise_std > 0 or bound.local_multiplier is not None
