"""The parameters of blockage, and the blockers of TR 38.901."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from channels.part import LEAST_SCALE, MOST_SCALE, Part, parameter

MOST_REGIONS = 64
"""Largest number of blocking regions around a device."""
MOST_SCREENS = 100_000
"""Largest number of screens in a cell."""
_KM_H = 1 / 3.6


@dataclass(frozen=True)
class Blocker:
    """A kind of blocker of TR 38.901, table 7.6.4.2-5.

    Attributes:
        width_m: Width of the screen in m.
        height_m: Height of the screen in m.
        speed_m_s: The highest speed of the table in m/s.
        base_m: Height of the lower edge above the floor in m, which is not in the table.
    """

    width_m: float
    height_m: float
    speed_m_s: float
    base_m: float = 0.0


BLOCKERS: dict[str, Blocker] = {
    "human": Blocker(0.3, 1.7, 3 * _KM_H),
    "vehicle": Blocker(4.8, 1.4, 100 * _KM_H),
    "agv": Blocker(3.0, 1.5, 30 * _KM_H),
    "robot": Blocker(2.0, 0.2, 3.0, base_m=1.4),
}
"""Blockers by name: a person, a vehicle, an automated guided vehicle, and the arm of an industrial robot, which is held
at the usual height of a device."""


class Blockage(Part):
    """Blockage of paths by what stands or moves in the cell, TR 38.901, clause 7.6.4."""

    model: Literal["none", "model-a", "model-b"] = parameter(
        default="none",
        key="model",
        description="blockage of TR 38.901, clause 7.6.4: none; model-a, regions of angles around each device, which "
        "attenuate the clusters of channel.fading = umi, uma or rma; or model-b, screens in the cell, which attenuate "
        "every path of umi, uma, rma and inf-sl to inf-hh, and the line of sight of rician",
    )
    orientation: Literal["portrait", "landscape", "none"] = parameter(
        default="portrait",
        key="orientation",
        description="how the user of a device holds it, on which the region that the own body blocks depends, for "
        "model-a; none for devices without a user, an extension of TR 38.901",
    )
    regions: int = parameter(
        default=4,
        ge=0,
        le=MOST_REGIONS,
        key="regions",
        description="number of regions around a device that others block, for model-a",
    )
    blocker: Literal["human", "vehicle", "agv", "robot"] = parameter(
        default="human",
        key="blocker",
        description="kind of the screens of model-b, with the width, the height and the highest speed of table "
        "7.6.4.2-5: a person, a vehicle, an automated guided vehicle or an industrial robot",
    )
    count: int = parameter(
        default=100,
        ge=1,
        le=MOST_SCREENS,
        key="count",
        description="number of screens of model-b, placed uniformly in the circle around the base station that holds "
        "all devices",
    )
    width_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="width_m",
        unit="m",
        description="width of the screens of model-b; default that of the blocker",
    )
    height_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="height_m",
        unit="m",
        description="height of the screens of model-b, from their lower to their upper edge; default that of the "
        "blocker",
    )
    base_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="base_m",
        unit="m",
        description="height of the lower edge of the screens of model-b above the floor; default 0, or 1.4 m for robot",
    )
    speed_m_s: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="speed_m_s",
        unit="m/s",
        description="speed of the blockers; default the highest of table 7.6.4.2-5 for the blocker of model-b, and "
        "that of a person, 3 km/h, for model-a",
    )

    @property
    def size(self) -> Blocker:
        """Width, height, speed and lower edge of the screens of model-b."""
        usual = BLOCKERS[self.blocker]
        return Blocker(
            usual.width_m if self.width_m is None else self.width_m,
            usual.height_m if self.height_m is None else self.height_m,
            usual.speed_m_s if self.speed_m_s is None else self.speed_m_s,
            usual.base_m if self.base_m is None else self.base_m,
        )

    @property
    def region_speed_m_s(self) -> float:
        """Speed of the blockers of model-a in m/s."""
        return BLOCKERS["human"].speed_m_s if self.speed_m_s is None else self.speed_m_s
