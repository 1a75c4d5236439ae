"""A look at every value that a run will use, before it begins: faults with their place, mean powers, and errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.recorded.layout import MEAN_POWER, Layout
from channels.recorded.mapping import Ids
from channels.recorded.recording import HeldRounds, Recording, Rows
from channels.recorded.resampling import halving_error
from channels.recorded.source import RecordingError

MIN_GAIN, MAX_GAIN = 1e-20, 1e20
"""Range of |h| other than 0, because traces store it in single precision and received signals are of its order."""
HELD_BYTES = 1 << 27
"""Recordings up to this size are kept in memory; larger ones are read again in every round."""
PART_BYTES = 1 << 25
"""About how much is looked at together."""
LONGEST_DELAY_S = 1e-3
"""Delay of a path of 300 km; a longer one is not given in s."""
COMPARED = 64
"""Devices over which the error of interpolation is measured."""
USUAL_POWER = 1e38
"""|h|^2 up to which, and down to whose inverse, single precision tells that |h| is in range."""
IN_DECIBELS = -20.0
"""Real gains that are all below this are no amplitudes but powers in dB."""

Place = tuple[int, ...]
Modulus = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True)
class Survey:
    """What a look at a recording tells.

    Attributes:
        mean_power: E|h|^2 of each device over the rounds in which it is not silent, [devices]; over those in which it
            has a path if it is always in outage, and 0 if it never has one.
        longest_delay_s: Largest delay of a path behind the first one of its device; 0 for gains.
        silent: Whether a device has no path in some round, or on some recorded element, so that a message on those
            elements would not reach the server.
        held: All that a run needs, if it is little; None otherwise.
    """

    mean_power: Array
    longest_delay_s: float
    silent: bool
    held: HeldRounds | None


@dataclass
class _Faults:
    """The first fault of each kind, and how many there are."""

    first: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def note(self, kind: str, wrong: NDArray[np.bool_], describe: Callable[[Place], str]) -> None:
        if wrong.any():
            if kind not in self.first:
                self.first[kind] = describe(tuple(int(one) for one in np.argwhere(wrong)[0]))
            self.counts[kind] = self.counts.get(kind, 0) + int(np.count_nonzero(wrong))

    def check(self, kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            if kind in self.first:
                raise RecordingError(f"{self.first[kind]} ({self.counts[kind]:,} such {_plural(kind)})")


def _plural(kind: str) -> str:
    return "delays" if kind == "delay" else "angles or Doppler shifts" if kind == "angle" else "gains"


def survey(
    recording: Recording, rounds: Ids, devices: Ids, *, physical: bool = False, silent_below: float = 0.0
) -> Survey:
    """Look at all values of these recorded rounds and devices.

    Args:
        recording: The recording.
        rounds: Recorded rounds that a run uses, ascending.
        devices: Recorded devices that a run uses, in the order of the run's devices.
        physical: Whether |h|^2 is received over sent power, which is below 1.
        silent_below: Root mean square gain up to which a device counts as without a path.

    Raises RecordingError, with the place, for a value that no channel has.
    """
    layout, order = recording.layout, np.unique(devices)
    values = len(order) * recording.antennas * layout.blocks * (layout.paths or layout.subcarriers)
    keeps = len(rounds) * values * np.dtype(np.complex128).itemsize <= HELD_BYTES
    step = max(PART_BYTES // max(values // len(order) * 16, 1), 1)
    faults, kept = _Faults(), {}
    # Over rounds above the outage gain, and over all rounds with a path.
    floors = np.array([silent_below**2, 0.0])[:, None]
    power, heard = np.zeros((2, len(order))), np.zeros((2, len(order)), dtype=np.int64)
    real, largest, delay, gaps = True, -math.inf, 0.0, False
    for row in rounds.tolist():
        parts = []
        for begin in range(0, len(order), step):
            some = order[begin : begin + step]
            rows = recording.read(row, some)
            squares = _squares(rows.gains, layout)
            if not _usual(rows.gains, squares, physical):
                _look(rows, layout, row, some, faults, physical)
            if rows.leaked_power is not None:
                _look_at_leaks(rows.leaked_power, row, some, faults)
            if rows.delays_s is not None:
                _look_at_paths(rows, row, some, faults)
            of_devices = squares.reshape(len(squares), -1).sum(axis=1, dtype=np.float64)
            reached = _mean(of_devices, rows, layout) > floors
            power[:, begin : begin + step] += np.where(reached, of_devices, 0.0)
            heard[:, begin : begin + step] += reached
            gaps = gaps or (not layout.paths and not squares.min() and not squares.any(axis=1).all())
            real = real and not rows.gains.imag.any()
            largest = max(largest, float(np.max(rows.gains.real)))
            delay = max(delay, _delay(rows))
            if keeps:
                parts.append(rows)
        if keeps:
            kept[row] = _joined(parts)
    faults.check(("value", "range", "unit", "delay", "angle"))
    if real and largest <= IN_DECIBELS:
        raise RecordingError(
            f"{layout.name or 'array'!r} holds only real numbers below {largest:g}, which look like dB; give "
            "amplitudes, 10^(dB/20)"
        )
    each = recording.antennas * (1 if layout.paths else layout.blocks * layout.subcarriers)
    above, with_a_path = np.divide(power, each * heard, out=np.zeros_like(power), where=heard > 0)
    mean = np.where(heard[0] > 0, above, with_a_path)
    if keeps and layout.flat and (heard[0] == len(rounds)).all():  # in one sum, whose last bit a sum by rounds may miss
        stacked = np.stack([kept[row].gains[:, :, 0, 0] for row in rounds.tolist()])
        mean = np.asarray((np.abs(stacked) ** 2).mean(axis=(0, 2)))
    return Survey(
        mean_power=mean[np.searchsorted(order, devices)],
        longest_delay_s=delay,
        silent=gaps or bool((heard[0] < len(rounds)).any()),
        held=HeldRounds(kept, order) if keeps else None,
    )


def interpolation_error(recording: Recording) -> float:
    """Return the error of predicting every other recorded subcarrier from the others, over their energy.

    It is taken over the first recorded round, in its first block, of the first `COMPARED` devices, or of fewer if these
    are large, and is the error of interpolation at twice the recorded spacing. nan if no frequencies are recorded, or
    too few, or if that round has no power or is not finite.
    """
    layout = recording.layout
    if layout.frequencies_hz is None:
        return math.nan
    size = np.dtype(np.complex128).itemsize * recording.antennas * layout.blocks * layout.subcarriers
    count = min(layout.devices, COMPARED, max(PART_BYTES // size, 1))
    gains = recording.read(0, np.arange(count)).gains[:, :, 0]
    return halving_error(gains, layout.frequencies_hz) if np.isfinite(gains).all() else math.nan


def check_mean_power(stated: NDArray[np.generic], recorded: int, measured: Array, devices: Ids) -> Array:
    """Return the mean powers of a file for the devices of the run; reject values that are not powers.

    Args:
        stated: The array `mean_power` of the file.
        recorded: Number of devices that it must have at least.
        measured: The mean power over the recorded rounds, [devices].
        devices: Recorded devices of the run, [devices].
    """
    stated = np.ravel(stated)
    if stated.dtype.kind not in "iuf" or len(stated) < recorded:
        raise RecordingError(
            f"{MEAN_POWER!r} must hold real numbers of {recorded:,} devices, got {len(stated):,} of type "
            f"{stated.dtype}; correct or remove it"
        )
    power = np.asarray(stated, dtype=np.float64)[devices]
    silent = (power == 0) & (measured == 0)
    wrong = ~(((power >= MIN_GAIN**2) & (power <= MAX_GAIN**2)) | silent)
    if wrong.any():
        raise RecordingError(
            f"{MEAN_POWER!r} of device {devices[np.argmax(wrong)]} must be from {MIN_GAIN**2:g} to {MAX_GAIN**2:g}, "
            f"got {power[wrong][0]:g}"
        )
    return power


def _squares(gains: NDArray[np.complexfloating], layout: Layout) -> Modulus:
    """Return |h|^2. Of flat gains it is the square of the modulus, to the last bit; of others, which are many, it takes
    no square root."""
    with np.errstate(all="ignore"):
        if layout.flat:
            return np.asarray(np.square(np.abs(gains), dtype=np.float64))
        squares = np.square(gains.real)
        squares += np.square(gains.imag)
        return np.asarray(squares)


def _usual(gains: NDArray[np.complexfloating], squares: Modulus, physical: bool) -> bool:
    """Whether a few numbers tell that nothing is wrong, as of most parts of most files."""
    if not squares.max() < (1 if physical else USUAL_POWER):  # nan is not
        return False
    small = np.count_nonzero(squares < 1 / USUAL_POWER)
    return not small or small == gains.size - np.count_nonzero(gains)


def _look(rows: Rows, layout: Layout, row: int, devices: Ids, faults: _Faults, physical: bool) -> None:
    """Note the faults of the gains of a part of a round."""
    with np.errstate(all="ignore"):
        modulus = np.abs(rows.gains)

    def note(kind: str, wrong: NDArray[np.bool_], what: str, remedy: str) -> None:
        faults.note(kind, wrong, lambda place: _told(layout, row, devices, modulus, place, f"{what}; {remedy}"))

    usual = ((modulus >= MIN_GAIN) & (modulus <= MAX_GAIN)) | (rows.gains == 0)
    finite = np.isfinite(rows.gains)
    note("value", ~finite, "NaN or infinite", "replace it")
    what = f"outside the range for single precision ({MIN_GAIN:g} to {MAX_GAIN:g})"
    note("range", ~usual & finite, what, "scale it")
    if physical:
        what = "a path loss of 0 dB or less, although channel.units is physical"
        note("unit", usual & (modulus >= 1), what, "give received over sent amplitude, not dB and not scaled,")


def _look_at_leaks(leaked: NDArray[np.float32], row: int, devices: Ids, faults: _Faults) -> None:
    def told(place: Place) -> str:
        at = f"round {row}, device {devices[place[0]]} (counted from 0)"
        return f"the leaked_power of {at} is {leaked[place]:g}, which is no power; correct it"

    faults.note("value", ~((leaked >= 0) & (leaked < np.inf)), told)


def _look_at_paths(rows: Rows, row: int, devices: Ids, faults: _Faults) -> None:
    delays = rows.delays_s
    assert delays is not None
    there = (rows.gains != 0).any(axis=(1, 2))
    wrong = ~((delays >= 0) & (delays <= LONGEST_DELAY_S)) & there
    faults.note(
        "delay",
        wrong,
        lambda place: (
            f"the delay of round {row}, device {devices[place[0]]}, path {place[1]} (counted from 0) is "
            f"{delays[place]:g} s, but a delay is from 0 to {LONGEST_DELAY_S:g} s; give 'tau_s' in s"
        ),
    )
    for name in ("doppler_hz", "azimuth_rad", "elevation_rad"):
        values = getattr(rows, name)
        if values is None:
            continue
        most = 1e6 if name == "doppler_hz" else 2 * np.pi + 1e-6
        unit = name.rpartition("_")[2]
        faults.note("angle", ~(np.abs(values) <= most) & there, _of_path(name, row, devices, values, most, unit))


def _of_path(name: str, row: int, devices: Ids, values: Array, most: float, unit: str) -> Callable[[Place], str]:
    unit = "Hz" if unit == "hz" else unit
    return lambda place: (
        f"{name!r} of round {row}, device {devices[place[0]]}, path {place[1]} (counted from 0) is {values[place]:g}, "
        f"but it is from {-most:g} to {most:g} {unit}; give it in {unit}"
    )


def _told(layout: Layout, row: int, devices: Ids, modulus: Modulus, place: tuple[int, ...], what: str) -> str:
    at = f"round {row}, device {devices[place[0]]}, antenna {place[1]}"
    if layout.paths:
        at += f", path {place[3]}"
    elif not layout.flat:
        at += f", block {place[2]}, subcarrier {place[3]}"
    value = f"{modulus[place]:g}, " if 0 < modulus[place] < math.inf else ""
    return f"the gain of {at} (counted from 0) is {value}{what} or omit it"


def _mean(power: Array, rows: Rows, layout: Layout) -> Array:
    _, antennas, blocks, subcarriers = rows.gains.shape
    return np.asarray(power / (antennas * (1 if layout.paths else blocks * subcarriers)))


def _delay(rows: Rows) -> float:
    """Return the largest delay behind the first path of a device."""
    if rows.delays_s is None:
        return 0.0
    there = (rows.gains != 0).any(axis=(1, 2))
    first = np.min(rows.delays_s, axis=1, where=there, initial=np.inf)
    last = np.max(rows.delays_s, axis=1, where=there, initial=-np.inf)
    with np.errstate(invalid="ignore"):  # infinite delays are refused with their place
        spread = (last - first)[there.any(axis=1)]
    return float(np.max(spread, initial=0.0))


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(vars(one).values() for one in parts), strict=True)
    joined = (None if column[0] is None else np.concatenate(column) for column in columns)
    return Rows(*joined)  # type: ignore[arg-type]
