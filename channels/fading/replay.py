"""Replay of measured or exported gains from HDF5, MATLAB .mat (v4 to v7.3) and NumPy .npy and .npz files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex
from channels.fading.kinds import Fading
from channels.isolated.arrays import array, arrays, is_numpy
from channels.isolated.child import IsolatedError
from channels.isolated.hdf5 import probe
from channels.isolated.mat import mat_array, mat_variables
from channels.part import parameter

AXES = "[rounds, devices] or [rounds, devices, antennas]"
MEAN_POWER = "mean_power"
"""Name of an optional array [devices] next to the gains in HDF5 and .npz files, which holds E|h|^2."""
MAX_NAME = 60
BYTES_A_GAIN = np.dtype(np.complex128).itemsize
MIN_GAIN, MAX_GAIN = 1e-20, 1e20
"""Range of |h|, because traces store it in single precision and received signals are of its order."""
MAX_RATIO, ROOM_BYTES = 100, 1 << 26
"""An array may take at most MAX_RATIO times the size of the file plus ROOM_BYTES of memory."""


@dataclass(frozen=True)
class Replay:
    """Gains read from a file.

    Attributes:
        gains: h of every round, device and receive antenna, complex128 [rounds, devices, antennas].
        mean_power: E|h|^2 over the fading, [devices], from the file, or else the mean over the gains.
    """

    gains: Complex
    mean_power: Array

    def at(self, round_index: int, device_ids: Sequence[int] | NDArray[np.int64]) -> Complex:
        """Return the gains of the given devices in a round, both counted from 0, [len(device_ids), antennas]."""
        return np.asarray(self.gains[round_index, np.asarray(device_ids, dtype=np.int64)])


class Recorded(Fading):
    """Measured or exported gains, one for each round, device and antenna, used without scaling."""

    name = "replay"
    source = "a file of gains"
    drawn = False

    file: str = parameter(key="replay_file", description="HDF5, .mat, .npy or .npz file of gains, for fading = replay")
    variable: str | None = parameter(
        default=None, key="replay_variable", description="array in it: [rounds, devices] or [rounds, devices, antennas]"
    )

    def read(self, *, rounds: int, devices: int, antennas: int = 1) -> Replay:
        """Read the gains of the first rounds, devices and antennas; raises ValueError as `read_replay` does."""
        return read_replay(self.file, self.variable, rounds=rounds, devices=devices, antennas=antennas)


def read_replay(
    path: str | Path, variable: str | None = None, *, rounds: int, devices: int, antennas: int = 1
) -> Replay:
    """Read the first rounds, devices and antennas of the array `variable` in a file.

    The array is [rounds, devices] (one antenna) or [rounds, devices, antennas], real (gains of phase 0) or complex. In
    HDF5, complex numbers are h5py's, or pairs of fields r and i, or real and imag as MATLAB writes them. Arrays written
    by MATLAB (with the attribute MATLAB_class) are transposed to their axes in MATLAB. Without `variable`, the file
    must hold exactly one candidate array; the array of a .npy file has no name. An optional array `mean_power`
    [devices] in HDF5 or .npz files gives estimators E|h|^2; without it, the mean of the gains is used. Only the
    required part is read, links to other files are not followed, and nothing is unpickled.
    Raises ValueError, with a remedy, if the file cannot be read, there is no such array, it is too small, or a gain is
    NaN, infinite, 0, or outside 1e-20 to 1e20; also for an array whose declared size is over 100 times that of the
    file. The exception is a `VariableError` if another `variable` is the remedy.
    """
    import h5py

    path = Path(path)
    try:
        there, regular = path.exists(), path.is_file()
    except OSError as error:  # the name is too long, or the folder is not accessible
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if not regular:  # reading a pipe could block forever
        what = "not a regular file" if there and not path.is_dir() else "no such file"
        raise ValueError(f"{path}: {what}; give the path of an HDF5, .mat, .npy or .npz file")
    required = (rounds, devices, antennas)
    try:
        if h5py.is_hdf5(path):
            probe(path)
            gains, mean_power = _from_hdf5(path, variable, required)
        elif is_numpy(path):
            gains, mean_power = _from_numpy(path, variable, required)
        else:
            gains, mean_power = _from_mat(path, variable, required)
    except _ReplayError as error:
        kind = VariableError if isinstance(error, _ChoiceError) else ValueError
        raise kind(f"{path}: {' '.join(str(error).split())}") from None
    except Exception as error:  # a damaged file can raise anything
        text = str(error) if isinstance(error, IsolatedError) else f"{type(error).__name__}: {error}"
        reason = text.splitlines()[0][:120]
        raise ValueError(f"{path}: not a readable HDF5, .mat, .npy or .npz file ({reason}); export it again") from None
    fault = _fault(gains)
    if fault:
        raise ValueError(f"{path}: {fault}")
    return Replay(gains, (np.abs(gains) ** 2).mean(axis=(0, 2)) if mean_power is None else mean_power)


class VariableError(ValueError):
    """`variable` does not select an array of gains, or is needed because the file holds several arrays."""


class _ReplayError(Exception):
    """The array is missing or unusable; the message does not name the file."""


class _ChoiceError(_ReplayError):
    """The choice of `variable` is the problem."""


def _from_hdf5(path: Path, variable: str | None, required: tuple[int, ...]) -> tuple[Complex, Array | None]:
    import h5py

    shapes: dict[str, tuple[int, ...]] = {}
    others: dict[str, str] = {}

    def note(name: str, item: Any) -> None:
        # MATLAB stores the contents of cells and objects in groups whose names start with #.
        if not isinstance(item, h5py.Dataset) or name.startswith("#"):
            return
        kind = _text(item.attrs.get("MATLAB_class", ""))
        if item.shape is None:
            others[name] = "empty"
        elif item.external or item.is_virtual:
            others[name] = "stored in another file"
        elif not _is_number(item.dtype) or kind in ("char", "logical", "cell"):
            others[name] = f"{kind or item.dtype}, not numbers"
        else:
            shapes[name] = tuple(reversed(item.shape)) if kind else item.shape

    with h5py.File(path, "r") as file:
        file.visititems(note)
        name = _chosen(variable, shapes, others)
        cut = _cut(name, shapes[name], required)
        _check_room(path, name, _bytes_to_read(file[name], cut))
        if "MATLAB_class" in file[name].attrs:
            return _complex(file[name][cut[::-1]].T), None
        sibling = f"{name.rpartition('/')[0]}/{MEAN_POWER}".lstrip("/")
        present = len(shapes.get(sibling, ())) == 1
        return _complex(file[name][cut]), _mean_power(file[sibling], required[1]) if present else None


def _from_mat(path: Path, variable: str | None, required: tuple[int, ...]) -> tuple[Complex, Array | None]:
    shapes: dict[str, tuple[int, ...]] = {}
    others: dict[str, str] = {}
    for name, shape, kind in mat_variables(path):
        if kind in ("double", "single") or kind.startswith(("int", "uint")):
            shapes[name] = shape
        else:
            others[name] = f"{kind}, not numbers"
    name = _chosen(variable, shapes, others)
    cut = _cut(name, shapes[name], required)
    _check_room(path, name, BYTES_A_GAIN * math.prod(shapes[name]))
    return _complex(mat_array(path, name)[cut]), None


def _from_numpy(path: Path, variable: str | None, required: tuple[int, ...]) -> tuple[Complex, Array | None]:
    headers = {name: (shape, dtype) for name, shape, dtype in arrays(path)}
    if variable is not None and list(headers) == [""]:
        raise _ChoiceError(f"the array of a .npy file has no name; leave {variable!r} out")
    shapes = {name: shape for name, (shape, dtype) in headers.items() if dtype is not None and _is_number(dtype)}
    others = {
        name: f"{_shown(str(dtype or 'objects'))}, not numbers"
        for name, (_, dtype) in headers.items()
        if name not in shapes
    }
    name = _chosen(variable, shapes, others)
    cut = _cut(name, shapes[name], required)
    _check_room(path, name, BYTES_A_GAIN * math.prod(shapes[name] if name else [one.stop for one in cut]))
    gains = _complex(array(path, name, cut))
    if name == MEAN_POWER or len(shapes.get(MEAN_POWER, ())) != 1:
        return gains, None
    _check_room(path, MEAN_POWER, BYTES_A_GAIN * shapes[MEAN_POWER][0])
    return gains, _mean_power(array(path, MEAN_POWER, (slice(shapes[MEAN_POWER][0]),)), required[1])


def _chosen(variable: str | None, shapes: dict[str, tuple[int, ...]], others: dict[str, str]) -> str:
    """Return the requested variable, or the only candidate."""
    if variable is not None:
        name = variable.strip("/")
        if name in others:
            raise _ChoiceError(f"{_shown(name)!r} is {others[name]}; give an array of numbers, {AXES}")
        if name not in shapes:
            raise _ChoiceError(f"there is no array {variable!r}; the file has {_listed(sorted(shapes | others))}")
        return name
    candidates = [name for name, shape in shapes.items() if len(shape) in (2, 3)]
    if not candidates:
        raise _ReplayError(f"no array of numbers has axes {AXES}; the file has {_listed(sorted(shapes | others))}")
    if len(candidates) > 1:
        raise _ChoiceError(f"{len(candidates)} arrays could be the gains: {_listed(sorted(candidates))}; name one")
    return candidates[0]


def _bytes_to_read(array: Any, cut: tuple[slice, ...]) -> int:
    """Bytes to read of an HDF5 array: the required part, or at least one chunk, which is read as a whole."""
    chunk = int(array.dtype.itemsize) * math.prod(map(int, array.chunks or ()))
    part = BYTES_A_GAIN * math.prod(int(one.stop) for one in cut)
    return max(part, chunk)


def _check_room(path: Path, name: str, needed: int) -> None:
    """Reject an array whose declared size is far beyond that of the file, before memory is allocated for it."""
    size = path.stat().st_size
    if needed > MAX_RATIO * size + ROOM_BYTES:
        raise _ReplayError(
            f"{_shown(name)!r} declares {needed / 1e6:,.0f} MB in a file of {size / 1e6:,.3f} MB; export it again, "
            "without compression"
        )


def _cut(name: str, shape: tuple[int, ...], required: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the slices of the required part; reject an array that is too small."""
    if len(shape) not in (2, 3):
        raise _ReplayError(f"{_shown(name)!r} must have the axes {AXES}, got {len(shape)} axes")
    for what, available, needed in zip(("rounds", "devices", "antennas"), (*shape, 1)[:3], required, strict=True):
        if available < needed:
            raise _ReplayError(
                f"{_shown(name)!r} holds {available:,} of the {needed:,} {what} that the run needs; its shape {shape} "
                f"is read as {AXES}"
            )
    return tuple(slice(needed) for needed in required[: len(shape)])


