"""Placement of devices in the cell, from uniform numbers; the base station is at the origin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.draws import Draw

Array = NDArray[np.float64]
Points = Sequence[Sequence[float]]

MOST_PLACES = 128
"""Largest number of places that are drawn for one device."""


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
        distances_m: (area, access points (x, y) in m) -> smallest and largest possible horizontal distance of a device
            from an access point in m.
        drawn: Whether places are drawn, so that a device that is too near to an access point can be placed again.
    """

    place: Callable[[Array, Area], Array]
    check: Callable[[Area, int], None]
    distances_m: Callable[[Area, Points], tuple[float, float]]
    drawn: bool


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


def placed_again(placement: Placement, plane: Array, area: Area, points: Points, draw: Draw) -> Array:
    """Return places of which none is nearer than `area.min_distance_m` to an access point, [devices, 2].

    A device that is too near is placed again with further uniform numbers of its own, so that devices are uniform over
    the rest of the area, and do not depend on each other.

    Args:
        placement: The placement.
        plane: First places, x and y in m, [devices, 2].
        area: The area.
        points: x and y of the access points in m.
        draw: Uniform numbers for further places, two for each.

    Raises ValueError if `MOST_PLACES` further places of a device are too near.
    """
    plane, places = plane.copy(), 1
    near = _too_near(plane, area, points)
    while near.any():
        if places > MOST_PLACES:
            raise ValueError(
                f"access_points: no place was found for {np.count_nonzero(near):,} devices at least "
                f"{area.min_distance_m:g} m from all {len(points)} access points; use fewer points, a smaller "
                "min_distance_m or a larger radius_m"
            )
        uniforms = draw(2 * places)[near]
        for place in range(places // 2, places):
            rows = np.flatnonzero(near)
            plane[rows] = placement.place(uniforms[:, 2 * place : 2 * place + 2], area)
            still = _too_near(plane[rows], area, points)
            uniforms, near[rows] = uniforms[still], still
        places *= 2
    return plane


def _too_near(plane: Array, area: Area, points: Points) -> NDArray[np.bool_]:
    near = np.zeros(len(plane), dtype=bool)
    for x, y in points:
        near |= np.hypot(plane[:, 0] - x, plane[:, 1] - y) < area.min_distance_m
    return near


def _distances_in_ring(area: Area, points: Points) -> tuple[float, float]:
    return area.min_distance_m, area.radius_m + max(math.hypot(*point) for point in points)


def _distances_of_points(area: Area, points: Points) -> tuple[float, float]:
    distances = [math.dist(place, point) for place in area.coordinates for point in points]
    return min(distances), max(distances)


PLACEMENTS: dict[str, Placement] = {
    "disc": Placement(_in_ring, _check_disc, _distances_in_ring, drawn=True),
    "annulus": Placement(_in_ring, _check_annulus, _distances_in_ring, drawn=True),
    "coordinates": Placement(_as_given, _check_coordinates, _distances_of_points, drawn=False),
}
"""disc and annulus: uniform over the area between min_distance_m (positive for annulus) and the radius; coordinates:
the first of the configured coordinates."""
