"""Devices that move as a file says: positions at time stamps, with straight ways at a constant speed between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from channels.imported.table import BLOCK_ROWS, indices, read_blocks
from channels.recorded.opening import opened, regular_file, whole
from channels.recorded.source import RecordingError, Source

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
AtEnd = Literal["once", "hold", "wrap"]

COLUMNS = ("device", "time_s", "x_m", "y_m", "z_m")
MOST_STAMPS = 20_000_000
"""Largest number of positions that are held in memory: 640 MB."""
_LEGS = 1 << 18
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Tracks:
    """The ways of devices between time stamps.

    Attributes:
        times_s: Time stamps in s, ascending for each device, [stamps].
        places_m: x and y in m at these times, [stamps, 2].
        ways_m: Length of the way of the device up to each stamp in m, [stamps].
        first: Index of the first stamp of each device, [devices].
        last: Index of its last stamp, [devices].
        start_s: Time stamp at which the run begins.
        at_end: What is before the first stamp of a device and after its last: "once" the way of the first and of the
            last leg goes on, "hold" it stands there; "wrap" as "hold", and after `span_s` all devices begin again.
        span_s: First and last time stamp of all devices.
        farthest_m: Largest horizontal distance of a device from the origin in m, at all time stamps of the file, those
            outside the run among them.
    """

    times_s: Array
    places_m: Array
    ways_m: Array
    first: Ids
    last: Ids
    start_s: float
    at_end: AtEnd
    span_s: tuple[float, float]
    farthest_m: float

    def take(self, devices: NDArray[np.int64]) -> Tracks:
        """Return the motion of some of the devices."""
        return replace(self, first=self.first[devices], last=self.last[devices])

    def at(self, time_s: float) -> tuple[Array, Array]:
        """Return x and y in m, and the velocity in m/s, at a time in s since the start, [devices, 2] each."""
        leg, share, _ = self._legs(time_s)
        begin, way = self.places_m[leg], self.places_m[self._next(leg)] - self.places_m[leg]
        lasts_s = self.times_s[self._next(leg)] - self.times_s[leg]
        place = begin + share[:, None] * way
        velocity = way / np.where(lasts_s > 0, lasts_s, 1.0)[:, None]
        if self.at_end != "once":
            velocity[self._stands(time_s)] = 0.0
        return place, velocity

    def ways(self, times_s: Array) -> Array:
        """Return the length of the way since the start in m, [devices, times]. The jump from the last places to the
        first ones, where a file begins again, counts as a way."""
        return np.stack([self._way(float(time)) - self._way(0.0) for time in times_s], axis=1)

    @property
    def distances_m(self) -> tuple[float, float]:
        """Least and largest horizontal distance of a device from the origin at a stamp and between stamps in m."""
        least, most = math.inf, 0.0
        for rows, following in _legs_of(self):
            begin_m = self.places_m[rows]
            least = min(least, float(_nearest(begin_m, self.places_m[following] - begin_m).min()))
            most = max(most, float(np.hypot(begin_m[:, 0], begin_m[:, 1]).max()))
        return least, most

    def _way(self, time_s: float) -> Array:
        """Length of the way in m since the first stamp, [devices]."""
        leg, share, passes = self._legs(time_s)
        way = self.ways_m[leg] + share * (self.ways_m[self._next(leg)] - self.ways_m[leg])
        if passes:
            jump = np.linalg.norm(self.places_m[self.last] - self.places_m[self.first], axis=1)
            way = way + passes * (self.ways_m[self.last] + jump)
        return np.asarray(way)

    def _stamp_s(self, time_s: float) -> tuple[float, int]:
        """Return the time in the file at a time since the start, and how often the file has ended before it."""
        stamp_s, passes = self.start_s + time_s, 0
        if self.at_end == "wrap":
            begin_s, end_s = self.span_s
            if stamp_s > begin_s:  # before the first stamp of the file all devices stand
                passes = math.floor((stamp_s - begin_s) / (end_s - begin_s))
                stamp_s = max(stamp_s - passes * (end_s - begin_s), begin_s)
        return stamp_s, passes

    def _stands(self, time_s: float) -> NDArray[np.bool_]:
        stamp_s, _ = self._stamp_s(time_s)
        return (stamp_s < self.times_s[self.first]) | (stamp_s >= self.times_s[self.last])

    def _next(self, leg: Ids) -> Ids:
        """The stamp at the end of a leg; that of its beginning for a device with a single stamp."""
        return np.minimum(leg + 1, self.last)

    def _legs(self, time_s: float) -> tuple[Ids, Array, int]:
        """Return the stamp at which the leg of each device begins, the share of the leg that is behind it, [devices]
        each, and how often the file has ended."""
        stamp_s, passes = self._stamp_s(time_s)
        leg, beyond = self.first.copy(), np.maximum(self.last, self.first + 1)
        while (beyond - leg > 1).any():  # the last stamp that is not later, by bisection for all devices at once
            middle = (leg + beyond) // 2
            later = self.times_s[np.minimum(middle, self.last)] > stamp_s
            leg, beyond = np.where(later, leg, middle), np.where(later, middle, beyond)
        lasts_s = self.times_s[self._next(leg)] - self.times_s[leg]
        share = np.where(lasts_s > 0, (stamp_s - self.times_s[leg]) / np.where(lasts_s > 0, lasts_s, 1.0), 0.0)
        return leg, share if self.at_end == "once" else np.clip(share, 0.0, 1.0), passes


def read_tracks(
    source: str,
    *,
    devices: int,
    start_s: float,
    rounds: int,
    round_s: float,
    at_end: AtEnd,
    fastest_m_s: float,
    least_m: float,
    height_m: float,
) -> Tracks:
    """Read the positions of the first devices of a file, as far as a run needs them.

    A CSV file (.csv, .txt) has a row for each position, with the columns `device` from 0, `time_s`, `x_m`, `y_m` and
    optionally `z_m`, and the times of each device in ascending order. Others (.npz, HDF5, .mat) have an array `time_s`
    [times] and an array `positions_m` [times, devices, 2 or 3]. Files are read in parts, and positions outside the run
    are not kept.

    Args:
        source: The file.
        devices: N, number of devices.
        start_s: Time stamp at which the run begins.
        rounds: Rounds of the run.
        round_s: Time from the beginning of a round to that of the next in s.
        at_end: What is before the first stamp of a device and after its last, see `Tracks`.
        fastest_m_s: Largest speed in m/s that is believed.
        least_m: Least distance to the origin in m.
        height_m: Height of the devices in m, which `z_m` must have.

    Raises RecordingError, in one line that does not name the file.
    """
    path = regular_file(Path(source))
    if path.suffix.lower() in (".csv", ".txt"):
        tracks = _tracks(_rows_of_table(path, height_m), devices, start_s, rounds * round_s, at_end)
    else:
        with opened(path) as file:
            tracks = _tracks(_rows_of_arrays(file, devices, height_m), devices, start_s, rounds * round_s, at_end)
    if at_end == "once":
        _check_covers(tracks, (rounds - 1) * round_s)
    if at_end == "wrap" and not tracks.span_s[1] > tracks.span_s[0]:
        raise RecordingError('has a single time stamp, which cannot be repeated; use motion_end = "hold"')
    _check_legs(tracks, fastest_m_s, least_m)
    return tracks


Rows = tuple[Ids, Array, Array]
"""Devices, times in s and x and y in m of some positions, [rows], [rows] and [rows, 2]."""


def _rows_of_table(path: Path, height_m: float) -> Iterator[Rows]:
    for block in read_blocks(path, COLUMNS):
        missing = [name for name in COLUMNS[:4] if name not in block]
        if missing:
            raise RecordingError(f"has no column {missing[0]}; it needs {', '.join(COLUMNS[:4])}")
        if "z_m" in block:
            _check_heights(block["z_m"], height_m)
        yield indices(block["device"], "device"), block["time_s"], np.stack([block["x_m"], block["y_m"]], axis=1)


def _rows_of_arrays(file: Source, devices: int, height_m: float) -> Iterator[Rows]:
    times_s, shape = whole(file, "time_s"), file.shapes.get("positions_m", ())
    if times_s.dtype.kind not in "iuf" or times_s.ndim != 1:
        raise RecordingError("time_s must be real numbers, [times]")
    if len(shape) != 3 or shape[0] != len(times_s) or shape[2] not in (2, 3):
        raise RecordingError(
            f"positions_m must be [times, devices, 2 or 3] with {len(times_s):,} times, got shape {list(shape)}"
        )
    if not len(times_s):
        raise RecordingError("has no positions")
    if shape[1] < devices:
        raise RecordingError(f"has positions of {shape[1]:,} devices, but the run has {devices:,}")
    size = min(max(BLOCK_ROWS // devices, 1), len(times_s))
    file.check_room("positions_m", (slice(0, size), slice(0, devices), slice(0, shape[2])))
    for begin in range(0, len(times_s), size):
        cut = slice(begin, min(begin + size, len(times_s)))
        found = file.read("positions_m", (cut, slice(0, devices), slice(0, shape[2])))
        if found.dtype.kind not in "iuf":
            raise RecordingError("positions_m must be real numbers")
        rows = np.asarray(found, dtype=np.float64).reshape(-1, shape[2])
        if shape[2] == 3:
            _check_heights(rows[:, 2], height_m)
        ids = np.tile(np.arange(devices), cut.stop - cut.start)
        yield ids, np.repeat(np.asarray(times_s[cut], dtype=np.float64), devices), rows[:, :2]


def _check_heights(heights_m: Array, height_m: float) -> None:
    wrong = ~(np.abs(heights_m - height_m) <= _ROUNDING * (1 + height_m))
    if wrong.any():
        raise RecordingError(
            f"has a height of {heights_m[np.argmax(wrong)]:g} m, but all devices are at device_height_m = "
            f"{height_m:g}; give that one, or leave z_m out"
        )


def _tracks(rows: Iterator[Rows], devices: int, start_s: float, length_s: float, at_end: AtEnd) -> Tracks:
    """Put the positions in order of devices, without those before and after the run."""
    latest = np.full(devices, -np.inf)
    bounds_s = (-math.inf, math.inf) if at_end == "wrap" else (start_s, start_s + length_s)
    kept: list[Rows] = []
    before: Rows = (np.empty(0, np.int64), np.empty(0), np.empty((0, 2)))
    count, span_s, farthest_m = 0, (math.inf, -math.inf), 0.0
    for ids, times_s, places_m in rows:
        own = ids < devices
        ids, times_s, places_m = ids[own], times_s[own], places_m[own]
        _check_finite(ids, times_s, places_m)
        order = np.argsort(ids, kind="stable")
        ids, times_s, places_m = ids[order], times_s[order], places_m[order]
        new = np.r_[True, ids[1:] != ids[:-1]][: len(ids)]
        previous_s = np.where(new, latest[ids], np.r_[-np.inf, times_s[:-1]][: len(ids)])
        if (times_s <= previous_s).any():
            row = int(np.argmax(times_s <= previous_s))
            raise RecordingError(
                f"time_s of device {ids[row]} must increase from row to row, got {times_s[row]:g} after "
                f"{previous_s[row]:g}"
            )
        latest[ids] = times_s  # of several rows of a device the last one remains
        if not len(ids):
            continue
        span_s = (min(span_s[0], float(times_s.min())), max(span_s[1], float(times_s.max())))
        farthest_m = max(farthest_m, float(np.hypot(places_m[:, 0], places_m[:, 1]).max()))
        # A position is needed within the run, and so is the first one after it, and the last one before it.
        needed = previous_s <= bounds_s[1]
        ids, times_s, places_m = ids[needed], times_s[needed], places_m[needed]
        early = times_s <= bounds_s[0]
        waiting = [
            np.concatenate([one, other[early]]) for one, other in zip(before, (ids, times_s, places_m), strict=True)
        ]
        before = _last_of_each(waiting[0], waiting[1], waiting[2])
        kept.append((ids[~early], times_s[~early], places_m[~early]))
        count += len(kept[-1][0])
        if count > MOST_STAMPS:
            raise RecordingError(
                f"has more than {MOST_STAMPS:,} positions within the run, which are held in memory; use fewer time "
                "stamps"
            )
    all_ids, all_times_s, all_places_m = (np.concatenate(one) for one in zip(before, *kept, strict=True))
    absent = np.flatnonzero(latest == -np.inf)
    if len(absent):
        raise RecordingError(
            f"has no position of device {absent[0]}, but the run has {devices:,} devices, 0 to {devices - 1}"
            + (f" ({len(absent):,} such)" if len(absent) > 1 else "")
        )
    order = np.argsort(all_ids, kind="stable")
    all_ids, all_times_s, all_places_m = all_ids[order], all_times_s[order], all_places_m[order]
    first = np.searchsorted(all_ids, np.arange(devices))
    last = np.r_[first[1:], len(all_ids)] - 1
    ways_m = np.zeros(len(all_ids))
    with np.errstate(over="ignore", invalid="ignore"):  # `_check_legs` refuses what is too fast
        ways_m[1:] = np.hypot(*np.diff(all_places_m, axis=0).T)
    ways_m[first] = 0.0
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        # Each device by itself: a sum over all of them would round by how many stamps the devices before it have.
        np.cumsum(ways_m[begin : end + 1], out=ways_m[begin : end + 1])
    return Tracks(all_times_s, all_places_m, ways_m, first, last, start_s, at_end, span_s, farthest_m)


def _last_of_each(ids: Ids, times_s: Array, places_m: Array) -> Rows:
    """Return the last position of each device, from positions whose times ascend for each."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    rows = order[np.r_[ordered[1:] != ordered[:-1], True][: len(ids)]]
    return ids[rows], times_s[rows], places_m[rows]


