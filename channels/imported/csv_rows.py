"""Gains, responses or paths in a CSV file, one value a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from channels.draws import Array, Complex
from channels.imported.channel import Choice, Imported, check_positive, check_room
from channels.imported.npy import LARGEST_AMPLITUDE_DB, Missing
from channels.imported.table import indices, read_table
from channels.recorded.mapping import Ids
from channels.recorded.opening import regular_file
from channels.recorded.source import RecordingError

PLACES = ("round", "device", "antenna", "block", "subcarrier", "path")
VALUES = ("re", "im", "amplitude", "power", "gain_db", "path_loss_db", "phase_deg", "phase_rad")
OF_PATHS = ("tau_s", "delay_ns", "doppler_hz", "azimuth_deg", "elevation_deg", "azimuth_rad", "elevation_rad")
POSITION = ("x_m", "y_m", "z_m")
COLUMNS = (*PLACES, "frequency_hz", "time_s", *VALUES, *OF_PATHS, *POSITION)

SHORTEST_NS = 1e-3
"""Largest delay of a file from which on it is believed to be in ns."""

OPTIONS = {
    "missing": "what a device, round or other place without any row means: refuse, or no-path",
    "carrier_hz": "carrier frequency",
}


def read(source: str, choice: Choice, *, missing: Missing = "refuse", carrier_hz: float | None = None) -> Imported:
    """Read a table of gains, responses or paths.

    Columns name the place of a value, counted from 0: `round`, `device`, `antenna`, `block`, `subcarrier`; those that
    are constant may be missing, except `device`. The value is `re` and `im`, or one of `amplitude`, `power`, `gain_db`
    and `path_loss_db`, with `phase_deg` or `phase_rad`, else of phase 0. With `tau_s` or `delay_ns`, rows are paths,
    with `doppler_hz` and angles of arrival if known. `frequency_hz` and `time_s` repeat for each row the frequency of
    its subcarrier from the carrier and the start of its block; `x_m`, `y_m`, `z_m` the position of its device. A place
    without a row, or with an empty cell, has no path.

    Args:
        source: The file.
        choice: What is read of it.
        missing: Whether a device, round, antenna, block or subcarrier that no row names is refused, or without a path.
        carrier_hz: Carrier frequency in Hz.

    Raises RecordingError with one line.
    """
    check_positive(carrier_hz=carrier_hz)
    table = read_table(regular_file(Path(source)), COLUMNS)
    if "device" not in table:
        raise RecordingError("has no column device")
    places = {name: indices(table[name], name) if name in table else _zeros(table) for name in PLACES}
    paths = "tau_s" in table or "delay_ns" in table
    _check_columns(table, paths)
    if paths:
        _check_no_axes(table, ("block", "subcarrier", "frequency_hz", "time_s"), "paths, which have delays")
        if "path" not in table:
            places["path"] = _numbered(places)
    else:
        _check_no_axes(table, ("path", *OF_PATHS), "gains; paths have tau_s or delay_ns")
    values = _values(table)
    inner = ("antenna", "path") if paths else ("antenna", "block", "subcarrier")
    axes = ("round", "device", *inner)
    shape = tuple(int(places[name].max()) + 1 for name in axes)
    check_room(shape)
    at = tuple(places[name] for name in axes)
    _check_once(at, shape, axes)
    if missing == "refuse":
        for name, length in zip(axes, shape, strict=True):
            if name != "path":  # devices may have fewer paths than others
                _check_all_there(name, places[name], length)
    gains = np.zeros(shape, dtype=np.complex128)
    gains[at] = values
    frequencies = _of_axis(table, "frequency_hz", places["subcarrier"], shape[-1])
    times = _of_axis(table, "time_s", places["block"], 0 if paths else shape[3])
    beside = {}
    if paths:
        of_path = {name: places[name] for name in ("round", "device", "path")}
        there = (gains != 0).any(axis=2)
        beside = {
            name: np.where(there, _of_place(name, table[name], of_path, there.shape), 0.0)
            for name in OF_PATHS
            if name in table
        }
        _check_nanoseconds(beside.get("delay_ns"))
    positions = None
    if "x_m" in table:
        of_device = {name: places[name] for name in ("round", "device")}
        xyz = [_of_place(name, table.get(name, np.zeros(len(values))), of_device, shape[:2]) for name in POSITION]
        positions = np.stack(xyz, axis=-1)
    rounds = choice.round_rows(shape[0])
    devices = choice.device_rows(
        shape[1], lambda: np.abs(gains[rounds]).reshape(len(rounds), shape[1], -1).sum(axis=-1)
    )
    antennas = choice.antenna_rows(shape[2])
    gains = gains[np.ix_(rounds, devices, antennas)]
    if not paths and "subcarrier" not in table and "block" not in table:
        gains = gains[..., 0, 0]
    kept = {name: one[np.ix_(rounds, devices)] for name, one in beside.items()}
    delays = kept.get("tau_s")
    if delays is None and "delay_ns" in kept:
        delays = kept["delay_ns"] * 1e-9
    return Imported(
        gains=gains,
        delays_s=delays,
        doppler_hz=kept.get("doppler_hz"),
        azimuth_rad=_angle(kept, "azimuth"),
        elevation_rad=_angle(kept, "elevation"),
        frequencies_hz=frequencies,
        block_times_s=times,
        positions_m=None if positions is None else positions[np.ix_(rounds, devices)],
        carrier_hz=carrier_hz,
        physical="path_loss_db" in table,
    )


def _zeros(table: dict[str, Array]) -> Ids:
    return np.zeros(len(table["device"]), dtype=np.int64)


def _check_columns(table: dict[str, Array], paths: bool) -> None:
    given = [name for name in ("re", "amplitude", "power", "gain_db", "path_loss_db") if name in table]
    if len(given) != 1 or ("im" in table) != ("re" in table):
        raise RecordingError("needs re and im, or one of amplitude, power, gain_db and path_loss_db")
    phases = [name for name in ("phase_deg", "phase_rad") if name in table]
    if len(phases) > 1 or (phases and "re" in table):
        raise RecordingError(f"has the phase twice: {', '.join([*given, *phases])}")
    for one, other in (("tau_s", "delay_ns"), ("azimuth_deg", "azimuth_rad"), ("elevation_deg", "elevation_rad")):
        if one in table and other in table:
            raise RecordingError(f"has both {one} and {other}; give one")
    if paths and any(name.startswith("azimuth") for name in table) != any(
        name.startswith("elevation") for name in table
    ):
        raise RecordingError("angles of arrival need an azimuth and an elevation")


def _check_no_axes(table: dict[str, Array], names: tuple[str, ...], what: str) -> None:
    for name in names:
        if name in table:
            raise RecordingError(f"has a column {name}, but its rows are {what}")


def _numbered(places: dict[str, Ids]) -> Ids:
    """Number the rows of each round, device and antenna in their order."""
    keys = np.stack([places["round"], places["device"], places["antenna"]])
    order = np.lexsort(keys[::-1])
    ordered = keys[:, order]
    new = np.r_[True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)]
    first = np.flatnonzero(new)
    numbers = np.arange(len(order)) - first[np.cumsum(new) - 1]
    result = np.empty(len(order), dtype=np.int64)
    result[order] = numbers
    return result


def _values(table: dict[str, Array]) -> Complex:
    """Return the complex gains of the rows; 0 for an empty cell."""
    if "re" in table:
        half = np.isnan(table["re"]) != np.isnan(table["im"])
        if half.any():
            row = int(np.argmax(half))
            raise RecordingError(
                f"re and im must both be given or both be empty, got {table['re'][row]:g} and {table['im'][row]:g} "
                f"in row {row + 1} ({np.count_nonzero(half):,} such)"
            )
        return np.where(np.isnan(table["re"]), 0, table["re"] + 1j * table["im"])
    name = next(one for one in ("amplitude", "power", "gain_db", "path_loss_db") if one in table)
    column = table[name]
    absent = np.isnan(column)
    if name in ("amplitude", "power"):
        _refuse(column, ~absent & ~((column >= 0) & (column < np.inf)), name, "must be 0 or more")
        sizes = column if name == "amplitude" else np.sqrt(np.where(absent, 0, column))
    else:
        if name == "path_loss_db":
            _refuse(column, ~absent & (column <= 0), name, "must be above 0 dB")
        gain_db = -column if name == "path_loss_db" else column
        _refuse(column, ~absent & (gain_db > LARGEST_AMPLITUDE_DB), name, "is beyond any channel")
        sizes = 10 ** (np.where(absent, -np.inf, gain_db) / 20)
    phase = np.deg2rad(table["phase_deg"]) if "phase_deg" in table else table.get("phase_rad", np.zeros(len(column)))
    _refuse(phase, ~absent & ~np.isfinite(phase), "phase", "must be finite")
    return np.where(absent, 0, np.where(absent, 0, sizes) * np.exp(1j * np.where(absent, 0, phase)))


def _refuse(column: Array, wrong: np.ndarray, name: str, what: str) -> None:
    if wrong.any():
        first = int(np.argmax(wrong))
        raise RecordingError(
            f"{name} {what}, got {column[first]:g} in row {first + 1} ({np.count_nonzero(wrong):,} such)"
        )


def _check_once(at: tuple[Ids, ...], shape: tuple[int, ...], axes: tuple[str, ...]) -> None:
    flat = np.ravel_multi_index(at, shape)
    _, first, counts = np.unique(flat, return_index=True, return_counts=True)
    if (counts > 1).any():
        row = int(first[np.argmax(counts > 1)])
        where = ", ".join(f"{name} {int(ids[row])}" for name, ids in zip(axes, at, strict=True))
        raise RecordingError(f"has more than one row for {where}")


def _check_all_there(name: str, ids: Ids, length: int) -> None:
    """Raise RecordingError if no row names one of the places 0 to length - 1 of an axis."""
    absent = np.setdiff1d(np.arange(length), ids)
    if len(absent):
        raise RecordingError(
            f"has no row for {name} {absent[0]} ({len(absent):,} such); count the column {name} from 0, or give "
            "missing=no-path if there is no path"
        )


def _of_axis(table: dict[str, Array], name: str, place: Ids, length: int) -> Array | None:
    """Return what a column says of each entry of an axis, ascending; None without the column."""
    if name not in table or length < 2:
        return None
    values = np.full(length, np.nan)
    values[place] = table[name]
    if not np.isfinite(values).all() or (np.diff(values) <= 0).any() or (values[place] != table[name]).any():
        raise RecordingError(f"{name} must be one finite number for each entry of its axis, ascending")
    return values


def _of_place(name: str, column: Array, places: dict[str, Ids], shape: tuple[int, ...]) -> Array:
    """Return what a column says of each path or device, NaN where no row says it.

    Args:
        name: The column, for messages.
        column: Its values, one for each row.
        places: The place that each row is about, by the names of the axes.
        shape: Lengths of these axes.

    Raises RecordingError if rows about the same place, such as those of different antennas, differ.
    """
    given = np.flatnonzero(~np.isnan(column))
    at = tuple(ids[given] for ids in places.values())
    values = np.full(shape, np.nan)
    values[at] = column[given]
    differs = values[at] != column[given]
    if differs.any():
        row = int(given[np.argmax(differs)])
        where = ", ".join(f"{axis} {int(ids[row])}" for axis, ids in places.items())
        raise RecordingError(f"{name} differs between the rows of {where}; row {row + 1} has {column[row]:g}")
    return values


def _check_nanoseconds(delays_ns: Array | None) -> None:
    """Raise RecordingError for delays that are all below a picosecond, as delays in s are."""
    if delays_ns is not None and 0 < (largest := float(np.max(delays_ns))) < SHORTEST_NS:
        raise RecordingError(f"delay_ns is at most {largest:g} ns, less than 0.3 mm of path; name delays in s tau_s")


def _angle(kept: dict[str, Array], name: str) -> Array | None:
    if f"{name}_deg" in kept:
        return np.deg2rad(kept[f"{name}_deg"])
    return kept.get(f"{name}_rad")
