"""The devices of a cell: where they are or move, and what a base station sees of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from channels.draws import Draw
from channels.topology.cell import ORIGIN, Topology, area_of, check_topology, paths_of
from channels.topology.field import COLUMNS, WAVES, field
from channels.topology.motion import Motion, Straight, Waypoints
from channels.topology.path_loss import PATH_LOSS, Paths, path_losses
from channels.topology.placement import PLACEMENTS, placed_again
from channels.topology.shadowing import correlated, normal_scores
from channels.units import db_to_linear

Array = NDArray[np.float64]
Ids = NDArray[np.int64]

MAX_LOSS_DB = 400.0
"""Largest magnitude of a path loss: an amplitude gain of 1e-20, or 1e20 for a negative loss."""
FIELDS = (4, WAVES, COLUMNS)
"""Shape of the uniform numbers of the fields of a cell with motion: line of sight, shadowing with and without it, K."""
WITH_SPREADS = (14, WAVES, COLUMNS)
"""The same where delay and angle spreads are fields, too: five with a line of sight, then five without it."""
# Columns of a device's uniform numbers. They are fixed, so that a new column does not shift existing draws. Those of
# the place come first; the rest are drawn again for every further access point.
_PLACE, _UNIFORMS = 2, 6
_PATH, _SHADOW, _K_FACTOR, _OF_A_POINT = slice(0, 2), 2, 3, 4


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
            shadowing leaves, in its standard deviation, the second the part of K that does not depend on it,
            [devices, 2]. If spreads are fields of the place, five more are the parts of delay spread, azimuth spreads
            of departure and arrival, and zenith spreads of arrival and departure that do not depend on those before
            them, [devices, 7].
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
    placement, area = PLACEMENTS[parameters.kind], area_of(parameters)
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
        fields: Uniform numbers of the fields, `FIELDS` or `WITH_SPREADS`.
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
        paths = paths_of(parameters, np.hypot(plane[:, 0], plane[:, 1]))
        uniforms = np.stack([chance, self.environment], axis=1)
        loss_db, line_of_sight = path_losses(parameters.path_loss, paths, parameters.los, uniforms)
        shadowing = np.zeros(len(plane))
        for state, numbers, correlation_m in zip(
            (line_of_sight, ~line_of_sight), self.fields[1:3], parameters.correlations_m, strict=True
        ):
            if correlation_m and state.any():
                shadowing[state] = field(numbers, correlation_m, plane[state])
        k_scores = field(self.fields[3], model.k_correlation_m, plane)
        found = _drop(parameters, plane, paths, loss_db, line_of_sight, shadowing, k_scores)
        if len(self.fields) == FIELDS[0]:
            return found
        assert found.scores is not None
        return replace(found, scores=np.concatenate([found.scores, self._spreads(plane, line_of_sight)], axis=1))

    def _spreads(self, plane: Array, line_of_sight: NDArray[np.bool_]) -> Array:
        """N(0, 1) numbers of delay and angle spreads, [devices, 5]."""
        spreads = np.empty((len(plane), 5))
        distances_m = PATH_LOSS[self.parameters.path_loss].spread_correlations_m
        for state, numbers, of_state_m in zip(
            (line_of_sight, ~line_of_sight), np.split(self.fields[FIELDS[0] :], 2), distances_m, strict=True
        ):
            if state.any():
                values = [field(one, far_m, plane[state]) for one, far_m in zip(numbers, of_state_m, strict=True)]
                spreads[state] = np.stack(values, axis=1)
        return spreads


def moving(
    parameters: Topology,
    draw: Draw,
    ways: Callable[[Ids, int], Array],
    fields: Array,
    speed_m_s: float,
    tracks: Motion | None = None,
) -> Moving:
    """Return the devices of a cell with motion. They start at the places that they have without it, but for those of a
    file.

    Args:
        parameters: The cell, with a base station at the origin.
        draw: Uniform numbers for the places, as of `drops`.
        ways: (ids of devices, count) -> uniform numbers of their ways, [devices, count]: one for each device, its
            heading, or two for each waypoint.
        fields: Uniform numbers of the fields, `FIELDS` or `WITH_SPREADS`.
        speed_m_s: Speed of the devices in m/s.
        tracks: The motion that was read from a file, for motion "file"; speed_m_s and ways then have no effect.

    Raises ValueError as `check_topology` does.
    """
    uniforms = draw(_UNIFORMS)
    check_topology(parameters, len(uniforms))
    if tracks is not None:
        return Moving(parameters, tracks, uniforms[:, _PLACE + 1], fields)
    area, place = area_of(parameters), PLACEMENTS[parameters.kind].place
    start = place(uniforms[:, :_PLACE], area)

    def waypoints(devices: Ids, legs: int) -> Array:
        numbers = ways(devices, _PLACE * legs).reshape(-1, _PLACE)
        return place(numbers, area).reshape(len(devices), legs, 2)

    motion: Motion = Waypoints(start, waypoints, speed_m_s, area.min_distance_m)
    if parameters.motion == "straight":
        motion = Straight(
            start, 2 * np.pi * ways(np.arange(len(start)), 1)[:, 0], speed_m_s, area.min_distance_m, area.radius_m
        )
    return Moving(parameters, motion, uniforms[:, _PLACE + 1], fields)


def _seen_from(parameters: Topology, plane: Array, uniforms: Array) -> Drop:
    """Return the devices as seen from an access point, from x and y relative to it and four uniform numbers each."""
    paths = paths_of(parameters, np.hypot(plane[:, 0], plane[:, 1]))
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
