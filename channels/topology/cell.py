"""A cell: its settings, and whether they are consistent."""

from __future__ import annotations

import math
from dataclasses import astuple, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from channels.part import LEAST_SCALE, MOST_SCALE, Part, parameter
from channels.topology.path_loss import PATH_LOSS, Clutter, Paths, check_paths
from channels.topology.placement import PLACEMENTS, Area

Array = NDArray[np.float64]

ORIGIN = ((0.0, 0.0),)
"""The access points of a cell with one base station."""
MOST_POINTS = 256
"""Largest number of access points."""
MOST_NEIGHBOURS = 36
"""Largest number of neighbouring cells: three rings of a hexagonal network."""


class Topology(Part):
    """A cell: placement of devices, path loss and shadowing."""

    motion: Literal["none", "straight", "waypoint", "file"] = parameter(
        default="none",
        key="motion",
        description="motion of the devices at channel.speed_m_s, by which path loss, line of sight, shadowing and K "
        "factor change: none, straight on with reflection at the borders of a disc or an annulus, from one random "
        'waypoint to the next, or file = as motion_file says, with kind = "coordinates" and at most that speed',
    )
    motion_file: str | None = parameter(
        default=None,
        key="motion_file",
        description="positions of the devices over time, for motion = file: a CSV file with the columns device (from "
        "0), time_s, x_m and y_m, or an HDF5, .npz or .mat file with time_s [times] and positions_m [times, devices, "
        "2]; the base station is at the origin",
    )
    motion_end: Literal["once", "hold", "wrap"] = parameter(
        default="once",
        key="motion_end",
        description="what happens before the first time stamp of a device in motion_file and after its last: once = a "
        "run that needs it is refused; hold = it stands there; wrap = it does, until the file begins again",
    )
    motion_start_s: float = parameter(
        default=0.0,
        ge=-MOST_SCALE,
        le=MOST_SCALE,
        key="motion_start_s",
        description="time stamp in motion_file at which the run begins",
    )
    kind: str = parameter(
        default="disc",
        description="kind of placement, see `PLACEMENTS`",
    )
    radius_m: float = parameter(
        default=250.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="radius_m",
        description="cell radius",
    )
    min_distance_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="min_distance_m",
        description="smallest horizontal distance to the origin and to every access point; default the smallest of the "
        "path loss model",
    )
    coordinates: tuple[tuple[float, float], ...] | None = parameter(
        default=None,
        key="coordinates",
        description="[[x, y], ...] in metres, with the base station at the origin",
    )
    access_points: tuple[tuple[float, float], ...] = parameter(
        default=ORIGIN,
        key="access_points",
        description="[[x, y], ...] of the access points in metres, over which antennas.count is divided evenly; "
        "default one at the origin, the base station",
    )
    neighbours: tuple[tuple[float, float], ...] = parameter(
        default=(),
        key="neighbours",
        description="[[x, y], ...] in metres of the base stations of neighbouring cells, each with run.devices devices "
        "of its own, which aggregate on the same resource elements at the same time; default none",
    )
    path_loss: str = parameter(
        default="umi",
        description="path loss model, see `PATH_LOSS`",
    )
    carrier_hz: float = parameter(
        default=3.5e9,
        description="carrier frequency",
    )
    exponent: float = parameter(
        default=3.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="exponent",
        description="path loss exponent of log-distance",
    )
    reference_loss_db: float | None = parameter(
        default=None,
        ge=-200,
        le=200,
        key="reference_loss_db",
        description="loss of log-distance at 1 m; default free space",
    )
    los: Literal["probability", "los", "nlos"] = parameter(
        default="probability",
        key="los",
        description="line of sight: drawn for each device by the path loss model, or the same for all",
    )
    shadowing_std_db: float | None = parameter(
        default=None,
        ge=0,
        le=200,
        key="shadowing_std_db",
        description="standard deviation of log-normal shadowing; default that of the path loss model",
    )
    shadowing_correlation_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="shadowing_correlation_m",
        description="distance between devices at which the correlation of shadowing falls to 1/e; 0 = independent; "
        "default that of the path loss model",
    )
    base_height_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="base_height_m",
        description="height of the base station's antenna; default that of the path loss model",
    )
    device_height_m: float = parameter(
        default=1.5,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="device_height_m",
        description="height of all devices' antennas",
    )
    clutter_density: float | None = parameter(
        default=None,
        ge=0,
        lt=1,
        key="clutter_density",
        description="share of the floor that clutter covers, for path_loss = inf-sl, inf-dl, inf-sh and inf-dh; "
        "default 0.2 if sparse (s), 0.6 if dense (d)",
    )
    clutter_size_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="clutter_size_m",
        description="typical size of a piece of clutter, for the same; default 10 m if sparse, 2 m if dense",
    )
    clutter_height_m: float | None = parameter(
        default=None,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="clutter_height_m",
        description="effective height of the clutter, for the same; default 2 m if sparse, 6 m if dense",
    )
    hall_m: tuple[float, float, float] | None = parameter(
        default=None,
        key="hall_m",
        description="[length, width, height] of the hall in metres, on which the delay spread of channel.fading = "
        "inf-sl, inf-dl, inf-sh, inf-dh and inf-hh depends; default [120, 60, 10] for inf-sl and inf-dh, else "
        "[300, 150, 10]",
    )

    @property
    def correlations_m(self) -> tuple[float, float]:
        """Distance in m at which the correlation of shadowing falls to 1/e, with and without line of sight; 0:
        independent."""
        set_m = self.shadowing_correlation_m
        return PATH_LOSS[self.path_loss].correlation_m if set_m is None else (set_m, set_m)

    @property
    def clutter(self) -> Clutter | None:
        """The clutter of an indoor factory, None for other models."""
        factory = PATH_LOSS[self.path_loss].factory if self.path_loss in PATH_LOSS else None
        if factory is None or factory.clutter is None:
            return None
        given, default = (self.clutter_density, self.clutter_size_m, self.clutter_height_m), astuple(factory.clutter)
        return Clutter(*(own if own is not None else usual for own, usual in zip(given, default, strict=True)))