def _mean_power(stored: Any, devices: int) -> Array:
    """Return the mean powers of the first devices; reject values that are not powers."""
    if stored.dtype.kind not in "iuf" or len(stored) < devices:
        raise _ReplayError(
            f"{MEAN_POWER!r} must hold real numbers of {devices:,} devices, got {len(stored):,} of type "
            f"{stored.dtype}; correct or remove it"
        )
    power = np.asarray(stored[:devices], dtype=np.float64)
    wrong = ~((power >= MIN_GAIN**2) & (power <= MAX_GAIN**2))
    if wrong.any():
        raise _ReplayError(
            f"{MEAN_POWER!r} of device {np.argmax(wrong)} must be from {MIN_GAIN**2:g} to {MAX_GAIN**2:g}, got "
            f"{power[wrong][0]:g}"
        )
    return power


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is real, complex, or a pair of fields that stands for a complex number."""
    if dtype.names is not None:
        return dtype.names in (("r", "i"), ("real", "imag")) and all(dtype[part].kind == "f" for part in dtype.names)
    return dtype.kind in "iufc"


def _text(attribute: Any) -> str:
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def _complex(values: NDArray[Any]) -> Complex:
    """Convert any number type to complex128 [rounds, devices, antennas]; the axis of antennas is added if missing."""
    if values.dtype.names is not None:
        pair = np.empty(values.shape, dtype=np.complex128)
        pair.real, pair.imag = (values[part] for part in values.dtype.names)
        values = pair
    with np.errstate(all="ignore"):  # invalid numbers are reported with their position in `_fault`
        gains = np.ascontiguousarray(values, dtype=np.complex128)
    return gains if gains.ndim == 3 else gains[:, :, None]


def _fault(gains: Complex) -> str | None:
    """Describe the first invalid gain, or return None."""
    with np.errstate(all="ignore"):
        modulus: Array = np.abs(gains)
    for wrong, what, remedy in (
        (~np.isfinite(gains), "NaN or infinite", "replace it"),
        (gains == 0, "0, so the channel cannot be inverted", "replace it by a small gain"),
        (
            ~((modulus >= MIN_GAIN) & (modulus <= MAX_GAIN)),
            f"outside the range for single precision ({MIN_GAIN:g} to {MAX_GAIN:g})",
            "scale it",
        ),
    ):
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0])
            at = f"round {place[0]}, device {place[1]}, antenna {place[2]} (counted from 0)"
            value = f"{modulus[place]:g}, " if 0 < modulus[place] < math.inf else ""
            return f"the gain of {at} is {value}{what}; {remedy} or omit it ({np.count_nonzero(wrong):,} such gains)"
    return None


def _listed(names: Sequence[str]) -> str:
    names = [_shown(name) for name in names]
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "none"


def _shown(name: str) -> str:
    """Shorten a name for a message; the array of a .npy file has none."""
    name = name or "array"
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."
