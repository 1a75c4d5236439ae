"""Devices that move in a ring at a constant speed: straight on, or from one random waypoint to the next.

No position needs those before it. Straight on, it follows from the start in closed form: between reflections a device
keeps its distance b to the line through the centre that is parallel to its path, and so does its reflected path. With
s = sqrt(r^2 - b^2), the way along the path from the point nearest to the centre, s rises and falls evenly between its
values at the two borders, and the angle about the centre always turns the same way. Waypoints are drawn by their
numbers, and a position needs the lengths of the legs up to its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ids = NDArray[np.int64]

MOST_LEGS = 1 << 16
"""Largest number of legs of a device's way."""
MOST_AT_ONCE = 1 << 18
"""Waypoints that are in memory at a time, some 50 MB with all that is computed from them."""


class Motion(Protocol):
    """The places of devices over time."""

    def take(self, devices: NDArray[np.int64]) -> Motion:
        """Return the motion of some of the devices."""

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Return x and y in m, and the velocity in m/s, at a time in s since the start, [devices, 2] each."""

    def ways(self, times_s: Array) -> Array | None:
        """Return the length of the way since the start in m, [devices, times]; None if all devices have one constant
        speed, which is that of the channel."""


@dataclass(frozen=True)
class Straight:
    """Devices that begin at given places with given headings, and are reflected at the borders.

    Attributes:
        start_m: x and y at time 0 in m, [devices, 2].
        heading_rad: Direction of motion at time 0 from the x axis, [devices].
        speed_m_s: Speed of all devices in m/s.
        inner_m: Radius of the inner border in m; 0 for none.
        outer_m: Radius of the outer border in m.
    """

    start_m: Array
    heading_rad: Array
    speed_m_s: float
    inner_m: float
    outer_m: float

    def take(self, devices: NDArray[np.int64]) -> Straight:
        """Return the motion of some of the devices."""
        return Straight(self.start_m[devices], self.heading_rad[devices], self.speed_m_s, self.inner_m, self.outer_m)

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Return x and y in m, and the velocity in m/s, at a time in s, [devices, 2] each."""
        heading = np.stack([np.cos(self.heading_rad), np.sin(self.heading_rad)], axis=1)
        along = (self.start_m * heading).sum(axis=1)  # s at the start, with the sign of moving outwards
        across = self.start_m[:, 0] * heading[:, 1] - self.start_m[:, 1] * heading[:, 0]
        turning, offset = np.where(across < 0, -1.0, 1.0), np.abs(across)
        last = np.sqrt(np.maximum(self.outer_m**2 - offset**2, 0))
        first = np.sqrt(np.maximum(self.inner_m**2 - offset**2, 0))
        # The way since a point nearest to the centre, of which each half period of the motion has `length`.
        length = np.maximum(last - first, np.finfo(float).tiny)
        begun = np.where(along >= 0, along - first, 2 * length + along + first)
        travelled = begun + self.speed_m_s * time_s
        halves = np.floor(travelled / length)
        within = travelled - halves * length
        outwards = halves % 2 == 0
        way = first + np.where(outwards, within, length - within)
        each = np.arctan2(last, offset) - np.arctan2(first, offset)

        def turned(halves: Array, outwards: NDArray[np.bool_], way: Array) -> Array:
            beyond = np.arctan2(way, offset) - np.arctan2(first, offset)
            return np.asarray(halves * each + np.where(outwards, beyond, each - beyond))

        first_halves = np.where(along >= 0, 0.0, 1.0)
        before = turned(first_halves, along >= 0, np.abs(along))
        angle = np.arctan2(self.start_m[:, 1], self.start_m[:, 0])
        angle = angle + turning * (turned(halves, outwards, way) - before)
        distance = np.hypot(way, offset)
        radial = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        tangent = turning[:, None] * np.stack([-radial[:, 1], radial[:, 0]], axis=1)
        outward = np.where(outwards, way, -way) / distance
        velocity = outward[:, None] * radial + (offset / distance)[:, None] * tangent
        return distance[:, None] * radial, self.speed_m_s * velocity

    def ways(self, times_s: Array) -> None:
        """Return None: all devices have one constant speed."""