def neighbouring(parameters: Topology, position: tuple[float, float]) -> Topology:
    """Return a neighbouring cell in coordinates of its own, with its access points and then those of this cell. `drops`
    gives its devices as all of these see them.

    position: x and y of the neighbour's origin in m, as in `Topology.neighbours`.
    """
    x, y = position
    own = parameters.access_points
    return replace(parameters, neighbours=(), access_points=(*own, *((to_x - x, to_y - y) for to_x, to_y in own)))


def check_topology(parameters: Topology, devices: int) -> None:
    """Raise ValueError if the parameters are inconsistent or can leave the range of the path loss model."""
    if parameters.kind not in PLACEMENTS:
        raise ValueError(f'placement must be one of {", ".join(PLACEMENTS)}, got "{parameters.kind}"')
    if devices < 1:
        raise ValueError(f"the number of devices in a cell must be at least 1, got {devices}")
    if parameters.hall_m is not None and not all(0 < side < math.inf for side in parameters.hall_m):
        raise ValueError(
            f"hall_m must be three positive numbers, length, width and height in m, got {list(parameters.hall_m)}"
        )
    # The model is checked before the area, which takes a default from it; the distances come last, when the area is
    # known to be valid.
    check_paths(parameters.path_loss, paths_of(parameters, np.array([])), parameters.los)
    placement, area = PLACEMENTS[parameters.kind], area_of(parameters)
    if parameters.motion != "none":
        _check_motion(parameters)
    if parameters.motion == "file":  # its places are known when it is read, see `check_places`
        return
    placement.check(area, devices)
    _check_points(parameters.access_points)
    distances_m = np.array(placement.distances_m(area, parameters.access_points))
    check_paths(parameters.path_loss, paths_of(parameters, distances_m), parameters.los)
    _check_neighbours(parameters.neighbours)
    for position in parameters.neighbours:
        points = neighbouring(parameters, position).access_points
        if len(set(points)) < len(points):
            raise ValueError(
                f"neighbours: the cell at {list(position)} would have an access point where this cell has one; move it"
            )
        distances_m = np.array(placement.distances_m(area, points))
        check_paths(parameters.path_loss, paths_of(parameters, distances_m), parameters.los)


