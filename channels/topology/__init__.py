"""Devices in a cell: positions, path loss and shadowing. Models are entries in the tables of this package."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from channels.draws import Draw
from channels.part import LEAST_SCALE, MOST_SCALE, Part, parameter
from channels.topology.field import COLUMNS, WAVES, field
from channels.topology.motion import Motion, Straight, Waypoints
from channels.topology.path_loss import PATH_LOSS, Clutter, PathLoss, Paths, check_paths, path_losses
from channels.topology.placement import PLACEMENTS, Area, Placement, placed_again
from channels.topology.shadowing import correlated, normal_scores
from channels.units import db_to_linear

__all__ = [
    "FIELDS",
    "PATH_LOSS",
    "PLACEMENTS",
    "Drop",
    "Moving",
    "PathLoss",
    "Placement",
    "Topology",
    "check_topology",
    "drop",
    "drops",
    "moving",
    "nearest_by_loss",
    "neighbouring",
]

Array = NDArray[np.float64]

MAX_LOSS_DB = 400.0
"""Largest magnitude of a path loss: an amplitude gain of 1e-20, or 1e20 for a negative loss."""
ORIGIN = ((0.0, 0.0),)
"""The access points of a cell with one base station."""
MOST_POINTS = 256
"""Largest number of access points."""
FIELDS = (4, WAVES, COLUMNS)
"""Shape of the uniform numbers of the fields of a cell with motion: line of sight, shadowing with and without it, K."""
MOST_NEIGHBOURS = 36
"""Largest number of neighbouring cells: three rings of a hexagonal network."""
# Columns of a device's uniform numbers. They are fixed, so that a new column does not shift existing draws. Those of
# the place come first; the rest are drawn again for every further access point.
_PLACE, _UNIFORMS = 2, 6
_PATH, _SHADOW, _K_FACTOR, _OF_A_POINT = slice(0, 2), 2, 3, 4


class Topology(Part):
    """A cell: placement of devices, path loss and shadowing."""

    motion: Literal["none", "straight", "waypoint"] = parameter(
        default="none",
        key="motion",
        description="motion of the devices at channel.speed_m_s, by which path loss, line of sight, shadowing and K "
        "factor change: none, straight on with reflection at the borders of a disc or an annulus, or from one random "
        "waypoint to the next",
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


@dataclass(frozen=True)
class Drop:
    """The placed devices, as seen from the base station or from one access point.

    Attributes:
        positions_m: x, y and z in m, with the base station or the access point above the origin, [devices, 3].
        distance_m: Distance between the antennas (3D) in m, [devices].
        path_loss_db: Path loss with shadowing in dB, [devices].
        line_of_sight: Whether a device has a line of sight to the base station, [devices].
        base_height_m: Height of the base station's antenna in m.
        k_factor: K factor drawn by table 7.5-6 of TR 38.901, linear, 0 without line of sight, [devices]; None if the
            path loss model does not define it.
        scores: Independent N(0, 1) numbers from which shadowing and the K factor are computed: the first is the power
            that shadowing leaves, in its standard deviation, the second the part of K that does not depend on it,
            [devices, 2].
    """

    positions_m: Array
    distance_m: Array
    path_loss_db: Array
    line_of_sight: NDArray[np.bool_]
    base_height_m: float
    k_factor: Array | None = None
    scores: Array | None = None

    @property
    def azimuth_rad(self) -> Array:
        """Azimuth of each device at the base station, from the x axis towards the y axis, [devices]."""
        return np.arctan2(self.positions_m[:, 1], self.positions_m[:, 0])

    @property
    def elevation_rad(self) -> Array:
        """Elevation of each device at the base station, negative below the horizon, [devices]."""
        distance_2d_m = np.hypot(self.positions_m[:, 0], self.positions_m[:, 1])
        return np.arctan2(self.positions_m[:, 2] - self.base_height_m, distance_2d_m)

    @property
    def amplitude(self) -> Array:
        """Amplitude gain of the path, [devices]; multiplied by fading of unit power."""
        return np.asarray(10.0 ** (-self.path_loss_db / 20))


def drop(parameters: Topology, draw: Draw) -> Drop:
    """Place devices and compute their path losses to one base station, from six uniform numbers each.

    Raises ValueError as `check_topology` does, for access points other than one at the origin, and for a path loss
    beyond `MAX_LOSS_DB`.
    """
    if parameters.access_points != ORIGIN:
        raise ValueError(
            f"access_points: drop() has one at the origin, got {list(parameters.access_points)}; use drops()"
        )
    return drops(parameters, draw)[0]


def drops(parameters: Topology, draw: Draw, further: Draw | None = None, again: Draw | None = None) -> tuple[Drop, ...]:
    """Place devices and compute their path losses to every access point.

    The lines of sight, the shadowing and the K factors of a device to different access points are independent.

    Args:
        parameters: The cell.
        draw: Uniform numbers for the places and the first access point, six for each device.
        further: Uniform numbers for the other access points, four for each device and point.
        again: Uniform numbers for further places of devices that would be too near to an access point, two for each
            device and place; needed only if an access point is not at the origin.

    Raises ValueError as `check_topology` does, for a path loss beyond `MAX_LOSS_DB`, and if there is no place for a
    device.
    """
    uniforms, points = draw(_UNIFORMS), parameters.access_points
    check_topology(parameters, len(uniforms))
    placement, area = PLACEMENTS[parameters.kind], _area(parameters)
    plane = placement.place(uniforms[:, :_PLACE], area)
    if points != ORIGIN and placement.drawn:
        assert again is not None
        plane = placed_again(placement, plane, area, points, again)
    own = uniforms[:, _PLACE:]
    if len(points) > 1:
        assert further is not None
        own = np.concatenate([own, further(_OF_A_POINT * (len(points) - 1))], axis=1)
    of_points = zip(points, np.split(own, len(points), axis=1), strict=True)
    return tuple(_seen_from(parameters, plane - np.array(point), numbers) for point, numbers in of_points)


@dataclass(frozen=True)
class Moving:
    """The devices of a cell with motion, as seen from the base station at any time.

    Line of sight, shadowing and K factor are fields over the plane (TR 38.901, clauses 7.4.4 and 7.6.3): devices that
    are, or come, near to each other share them.

    Attributes:
        parameters: The cell.
        motion: The places of the devices over time.
        environment: Uniform numbers for the environment height of UMa, [devices].
        fields: Uniform numbers of the fields, `FIELDS`.
    """

    parameters: Topology
    motion: Motion
    environment: Array
    fields: Array

    def at(self, time_s: float) -> Drop:
        """Return the drop at a time in s since the start. Raises ValueError for a path loss beyond `MAX_LOSS_DB`."""
        parameters, plane = self.parameters, self.motion.at(time_s)[0]
        model = PATH_LOSS[parameters.path_loss]
        state_m = model.state_correlation_m
        if state_m is None:
            state_m = parameters.clutter.size_m / 2 if parameters.clutter else 1.0
        chance = ndtr(field(self.fields[0], state_m, plane))
        paths = _paths(parameters, np.hypot(plane[:, 0], plane[:, 1]))
        uniforms = np.stack([chance, self.environment], axis=1)
        loss_db, line_of_sight = path_losses(parameters.path_loss, paths, parameters.los, uniforms)
        shadowing = np.zeros(len(plane))
        for state, numbers, correlation_m in zip(
            (line_of_sight, ~line_of_sight), self.fields[1:3], parameters.correlations_m, strict=True
        ):
            if correlation_m and state.any():
                shadowing[state] = field(numbers, correlation_m, plane[state])
        k_scores = field(self.fields[3], model.k_correlation_m, plane)
        return _drop(parameters, plane, paths, loss_db, line_of_sight, shadowing, k_scores)


def moving(parameters: Topology, draw: Draw, ways: Draw, fields: Array, speed_m_s: float) -> Moving:
    """Return the devices of a cell with motion. They start at the places that they have without it.

    Args:
        parameters: The cell, with a base station at the origin.
        draw: Uniform numbers for the places, as of `drops`.
        ways: Uniform numbers of the ways: one for each device, its heading, or two for each waypoint.
        fields: Uniform numbers of the fields, `FIELDS`.
        speed_m_s: Speed of the devices in m/s.

    Raises ValueError as `check_topology` does.
    """
    uniforms = draw(_UNIFORMS)
    check_topology(parameters, len(uniforms))
    area, place = _area(parameters), PLACEMENTS[parameters.kind].place
    start = place(uniforms[:, :_PLACE], area)

    def waypoints(legs: int) -> Array:
        numbers = ways(_PLACE * legs).reshape(-1, _PLACE)
        return place(numbers, area).reshape(len(start), legs, 2)

    motion: Motion = Waypoints(start, waypoints, speed_m_s, area.min_distance_m)
    if parameters.motion == "straight":
        motion = Straight(start, 2 * np.pi * ways(1)[:, 0], speed_m_s, area.min_distance_m, area.radius_m)
    return Moving(parameters, motion, uniforms[:, _PLACE + 1], fields)


def _check_motion(parameters: Topology) -> None:
    """Raise ValueError for a cell whose devices cannot move."""
    if not PLACEMENTS[parameters.kind].drawn:
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


def neighbouring(parameters: Topology, position: tuple[float, float]) -> Topology:
    """Return a neighbouring cell in coordinates whose origin is its own base station, with the base station of this
    cell as its second access point. `drops` then gives its devices as both base stations see them.

    position: x and y of the neighbour's base station in m, as in `Topology.neighbours`.
    """
    x, y = position
    return replace(parameters, neighbours=(), access_points=(*ORIGIN, (-x, -y)))


def _seen_from(parameters: Topology, plane: Array, uniforms: Array) -> Drop:
    """Return the devices as seen from an access point, from x and y relative to it and four uniform numbers each."""
    paths = _paths(parameters, np.hypot(plane[:, 0], plane[:, 1]))
    loss_db, line_of_sight = path_losses(parameters.path_loss, paths, parameters.los, uniforms[:, _PATH])
    shadowing = _shadowing_scores(parameters, uniforms[:, _SHADOW], plane, line_of_sight)
    k_scores = normal_scores(uniforms[:, _K_FACTOR])
    return _drop(parameters, plane, paths, loss_db, line_of_sight, shadowing, k_scores)


def _drop(
    parameters: Topology,
    plane: Array,
    paths: Paths,
    loss_db: Array,
    line_of_sight: NDArray[np.bool_],
    shadowing: Array,
    k_scores: Array,
) -> Drop:
    """Return the drop with these losses before shadowing, and N(0, 1) numbers of shadowing losses and K factors."""
    loss_db = loss_db + _shadowing_std_db(parameters, paths, line_of_sight) * shadowing
    _check_losses(loss_db, paths.distance_3d_m)
    height = np.full((len(plane), 1), parameters.device_height_m)
    return Drop(
        positions_m=np.concatenate([plane, height], axis=1),
        distance_m=paths.distance_3d_m,
        path_loss_db=loss_db,
        line_of_sight=line_of_sight,
        k_factor=_k_factor(parameters, k_scores, shadowing, line_of_sight),
        scores=np.stack([-shadowing, k_scores], axis=1),
        base_height_m=paths.base_height_m,
    )


def nearest_by_loss(placed: tuple[Drop, ...]) -> tuple[Array, Array]:
    """Return the distance in m and the path loss in dB of every device to the access point of the least path loss,
    [devices] each."""
    losses_db = np.stack([one.path_loss_db for one in placed])
    least = losses_db.argmin(axis=0)[None]
    distances_m = np.stack([one.distance_m for one in placed])
    return np.take_along_axis(distances_m, least, axis=0)[0], np.take_along_axis(losses_db, least, axis=0)[0]


def _check_losses(loss_db: Array, distance_m: Array) -> None:
    """Raise ValueError for a path whose gain exceeds the range of single precision."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(loss_db) <= MAX_LOSS_DB)
    if wrong.any():
        one = int(np.argmax(wrong))
        raise ValueError(
            f"the path loss of device {one}, at {distance_m[one]:.4g} m, is {loss_db[one]:.4g} dB; its magnitude must "
            f"be at most {MAX_LOSS_DB:g} dB; reduce the cell, the exponent, the loss at 1 m or the shadowing "
            f"({np.count_nonzero(wrong):,} such devices)"
        )


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
    check_paths(parameters.path_loss, _paths(parameters, np.array([])), parameters.los)
    placement, area = PLACEMENTS[parameters.kind], _area(parameters)
    placement.check(area, devices)
    if parameters.motion != "none":
        _check_motion(parameters)
    _check_points(parameters.access_points)
    distances_m = np.array(placement.distances_m(area, parameters.access_points))
    check_paths(parameters.path_loss, _paths(parameters, distances_m), parameters.los)
    _check_neighbours(parameters.neighbours)
    for position in parameters.neighbours:
        distances_m = np.array(placement.distances_m(area, neighbouring(parameters, position).access_points))
        check_paths(parameters.path_loss, _paths(parameters, distances_m), parameters.los)


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