def _check_finite(ids: Ids, times_s: Array, places_m: Array) -> None:
    wrong = ~(np.isfinite(times_s) & np.isfinite(places_m).all(axis=1))
    if wrong.any():
        row = int(np.argmax(wrong))
        given = ", ".join(f"{value:g}" for value in (times_s[row], *places_m[row]))
        raise RecordingError(f"time_s, x_m and y_m of device {ids[row]} must be finite numbers, got {given}")


def _check_covers(tracks: Tracks, length_s: float) -> None:
    begin_s, end_s = tracks.times_s[tracks.first], tracks.times_s[tracks.last]
    wanted_s = (tracks.start_s, tracks.start_s + length_s)
    lacking = (begin_s > wanted_s[0]) | (end_s < wanted_s[1] - _ROUNDING * max(abs(wanted_s[1]), 1.0))
    if lacking.any():
        one = int(np.argmax(lacking))
        raise RecordingError(
            f"has positions of device {one} from {begin_s[one]:g} to {end_s[one]:g} s, but the rounds begin from "
            f'{wanted_s[0]:g} to {wanted_s[1]:g} s; set motion_start_s, or motion_end = "hold" or "wrap", or use fewer '
            f"rounds ({np.count_nonzero(lacking):,} such devices)"
        )


def _check_legs(tracks: Tracks, fastest_m_s: float, least_m: float) -> None:
    """Raise RecordingError for a device that is faster or nearer to the origin than it may be."""

    def device(row: int) -> int:
        return int(np.searchsorted(tracks.first, row, side="right")) - 1

    for rows, following in _legs_of(tracks):
        begin = rows.start
        lasts_s = tracks.times_s[following] - tracks.times_s[rows]
        with np.errstate(over="ignore"):
            ways_m = tracks.places_m[following] - tracks.places_m[rows]
            speeds_m_s = np.hypot(ways_m[:, 0], ways_m[:, 1]) / np.where(lasts_s > 0, lasts_s, np.inf)
        if (speeds_m_s > fastest_m_s * (1 + _ROUNDING)).any():
            row = int(np.argmax(speeds_m_s))
            raise RecordingError(
                f"device {device(begin + row)} moves at {speeds_m_s[row]:.4g} m/s from {tracks.times_s[begin + row]:g} "
                f"s on, faster than channel.speed_m_s = {fastest_m_s:g}; raise that, or correct the file"
            )
        nearest_m = _nearest(tracks.places_m[rows], ways_m)
        if (nearest_m < least_m * (1 - _ROUNDING)).any():
            row = int(np.argmin(nearest_m))
            raise RecordingError(
                f"device {device(begin + row)} comes to {nearest_m[row]:.4g} m from the base station on its way from "
                f"{tracks.times_s[begin + row]:g} s on, but min_distance_m is {least_m:g}; correct the file or lower it"
            )


def _legs_of(tracks: Tracks) -> Iterator[tuple[slice, Ids]]:
    """Yield the stamps of all devices, a part at a time, and for each the stamp at the end of its leg: its own at the
    end of the way."""
    stamps = len(tracks.times_s)
    for begin in range(0, stamps, _LEGS):
        rows = np.arange(begin, min(begin + _LEGS, stamps))
        ends = tracks.last[np.searchsorted(tracks.first, rows, side="right") - 1]
        yield slice(begin, begin + _LEGS), np.minimum(rows + 1, ends)


def _nearest(begin_m: Array, way_m: Array) -> Array:
    """Least distance of legs to the origin in m, [legs]."""
    square = (way_m**2).sum(axis=1)
    share = np.clip(-(begin_m * way_m).sum(axis=1) / np.where(square > 0, square, 1.0), 0.0, 1.0)
    return np.asarray(np.linalg.norm(begin_m + share[:, None] * way_m, axis=1))