def _check_motion(parameters: Topology) -> None:
    """Raise ValueError for a cell whose devices cannot move."""
    if parameters.motion == "file":
        _check_file(parameters)
    elif not PLACEMENTS[parameters.kind].drawn:
        raise ValueError(f'motion needs kind "disc" or "annulus", which have borders, got "{parameters.kind}"')
    if parameters.access_points != ORIGIN:
        raise ValueError(
            "motion is for one base station at the origin, got access_points "
            f"{[list(point) for point in parameters.access_points]}"
        )
    if parameters.neighbours:
        raise ValueError(
            "motion is for a cell without neighbours, whose devices stay at their places, got neighbours "
            f"{[list(position) for position in parameters.neighbours]}"
        )
    shadowed = PATH_LOSS[parameters.path_loss].correlation_m != (0.0, 0.0) or bool(parameters.shadowing_std_db)
    if shadowed and parameters.shadowing_std_db != 0 and not all(parameters.correlations_m):
        raise ValueError(
            "motion needs a positive shadowing_correlation_m, since independent shadowing is no function of the place; "
            "give one, or shadowing_std_db = 0"
        )


def _check_file(parameters: Topology) -> None:
    """Raise ValueError for places that are not only those of a file."""
    if parameters.motion_file is None:
        raise ValueError('motion_file is missing; motion = "file" needs it')
    if parameters.kind != "coordinates":
        raise ValueError(f'motion = "file" needs kind "coordinates", got "{parameters.kind}"')
    if parameters.coordinates is not None:
        raise ValueError('motion = "file" has the places of motion_file; leave coordinates out')


def check_places(parameters: Topology, nearest_m: float, farthest_m: float) -> None:
    """Raise ValueError if the path loss model does not hold at these horizontal distances from the origin."""
    check_paths(parameters.path_loss, paths_of(parameters, np.array([nearest_m, farthest_m])), parameters.los)


def _check_points(points: tuple[tuple[float, float], ...]) -> None:
    """Raise ValueError unless there are 1 to `MOST_POINTS` access points at different, finite positions."""
    if not 1 <= len(points) <= MOST_POINTS:
        raise ValueError(f"access_points must be 1 to {MOST_POINTS} positions [x, y], got {len(points)}")
    for point in points:
        if len(point) != 2 or not all(math.isfinite(value) for value in point):
            raise ValueError(f"access_points: {list(point)} must be two finite numbers, [x, y] in m")
    if len(set(points)) < len(points):
        twice = next(point for point in points if points.count(point) > 1)
        raise ValueError(
            f"access_points: {list(twice)} is given twice; for more antennas at one point raise antennas.count"
        )


def _check_neighbours(positions: tuple[tuple[float, float], ...]) -> None:
    """Raise ValueError unless there are at most `MOST_NEIGHBOURS` at different, finite positions off the origin."""
    if len(positions) > MOST_NEIGHBOURS:
        raise ValueError(f"neighbours must be at most {MOST_NEIGHBOURS} positions [x, y], got {len(positions)}")
    for position in positions:
        if len(position) != 2 or not all(math.isfinite(value) for value in position):
            raise ValueError(f"neighbours: {list(position)} must be two finite numbers, [x, y] in m")
        if not any(position):
            raise ValueError("neighbours: [0, 0] is the cell's own base station; give the positions of others")
    if len(set(positions)) < len(positions):
        twice = next(position for position in positions if positions.count(position) > 1)
        raise ValueError(f"neighbours: {list(twice)} is given twice; give each base station once")


def area_of(parameters: Topology) -> Area:
    """Return the area in which devices are placed."""
    least = parameters.min_distance_m
    if least is None:
        least = PATH_LOSS[parameters.path_loss].distances_m[0]
    return Area(parameters.radius_m, least, parameters.coordinates or ())


def paths_of(parameters: Topology, distance_2d_m: Array) -> Paths:
    """Return what the path loss model of a cell is told of devices at these horizontal distances in m."""
    model, base_height_m = PATH_LOSS.get(parameters.path_loss), parameters.base_height_m
    if base_height_m is None and model is not None:
        base_height_m = model.base_height_m
    return Paths(
        distance_2d_m=distance_2d_m,
        base_height_m=parameters.device_height_m if base_height_m is None else base_height_m,
        device_height_m=parameters.device_height_m,
        carrier_hz=parameters.carrier_hz,
        exponent=parameters.exponent,
        reference_loss_db=parameters.reference_loss_db,
        clutter=parameters.clutter,
    )
