"""Where the receiver's antennas are, and with which phases a plane wave meets them. A geometry is a line in a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.part import Part, parameter

MOST_ANTENNAS = 64


class AntennaArray(Part):
    """Where the receiver's antennas are."""

    kind: str = parameter(default="linear", description="geometry, see `ARRAYS`")
    count: int = parameter(default=1, ge=1, le=MOST_ANTENNAS, key="count", description="A")
    rows: int = parameter(default=1, ge=1, key="rows", description="of array = rectangular; they divide the count")
    spacing_wavelengths: float = parameter(
        default=0.5, gt=0, le=10, key="spacing_wavelengths", description="between neighbours"
    )

    def check(self) -> None:
        """There is such a geometry, and its rows are full."""
        if self.kind not in ARRAYS:
            raise ValueError(f'an array "{self.kind}": known are {", ".join(ARRAYS)}')
        if self.kind == "rectangular" and self.count % self.rows:
            raise ValueError(f"{self.rows} rows of {self.count} antennas: the number of rows must divide the count")

    @cached_property
    def positions(self) -> Array:
        """In wavelengths, [antennas, 3]: along the broadside, to its left, up; read-only."""
        points = ARRAYS[self.kind](self)
        points.flags.writeable = False
        return points


@dataclass(frozen=True)
class Directions:
    """Directions of the devices as the array sees them.

    Attributes:
        azimuth_rad: Angle from the broadside to the left in rad, [devices].
        elevation_rad: Angle above the horizon in rad, [devices].
    """

    azimuth_rad: Array
    elevation_rad: Array

    def take(self, rows: NDArray[np.int64]) -> Directions:
        """Of these devices alone."""
        return Directions(self.azimuth_rad[rows], self.elevation_rad[rows])


def steering_turns(array: AntennaArray, directions: Directions) -> Array:
    """Phase over 2 pi that a plane wave from each direction has at each antenna, [devices, antennas].

    With p the position of an antenna and u the unit vector towards the device, p u: of a linear array m d sin(azimuth)
    cos(elevation) at antenna m (Bjornson, Hoydis, Sanguinetti 2017, sections 1.3.2 and 7.3.1). The origin is the first
    antenna of a linear or rectangular array, the centre of a circular one.
    """
    level = np.cos(directions.elevation_rad)
    azimuth = directions.azimuth_rad
    towards = (level * np.cos(azimuth), level * np.sin(azimuth), np.sin(directions.elevation_rad))
    # Coordinate by coordinate: then no bit of a device's row depends on how many rows there are.
    along = (array.positions[:, axis] * towards[axis][:, None] for axis in range(3))
    return np.asarray(sum(along))


def _linear(array: AntennaArray) -> Array:
    return _points(np.arange(array.count), np.zeros(array.count)) * array.spacing_wavelengths


def _rectangular(array: AntennaArray) -> Array:
    row, column = np.divmod(np.arange(array.count), array.count // array.rows)
    return _points(column, row) * array.spacing_wavelengths


def _circular(array: AntennaArray) -> Array:
    """Level; neighbours are a chord d apart, so the radius is d/(2 sin(pi/A)); the first is on the broadside."""
    radius = array.spacing_wavelengths / (2 * math.sin(math.pi / array.count)) if array.count > 1 else 0.0
    around = 2 * np.pi * np.arange(array.count) / array.count
    return radius * np.stack([np.cos(around), np.sin(around), np.zeros(array.count)], axis=1)


def _points(left: NDArray[np.int64], up: NDArray[np.int64] | Array) -> Array:
    return np.stack([np.zeros(len(left)), left, up], axis=1)


ARRAYS: dict[str, Callable[[AntennaArray], Array]] = {
    "linear": _linear,
    "rectangular": _rectangular,
    "circular": _circular,
}
"""linear: level, across the broadside; rectangular: rows of it one above the other; circular: level."""
