"""Measured channels of DICHASUS: TFRecord files of a transmitter that moves before a massive array.

Each record has `csi`, real and imaginary parts [antennas, subcarriers, 2] in the order of an FFT, the position of the
transmitter in m, such as `pos-tachy`, and `time` in s. `spec.json` of the data set has the bandwidth and the antennas
of each array; `reftx-offsets-*.json` the phase and time offsets of the receivers, which are constant over a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.imported.channel import Choice, Imported, check_positive, check_room
from channels.imported.files import read_json
from channels.imported.tfrecord import Value, example, places, record, tensor
from channels.recorded.opening import readable, regular_file
from channels.recorded.source import RecordingError, listed

CSI, TIME, POSITION = "csi", "time", "pos-"
PARTS = 2

OPTIONS = {
    "spec": "spec.json of the data set, with the bandwidth and the arrays",
    "bandwidth_hz": "bandwidth, without spec",
    "array": "number of the array whose antennas are read, of those in spec; by default all",
    "offsets": "reftx-offsets-*.json of the file: phases and times of the receivers, which are removed",
    "split": "number of equal stretches of the record, each a device that walks; by default each record is a device",
    "step": "every so many records of a stretch are a round",
    "every": "every so many subcarriers are kept",
    "carrier_hz": "carrier frequency",
}


def read(
    source: str,
    choice: Choice,
    *,
    spec: str | None = None,
    bandwidth_hz: float | None = None,
    array: int | None = None,
    offsets: str | None = None,
    split: int | None = None,
    step: int = 1,
    every: int = 1,
    carrier_hz: float | None = None,
) -> Imported:
    """Read the frequency responses of a file.

    Args:
        source: The .tfrecords file.
        choice: What is read of it.
        spec: `spec.json` of the data set.
        bandwidth_hz: Bandwidth in Hz, without `spec`.
        array: Number of the array, counted from 0; None for all antennas in the order of the file.
        offsets: `reftx-offsets-*.json` of the file.
        split: Number of stretches of the trajectory; each is a device, and its records are rounds. None for a device
            for each record, in one round.
        step: Records of a stretch from round to round.
        every: Subcarriers from one that is kept to the next.
        carrier_hz: Carrier frequency in Hz.

    Raises RecordingError with one line.
    """
    check_positive(split=split, step=step, every=every, bandwidth_hz=bandwidth_hz, carrier_hz=carrier_hz)
    if split is None and step != 1:
        raise RecordingError("step has no effect without split")
    path = regular_file(Path(source))
    described = read_json(Path(spec)) if spec is not None else {}
    bandwidth_hz = _bandwidth(described, bandwidth_hz)
    with readable("TFRecord file of DICHASUS"):
        there = places(path)
        number = len(there) if split is None else split
        length = len(there) // number
        if not length:
            raise RecordingError(f"has {len(there):,} records, fewer than split={split:,}")
        devices = choice.device_rows(number)
        rounds = choice.round_rows(1 + (length - 1) // step) * step
        # Record of each round and device.
        numbers = devices[None, :] * length + rounds[:, None]
        first = _csi(example(record(path, *there[0], 0)), 0)
        antennas, subcarriers = first.shape
        rows = _antennas(described, array, antennas)
        rows = rows[choice.antenna_rows(len(rows))]
        kept = np.arange(subcarriers)[subcarriers // 2 % every :: every]
        turns = _turns(offsets, antennas, subcarriers)[np.ix_(rows, kept)]
        check_room((*numbers.shape, len(rows), len(kept)), 8)
        gains = np.empty((*numbers.shape, len(rows), len(kept)), dtype=np.complex64)
        positions = np.full((*numbers.shape, 3), np.nan)
        times = np.full(numbers.shape, np.nan)
        for place in np.ndindex(*numbers.shape):
            one = int(numbers[place])
            features = example(record(path, *there[one], one))
            csi = _csi(features, one)
            if csi.shape != first.shape:
                raise RecordingError(f"record {one} has the shape {csi.shape}, but the first one {first.shape}")
            gains[place] = csi[np.ix_(rows, kept)] * turns
            positions[place] = _position(features, one)
            times[place] = _time(features)
    notes = ["gains are in units of the receiver; --normalise makes their mean power 1"]
    if len(rounds) > 1 and np.isfinite(times).all():
        notes.append(f"rounds are {float(np.median(np.diff(times, axis=0))):.3g} s apart (median)")
    frequencies = bandwidth_hz / subcarriers * (kept - subcarriers // 2)
    return Imported(
        gains=gains,
        frequencies_hz=frequencies.astype(np.float64) if len(kept) > 1 else None,
        positions_m=positions if np.isfinite(positions).all() else None,
        carrier_hz=carrier_hz,
        notes=tuple(notes),
    )


def _bandwidth(described: Any, given: float | None) -> float:
    recorded = described.get("bandwidth") if isinstance(described, Mapping) else None
    if recorded is not None and given is not None:
        raise RecordingError("bandwidth_hz: spec has the bandwidth; leave it out")
    value = given if recorded is None else recorded
    if value is None:
        raise RecordingError("the bandwidth is not in the file; give spec=spec.json or bandwidth_hz=50e6")
    if not isinstance(value, int | float) or not 0 < value < np.inf:
        raise RecordingError(f"the bandwidth must be positive, got {str(value)[:40]} Hz")
    return float(value)


def _antennas(described: Any, array: int | None, antennas: int) -> NDArray[np.int64]:
    """Return the antennas of an array in the order of its rows, or all."""
    if array is None:
        return np.arange(antennas)
    arrays = described.get("antennas") if isinstance(described, Mapping) else None
    if not isinstance(arrays, Sequence) or not arrays:
        raise RecordingError("array needs spec=spec.json with the antennas of each array")
    if not 0 <= array < len(arrays):
        raise RecordingError(f"array must be from 0 to {len(arrays) - 1}, got {array}")
    try:
        ids = [int(one) for row in arrays[array]["assignments"] for one in row]
    except (KeyError, TypeError, ValueError):
        raise RecordingError("spec has no assignments of antennas for this array") from None
    if not ids or min(ids) < 0 or max(ids) >= antennas:
        raise RecordingError(
            f"spec assigns antennas {min(ids, default=0)} to {max(ids, default=0)}, the file has {antennas}"
        )
    return np.array(ids, dtype=np.int64)


def _turns(offsets: str | None, antennas: int, subcarriers: int) -> NDArray[np.complex64]:
    """Return e^(j (sto 2 pi k / K + cpo)) of every antenna and subcarrier k, which removes constant offsets."""
    if offsets is None:
        return np.ones((antennas, subcarriers), dtype=np.complex64)
    described = read_json(Path(offsets))
    try:
        phases, times = (np.asarray(described[name], dtype=np.float64) for name in ("cpo", "sto"))
    except (KeyError, TypeError, ValueError):
        raise RecordingError("offsets must have the lists cpo and sto, of numbers") from None
    if phases.shape != (antennas,) or times.shape != (antennas,) or not np.isfinite([*phases, *times]).all():
        raise RecordingError(f"offsets must have {antennas} finite numbers in cpo and sto, one for each antenna")
    k = np.arange(subcarriers) / subcarriers
    return np.asarray(np.exp(1j * (2 * np.pi * np.outer(times, k) + phases[:, None])), dtype=np.complex64)


def _csi(features: Mapping[str, Value], number: int) -> NDArray[np.complex64]:
    """Return the responses of a record, complex64 [antennas, subcarriers], with frequencies ascending."""
    if not isinstance(features.get(CSI), bytes):
        raise RecordingError(f"record {number} has no {CSI!r}; it has {listed(sorted(features))}")
    try:
        values = tensor(features[CSI])  # type: ignore[arg-type]
    except ValueError as error:
        raise RecordingError(f"record {number}: {error}") from None
    if values.ndim != 3 or values.shape[2] != PARTS or 0 in values.shape or values.dtype.kind != "f":
        raise RecordingError(f"record {number}: {CSI!r} must be [antennas, subcarriers, 2], got {values.shape}")
    return np.fft.fftshift((values[..., 0] + 1j * values[..., 1]).astype(np.complex64), axes=1)


def _position(features: Mapping[str, Value], number: int) -> Array:
    """Return the position of the transmitter in m, [3]; NaN if it is not recorded."""
    name = next((one for one in sorted(features, reverse=True) if one.startswith(POSITION)), None)
    value = features.get(name) if name is not None else None
    if not isinstance(value, bytes):
        return np.full(3, np.nan)
    try:
        at = tensor(value).astype(np.float64).ravel()
    except ValueError as error:
        raise RecordingError(f"record {number}, {name}: {error}") from None
    if len(at) not in (2, 3):
        raise RecordingError(f"record {number}: {name!r} must have 2 or 3 coordinates, got {len(at)}")
    return np.concatenate([at, np.zeros(3 - len(at))])


def _time(features: Mapping[str, Value]) -> float:
    value = features.get(TIME)
    return float(value[0]) if isinstance(value, np.ndarray) and len(value) else float("nan")
