"""Receive antenna arrays: positions of the antennas and steering phases. Geometries are entries of a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.part import Part, parameter

MAX_ANTENNAS = 256


class AntennaArray(Part):
    """The geometry of a receive antenna array."""

    kind: str = parameter(default="linear", description="geometry, see `ARRAYS`")
    count: int = parameter(default=1, ge=1, le=MAX_ANTENNAS, key="count", description="A, number of antennas")
    rows: int = parameter(
        default=1, ge=1, key="rows", description="rows of array = rectangular; must divide the number of antennas"
    )
    spacing_wavelengths: float = parameter(
        default=0.5, gt=0, le=10, key="spacing_wavelengths", description="distance between neighbouring antennas"
    )

    def check(self) -> None:
        """Raise ValueError for an unknown geometry, or if the rows of a rectangular array are not full."""
        if self.kind not in ARRAYS:
            raise ValueError(f'array must be one of {", ".join(ARRAYS)}, got "{self.kind}"')
        if self.kind == "rectangular" and self.count % self.rows:
            raise ValueError(f"rows must divide the number of antennas, {self.count}, got {self.rows}")

    @cached_property
    def positions(self) -> Array:
        """Positions in wavelengths, [antennas, 3]: along the broadside, to its left, and up; read-only."""
        points = ARRAYS[self.kind](self)
        points.flags.writeable = False
        return points


@dataclass(frozen=True)
class Directions:
    """Directions of the devices relative to the array.

    Attributes:
        azimuth_rad: Angle from the broadside, positive to the left, in rad, [devices].
        elevation_rad: Angle above the horizon in rad, [devices].
    """

    azimuth_rad: Array
    elevation_rad: Array

    def take(self, rows: NDArray[np.int64]) -> Directions:
        """Return the directions of a subset of devices."""
        return Directions(self.azimuth_rad[rows], self.elevation_rad[rows])


def steering_phase(array: AntennaArray, directions: Directions) -> Array:
    """Return the phase of a plane wave from each direction at each antenna in units of 2 pi, [devices, antennas].

    It is p u, with the position p of an antenna and the unit vector u towards the device. For a linear array, this is
    m d sin(azimuth) cos(elevation) at antenna m (Bjornson, Hoydis, Sanguinetti 2017, sections 1.3.2 and 7.3.1). The
    origin is the first antenna of a linear or rectangular array, and the centre of a circular one.
    """
    horizontal = np.cos(directions.elevation_rad)
    azimuth = directions.azimuth_rad
    towards = (horizontal * np.cos(azimuth), horizontal * np.sin(azimuth), np.sin(directions.elevation_rad))
    # One coordinate at a time, so that a device's row does not depend on the number of rows, bit for bit.
    products = (array.positions[:, axis] * towards[axis][:, None] for axis in range(3))
    return np.asarray(sum(products))


def _linear(array: AntennaArray) -> Array:
    return _points(np.arange(array.count), np.zeros(array.count)) * array.spacing_wavelengths


def _rectangular(array: AntennaArray) -> Array:
    row, column = np.divmod(np.arange(array.count), array.count // array.rows)
    return _points(column, row) * array.spacing_wavelengths


def _circular(array: AntennaArray) -> Array:
    """A horizontal circle of radius d/(2 sin(pi/A)), so that neighbours are d apart; the first antenna is on the
    broadside."""
    radius = array.spacing_wavelengths / (2 * math.sin(math.pi / array.count)) if array.count > 1 else 0.0
    angles = 2 * np.pi * np.arange(array.count) / array.count
    return radius * np.stack([np.cos(angles), np.sin(angles), np.zeros(array.count)], axis=1)


def _points(left: NDArray[np.int64], up: NDArray[np.int64] | Array) -> Array:
    return np.stack([np.zeros(len(left)), left, up], axis=1)


ARRAYS: dict[str, Callable[[AntennaArray], Array]] = {
    "linear": _linear,
    "rectangular": _rectangular,
    "circular": _circular,
}
"""linear: horizontal, perpendicular to the broadside; rectangular: stacked linear rows; circular: horizontal."""