def _area(parameters: Topology) -> Area:
    least = parameters.min_distance_m
    if least is None:
        least = PATH_LOSS[parameters.path_loss].distances_m[0]
    return Area(parameters.radius_m, least, parameters.coordinates or ())


def _paths(parameters: Topology, distance_2d_m: Array) -> Paths:
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


def _shadowing_std_db(parameters: Topology, paths: Paths, line_of_sight: NDArray[np.bool_]) -> Array:
    if parameters.shadowing_std_db is not None:
        return np.full(len(line_of_sight), parameters.shadowing_std_db)
    return PATH_LOSS[parameters.path_loss].shadowing_std_db(paths, line_of_sight)


def _shadowing_scores(parameters: Topology, uniforms: Array, plane: Array, line_of_sight: NDArray[np.bool_]) -> Array:
    """Shadowing losses divided by their standard deviation, N(0, 1), [devices]. Devices with and without a line of
    sight are independent of each other."""
    scores = normal_scores(uniforms)
    for state, correlation_m in zip((line_of_sight, ~line_of_sight), parameters.correlations_m, strict=True):
        scores[state] = correlated(scores[state], plane[state], correlation_m)
    return scores


def _k_factor(
    parameters: Topology, k_scores: Array, shadowing: Array, line_of_sight: NDArray[np.bool_]
) -> Array | None:
    """Log-normal K factors in line of sight, correlated with the power after shadowing, [devices]."""
    model = PATH_LOSS[parameters.path_loss]
    if model.k_factor_db is None:
        return None
    mean_db, std_db = model.k_factor_db
    correlation = model.k_factor_shadowing
    scores = math.sqrt(1 - correlation**2) * k_scores - correlation * shadowing
    return np.where(line_of_sight, db_to_linear(mean_db + std_db * scores), 0.0)
