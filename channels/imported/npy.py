"""Arrays of gains or frequency responses in .npy, .npz, .mat or HDF5 files, with axes and units of any tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex
from channels.imported.channel import Choice, Imported, check_positive, check_room
from channels.recorded.opening import opened, regular_file
from channels.recorded.source import RecordingError, Source, as_complex, listed, shown

Unit = Literal["amplitude", "power", "gain-db", "path-loss-db"]
Missing = Literal["refuse", "no-path"]
AXES = ("rounds", "devices", "antennas", "blocks", "subcarriers")
PARTS = "parts"
PLACES = "[rounds, devices, antennas, blocks, subcarriers]"
USUAL = {
    1: ("devices",),
    2: ("rounds", "devices"),
    3: ("rounds", "devices", "antennas"),
    4: ("rounds", "devices", "antennas", "subcarriers"),
    5: AXES,
}
LARGEST_AMPLITUDE_DB = 400.0
LEAST_LOSS_DB, MOST_LOSS_DB = 20.0, 300.0
"""Real amplitudes that are all between these are believed to be path losses in dB."""

OPTIONS = {
    "variable": "name of the array, where the file holds several",
    "axes": "its axes in order, of rounds, devices, antennas, blocks, subcarriers, and parts (real, imaginary)",
    "unit": "amplitude (complex or real), power, gain-db or path-loss-db",
    "missing": "what NaN means: refuse, or no-path",
    "spacing_hz": "spacing of the subcarriers; the middle one, K // 2 counted from 0, is the carrier",
    "block_s": "time between blocks",
    "carrier_hz": "carrier frequency",
}


def read(
    source: str,
    choice: Choice,
    *,
    variable: str | None = None,
    axes: str | None = None,
    unit: Unit = "amplitude",
    missing: Missing = "refuse",
    spacing_hz: float | None = None,
    block_s: float | None = None,
    carrier_hz: float | None = None,
) -> Imported:
    """Read an array of gains.

    Args:
        source: A .npy, .npz, .mat or HDF5 file.
        choice: What is read of it.
        variable: Name of the array, where the file holds several.
        axes: Names of its axes in order, with commas; None for those of `USUAL`.
        unit: Unit of its numbers.
        missing: Whether NaN is refused, or a device without a path.
        spacing_hz: Spacing of the subcarriers in Hz.
        block_s: Time between blocks in s.
        carrier_hz: Carrier frequency in Hz.

    Raises RecordingError with one line.
    """
    check_positive(spacing_hz=spacing_hz, block_s=block_s, carrier_hz=carrier_hz)
    path = regular_file(Path(source))
    with opened(path) as file:
        name = _chosen(file, variable)
        shape = file.shapes[name]
        order = _order(axes, len(shape))
        sizes = dict(zip(order, shape, strict=True))
        if 0 in shape:
            raise RecordingError(f"{shown(name)!r} is empty, its shape is {shape}")
        if sizes.get(PARTS, 2) != 2:
            raise RecordingError(f"the axis parts must have length 2 (real, imaginary), got {sizes[PARTS]}")
        if PARTS in sizes and unit != "amplitude":
            raise RecordingError(f"unit={unit} has no real and imaginary parts; leave the axis parts out")
        rows = {axis: slice(0, sizes[axis]) for axis in order}
        for axis, picked in (("rounds", choice.rounds), ("antennas", choice.antennas)):
            if axis not in sizes and picked not in ("all", "1"):
                raise RecordingError(f"--{axis}: the array has no axis {axis}")
        rounds = choice.round_rows(sizes.get("rounds", 1))
        antennas = choice.antenna_rows(sizes.get("antennas", 1))
        for axis, ids in (("rounds", rounds), ("antennas", antennas)):
            if axis in rows:
                rows[axis] = slice(int(ids.min()), int(ids.max()) + 1)
        if not choice.reachable:
            devices = choice.device_rows(sizes["devices"])
            rows["devices"] = slice(int(devices.min()), int(devices.max()) + 1)
        cut = tuple(rows[axis] for axis in order)
        check_room([one.stop - one.start for one in cut])
        file.check_room(name, cut)
        values = _in_order(file.read(name, cut), order)
    gains = _amplitudes(values, unit, missing)
    gains = gains[rounds - rows["rounds"].start if "rounds" in rows else [0]]
    gains = gains[:, :, antennas - rows["antennas"].start if "antennas" in rows else [0]]
    if choice.reachable:
        devices = choice.device_rows(sizes["devices"], lambda: np.abs(gains).reshape(*gains.shape[:2], -1).sum(axis=-1))
    gains = gains[:, devices - rows["devices"].start]
    blocks, subcarriers = gains.shape[3:]
    selective = "subcarriers" in sizes or "blocks" in sizes
    frequencies = None if spacing_hz is None else spacing_hz * (np.arange(subcarriers) - subcarriers // 2.0)
    times = None if block_s is None else np.asarray(block_s * np.arange(blocks), dtype=np.float64)
    return Imported(
        gains=gains if selective else gains[..., 0, 0],
        frequencies_hz=frequencies if subcarriers > 1 else None,
        block_times_s=times if blocks > 1 else None,
        carrier_hz=carrier_hz,
        physical=unit == "path-loss-db",
    )


def _chosen(file: Source, variable: str | None) -> str:
    names = list(file.shapes)
    if variable is not None:
        if variable not in names:
            raise RecordingError(f"there is no array {shown(variable)!r} of numbers; the file has {listed(names)}")
        return variable
    candidates = [name for name in names if 1 <= len(file.shapes[name]) <= len(AXES) + 1]
    if len(candidates) != 1:
        raise RecordingError(f"the file has {listed(names)}; name the array with variable=NAME")
    return candidates[0]


def _order(axes: str | None, count: int) -> tuple[str, ...]:
    if axes is None:
        if count not in USUAL:
            raise RecordingError(f"an array of {count} axes needs axes=..., of {', '.join((*AXES, PARTS))}")
        return USUAL[count]
    order = tuple(one.strip() for one in axes.split(","))
    wrong = [one for one in order if one not in (*AXES, PARTS)]
    if wrong:
        raise RecordingError(f"axes must be of {', '.join((*AXES, PARTS))}, got {wrong[0][:40]!r}")
    if len(set(order)) != len(order):
        raise RecordingError(f"axes names one twice: {axes}")
    if "devices" not in order:
        raise RecordingError(f"axes must contain devices, got {axes}")
    if len(order) != count:
        raise RecordingError(f"axes names {len(order)} axes, but the array has {count}")
    return order


def _in_order(values: NDArray[Any], order: tuple[str, ...]) -> NDArray[Any]:
    """Return [rounds, devices, antennas, blocks, subcarriers], with real and imaginary parts joined."""
    if PARTS in order:
        if values.dtype.kind not in "iuf":
            raise RecordingError(f"real and imaginary parts must be real numbers, got {values.dtype}")
        values = np.moveaxis(values, order.index(PARTS), -1)
        values = np.asarray(values[..., 0] + 1j * values[..., 1])
        order = tuple(one for one in order if one != PARTS)
    there = [axis for axis in AXES if axis in order]
    values = np.transpose(values, [order.index(axis) for axis in there])
    lengths = iter(values.shape)
    return values.reshape([next(lengths) if axis in there else 1 for axis in AXES])


def _amplitudes(values: NDArray[Any], unit: Unit, missing: Missing) -> Complex:
    """Return gains from numbers in their unit, complex128; 0 where there is no path."""
    if unit == "amplitude":
        _refuse_losses(values)
        gains = np.array(as_complex(values, double=True), dtype=np.complex128)
        absent = np.isnan(gains.real) | np.isnan(gains.imag)
        refuse_missing(absent, missing)
        gains[absent] = 0
        return gains
    if values.dtype.kind not in "iuf":
        raise RecordingError(f"unit={unit} must be real numbers, got {values.dtype}; give unit=amplitude")
    real = np.asarray(values, dtype=np.float64)
    absent = np.isnan(real)
    refuse_missing(absent, missing)
    if unit == "power":
        wrong = ~absent & ~((real >= 0) & (real < np.inf))
        _refuse(real, wrong, "is no power, which is 0 or more")
        return np.sqrt(np.where(absent, 0.0, real)).astype(np.complex128)
    return amplitude_of_db(real, absent, path_loss=unit == "path-loss-db").astype(np.complex128)


def _refuse_losses(values: NDArray[Any]) -> None:
    """Raise RecordingError for amplitudes that are path losses in dB: real, and all in the range of these."""
    if values.dtype.kind not in "iuf":
        return
    there = values[np.isfinite(values) & (values != 0)]
    if there.size and there.min() > LEAST_LOSS_DB and there.max() < MOST_LOSS_DB:
        raise RecordingError(
            f"holds only real numbers from {there.min():g} to {there.max():g}, which look like path losses in dB; give "
            "unit=path-loss-db, or amplitudes"
        )


def amplitude_of_db(values_db: Array, absent: NDArray[np.bool_], *, path_loss: bool) -> Array:
    """Return amplitudes from power gains or path losses in dB; 0 where absent, or at an infinite loss.

    Raises RecordingError, with the place, for a path loss of 0 dB or less and values beyond any channel.
    """
    gains_db = -values_db if path_loss else values_db
    if path_loss:
        _refuse(values_db, ~absent & (values_db <= 0), "dB is no path loss, which is above 0 dB")
    _refuse(values_db, ~absent & (gains_db > LARGEST_AMPLITUDE_DB), "dB is beyond any channel; is it in dB?")
    with np.errstate(over="ignore"):
        return np.where(absent, 0.0, 10 ** (np.where(absent, -np.inf, gains_db) / 20))


def refuse_missing(absent: NDArray[np.bool_], missing: Missing) -> None:
    """Raise RecordingError for NaN, unless it stands for a device without a path."""
    if absent.any() and missing == "refuse":
        place = ", ".join(map(str, np.argwhere(absent)[0].tolist()))
        raise RecordingError(
            f"the value at [{place}] of {PLACES} is NaN ({np.count_nonzero(absent):,} such); give missing=no-path if "
            "that is a device without a path"
        )


def _refuse(values: Array, wrong: NDArray[np.bool_], what: str) -> None:
    if wrong.any():
        place = tuple(int(one) for one in np.argwhere(wrong)[0])
        at = ", ".join(map(str, place))
        raise RecordingError(
            f"the value at [{at}] of {PLACES}, {values[place]:g}, {what} ({np.count_nonzero(wrong):,} such)"
        )
