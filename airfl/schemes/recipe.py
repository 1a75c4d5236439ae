"""What a scheme is: a recipe over shared stages and uplinks. The round that follows it knows no scheme by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from airfl.config.settings import Settings
from airfl.radio.parts import grid_of, link_noise_std_of, noise_std_of
from airfl.stages.stage import Stage
from airfl.uplinks.uplink import LinkReport, Uplink
from channels.grid import OfdmaGrid


@dataclass(frozen=True)
class Problem:
    """What a recipe is made for.

    settings; dimension: d; largest_weight: the largest weight of a device in the mean (1 where all are equal).
    """

    settings: Settings
    dimension: int
    largest_weight: float = 1.0

    @property
    def grid(self) -> OfdmaGrid:
        """The OFDMA grid of the settings."""
        return grid_of(self.settings)

    @property
    def noise_std(self) -> float:
        """sigma_0, in the settings' units."""
        return noise_std_of(self.settings)

    @property
    def link_noise_std(self) -> float:
        """What digital links are set against."""
        return link_noise_std_of(self.settings)


@dataclass(frozen=True)
class Claim:
    """The privacy a paper claims, by its own formula. scope: of one round, or of the run up to a round."""

    epsilon: Callable[[LinkReport], float]
    scope: Literal["round", "run"]


@dataclass(frozen=True)
class Recipe:
    """Encoder stages left to right, the uplink that carries what they make, what the paper claims of it."""

    stages: tuple[Stage, ...]
    uplink: Uplink
    claim: Claim | None = None


@dataclass(frozen=True)
class Scheme:
    """An entry of the table of schemes."""

    name: str
    title: str
    paper: str
    link: Literal["analog", "digital", "ideal"]
    build: Callable[[Problem], Recipe]