@dataclass(frozen=True)
class Waypoints:
    """Devices that go from waypoint to waypoint without a pause, and around the inner border where it is in their way.

    Attributes:
        start_m: x and y at time 0 in m, [devices, 2].
        waypoints: (ids of devices, number of legs) -> x and y of the first so many waypoints of each of these devices
            in m, [devices, legs, 2].
        speed_m_s: Speed of all devices in m/s.
        inner_m: Radius of the inner border in m; 0 for none.
        devices: Ids of the devices, [devices]; None for 0, 1, 2, ...
    """

    start_m: Array
    waypoints: Callable[[Ids, int], Array]
    speed_m_s: float
    inner_m: float
    devices: Ids | None = None
    _drawn: dict[int, Array] = field(default_factory=dict, compare=False, repr=False)

    def take(self, devices: NDArray[np.int64]) -> Waypoints:
        """Return the motion of some of the devices. Their waypoints are drawn once for all times, if they are few."""
        return replace(self, start_m=self.start_m[devices], devices=self._ids[devices], _drawn={})

    @property
    def _ids(self) -> Ids:
        return np.arange(len(self.start_m)) if self.devices is None else self.devices

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Return x and y in m, and the velocity in m/s, at a time in s since the start, [devices, 2] each.

        No more than about `MOST_AT_ONCE` waypoints are in memory at a time.

        Raises ValueError if a device has more than `MOST_LEGS` legs behind it.
        """
        place, heading = np.empty_like(self.start_m), np.empty_like(self.start_m)
        on_the_way, legs = np.arange(len(place)), 2
        while len(on_the_way):
            if legs > MOST_LEGS:
                raise ValueError(
                    f"motion: devices go more than {MOST_LEGS:,} legs in {time_s:g} s at {self.speed_m_s:g} m/s; use a "
                    "lower speed_m_s, shorter rounds or a larger radius_m"
                )
            size = max(MOST_AT_ONCE // legs, 1)
            groups = [on_the_way[first : first + size] for first in range(0, len(on_the_way), size)]
            arrived = []
            for rows in groups:
                there, where, heads = self._within(rows, legs, self.speed_m_s * time_s)
                place[rows[there]], heading[rows[there]] = where, heads
                arrived.append(there)
            on_the_way, legs = on_the_way[~np.concatenate(arrived)], 2 * legs
        return place, self.speed_m_s * heading

    def _within(self, rows: Ids, legs: int, way_m: float) -> tuple[NDArray[np.bool_], Array, Array]:
        """Return which of these devices are within their first so many legs after this way, [rows], and the places and
        directions of those."""
        points = np.concatenate([self.start_m[rows, None], self._points(rows, legs)], axis=1)
        ends = np.cumsum(_lengths(points[:, :-1], points[:, 1:], self.inner_m), axis=1)
        there = ends[:, -1] > way_m
        points, ends, each = points[there], ends[there], np.arange(np.count_nonzero(there))
        leg = (ends <= way_m).sum(axis=1)
        begun = np.where(leg > 0, ends[each, np.maximum(leg - 1, 0)], 0.0)
        return there, *_along(points[each, leg], points[each, leg + 1], self.inner_m, way_m - begun)

    def _points(self, rows: Ids, legs: int) -> Array:
        """Return the first so many waypoints of the devices of these rows, [rows, legs, 2]."""
        if len(self.start_m) * legs > MOST_AT_ONCE:
            return self.waypoints(self._ids[rows], legs)
        if legs not in self._drawn:
            self._drawn[legs] = self.waypoints(self._ids, legs)
        return self._drawn[legs][rows]

    def ways(self, times_s: Array) -> None:
        """Return None: all devices have one constant speed."""


def _around(begin: Array, end: Array, inner_m: float) -> tuple[NDArray[np.bool_], Array, Array, Array, Array]:
    """Return for each leg whether the inner disc is in its way, the tangents to it from both ends, the angle of the arc
    between them, and the side on which it is passed: 1 if counter-clockwise; [...] each."""
    far, near = np.linalg.norm(begin, axis=-1), np.linalg.norm(end, axis=-1)
    cross = begin[..., 0] * end[..., 1] - begin[..., 1] * end[..., 0]
    side = np.where(cross < 0, -1.0, 1.0)
    between = np.arctan2(np.abs(cross), (begin * end).sum(axis=-1))
    to_tangents = [np.arccos(np.minimum(inner_m / np.maximum(one, inner_m), 1)) for one in (far, near)]
    arc = between - to_tangents[0] - to_tangents[1]
    tangents = [np.sqrt(np.maximum(one**2 - inner_m**2, 0)) for one in (far, near)]
    return (arc > 0) & (inner_m > 0), tangents[0], tangents[1], arc, side


def _lengths(begin: Array, end: Array, inner_m: float) -> Array:
    """Lengths of legs in m."""
    blocked, first, last, arc, _ = _around(begin, end, inner_m)
    return np.asarray(np.where(blocked, first + last + inner_m * arc, np.linalg.norm(end - begin, axis=-1)))


def _along(begin: Array, end: Array, inner_m: float, way_m: Array) -> tuple[Array, Array]:
    """Return the place at this way along a leg, and the direction there as a unit vector, [devices, 2] each."""
    blocked, first, _, arc, side = _around(begin, end, inner_m)
    straight = end - begin
    heading = straight / np.maximum(np.linalg.norm(straight, axis=-1), np.finfo(float).tiny)[:, None]
    place = begin + way_m[:, None] * heading
    if not blocked.any():
        return place, heading

    def polar(angle: Array, radius: Array | float) -> Array:
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)

    def at_tangent(point: Array, side: Array) -> Array:
        far = np.maximum(np.linalg.norm(point, axis=-1), inner_m)
        return np.asarray(np.arctan2(point[:, 1], point[:, 0]) + side * np.arccos(inner_m / far))

    touch, leave = at_tangent(begin, side), at_tangent(end, -side)
    on_arc = touch + side * (way_m - first) / max(inner_m, np.finfo(float).tiny)
    for there, angle, where in (
        (way_m < first, touch, polar(touch, inner_m) - (first - way_m)[:, None] * _turning(touch, side)),
        ((way_m >= first) & (way_m < first + inner_m * arc), on_arc, polar(on_arc, inner_m)),
        (way_m >= first + inner_m * arc, leave, polar(leave, inner_m)
         + (way_m - first - inner_m * arc)[:, None] * _turning(leave, side)),
    ):  # fmt: skip
        some = blocked & there
        place[some], heading[some] = where[some], _turning(angle, side)[some]
    return place, heading


def _turning(angle: Array, side: Array) -> Array:
    """Direction of the tangent of a circle at an angle, counter-clockwise if side is 1."""
    return np.asarray(side[:, None] * np.stack([-np.sin(angle), np.cos(angle)], axis=-1))
