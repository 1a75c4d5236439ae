"""Placement of devices in the cell, from uniform numbers; the base station is at the origin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Area:
    """The area in which devices are placed.

    Attributes:
        radius_m: Outer horizontal radius of "disc" and "annulus" in m.
        min_distance_m: Inner horizontal radius of "disc" and "annulus" in m.
        coordinates: (x, y) of every device in m, for "coordinates".
    """

    radius_m: float
    min_distance_m: float
    coordinates: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class Placement:
    """A kind of placement.

    Attributes:
        place: (uniforms [devices, 2], area) -> x and y in m, [devices, 2].
        check: (area, devices) -> None; raises ValueError for an area in which devices cannot be placed.
        distances_m: Area -> smallest and largest possible horizontal distance from the base station in m.
    """

    place: Callable[[Array, Area], Array]
    check: Callable[[Area, int], None]
    distances_m: Callable[[Area], tuple[float, float]]


def _in_ring(uniforms: Array, area: Area) -> Array:
    """Points uniform over the area: the squared distance is uniform between the squared radii."""
    inner, outer = area.min_distance_m**2, area.radius_m**2
    distance = np.sqrt(inner + (outer - inner) * uniforms[:, 0])
    angle = 2 * np.pi * uniforms[:, 1]
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)


def _as_given(uniforms: Array, area: Area) -> Array:
    return np.array(area.coordinates[: len(uniforms)], dtype=np.float64).reshape(-1, 2)


def _check_disc(area: Area, devices: int) -> None:
    if not 0 <= area.min_distance_m < area.radius_m:
        raise ValueError(
            f"the minimum distance, {area.min_distance_m:g} m, must be at least 0 and below the cell radius, "
            f"{area.radius_m:g} m"
        )


def _check_annulus(area: Area, devices: int) -> None:
    _check_disc(area, devices)
    if area.min_distance_m == 0:
        raise ValueError('the minimum distance of an annulus must not be 0 m; give a positive one, or use "disc"')


def _check_coordinates(area: Area, devices: int) -> None:
    if len(area.coordinates) < devices:
        raise ValueError(f"{len(area.coordinates)} coordinates for {devices} devices; give one [x, y] for each")
    for index, point in enumerate(area.coordinates):
        if not all(math.isfinite(value) for value in point):
            raise ValueError(f"coordinates {list(point)} of device {index} must be two finite numbers, [x, y] in m")


def _distances_of_points(area: Area) -> tuple[float, float]:
    distances = [math.hypot(*point) for point in area.coordinates]
    return min(distances), max(distances)


PLACEMENTS: dict[str, Placement] = {
    "disc": Placement(_in_ring, _check_disc, lambda area: (area.min_distance_m, area.radius_m)),
    "annulus": Placement(_in_ring, _check_annulus, lambda area: (area.min_distance_m, area.radius_m)),
    "coordinates": Placement(_as_given, _check_coordinates, _distances_of_points),
}
"""disc and annulus: uniform over the area between min_distance_m (positive for annulus) and the radius; coordinates:
the first of the configured coordinates."""
