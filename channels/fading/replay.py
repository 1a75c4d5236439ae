"""Replay of recorded channels: gains, frequency responses or paths from HDF5, .mat, .npy and .npz files."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from channels.fading.kinds import Fading
from channels.frame import Frame
from channels.isolated.child import IsolatedError
from channels.part import parameter
from channels.recorded import (
    ChoiceError,
    Recording,
    RecordingError,
    Replay,
    RoundOrder,
    Source,
    Survey,
    device_rows,
    open_source,
    survey,
)
from channels.recorded.layout import (
    AZIMUTH,
    CARRIER,
    MEAN_POWER,
    REFERENCE,
    Layout,
    check_lengths,
    layout_of,
)
from channels.recorded.mapping import Draw, Ids
from channels.recorded.resampling import CUBIC, resampler
from channels.recorded.source import shown
from channels.recorded.surveying import check_mean_power, interpolation_error

MOST_SURVEYS = 4
_SURVEYS: dict[tuple[object, ...], Survey] = {}
"""What was found in recordings that are streamed, so that a run does not read its file twice before it begins."""
FORMATS = "HDF5, .mat, .npy or .npz"


class Recorded(Fading):
    """A recorded channel: gains, frequency responses or paths of each round and device, used without scaling."""

    name = "replay"
    source = "a file of gains, frequency responses or paths"
    drawn = False

    file: str = parameter(
        key="replay_file", description="HDF5, .mat, .npy or .npz file of a recorded channel, for fading = replay"
    )
    variable: str | None = parameter(
        default=None,
        key="replay_variable",
        description="array in it: [rounds, devices], with further axes [antennas], [antennas, subcarriers] or "
        "[antennas, blocks, subcarriers], or amplitudes of paths beside tau_s",
    )
    rounds: Literal["once", "wrap", "shuffle"] = parameter(
        default="once",
        key="replay_rounds",
        description="what happens at the end of the recorded rounds: once = a longer run is refused; wrap = from the "
        "start again; shuffle = every pass in an order drawn for it",
    )
    devices: Literal["in-order", "draw"] | tuple[int, ...] = parameter(
        default="in-order",
        key="replay_devices",
        description="recorded device of each device: in-order = the first ones; draw = drawn without replacement; or a "
        "list of one for each device",
    )
    outage_gain: float = parameter(
        default=0.0,
        ge=0,
        le=1e20,
        key="replay_outage_gain",
        description="root mean square |h| of a round up to which a device is in outage, and silent like one without a "
        "path",
    )

    @property
    def selective(self) -> bool:
        """Whether the recorded channel differs between subcarriers; False as long as the file cannot be read."""
        try:
            status = Path(self.file).stat()
        except (OSError, ValueError):
            return False
        return _is_selective(self.file, self.variable, status.st_ino, status.st_size, status.st_mtime_ns)

    def interpolation(self, frame: Frame, antennas: int) -> tuple[int, float] | None:
        """Return the number of recorded subcarriers and the error of interpolating at twice their spacing, over the
        energy; None if H on a frame is not interpolated, or the file cannot be read."""
        try:
            with _opened(self.file, self.variable) as (source, layout):
                if (
                    layout.frequencies_hz is None
                    or resampler(layout.frequencies_hz, frame.frequencies_hz, CUBIC, "Hz").exact
                ):
                    return None
                recording = Recording(source, layout, min(antennas, layout.antennas))
                recording.check_room(np.zeros(1, np.int64), np.arange(layout.devices))
                return layout.subcarriers, interpolation_error(recording)
        except Exception:  # a damaged file can raise anything; `read` tells what
            return None

    def attribute(self, name: str) -> float:
        """Return a number or a truth value that describes the file; nan if there is none, or it cannot be read."""
        try:
            with _opened(self.file, self.variable) as (source, _):
                return source.attribute(name)
        except Exception:  # a damaged file can raise anything; `read` tells what
            return math.nan

    def read(
        self,
        *,
        rounds: int,
        devices: int,
        antennas: int = 1,
        physical: bool = False,
        draw: Callable[[str], Draw] | None = None,
    ) -> Replay:
        """Read what a run of these numbers of rounds, devices and antennas replays.

        Args:
            rounds: Rounds of the run.
            devices: N, devices of the run.
            antennas: Receive antennas.
            physical: Whether |h|^2 is received over sent power.
            draw: The generators for "rounds" and for "devices", for orders and devices that are drawn.

        Raises ValueError as `read_replay` does.
        """
        return _read(self, rounds=rounds, devices=devices, antennas=antennas, physical=physical, draw=draw)


def read_replay(
    path: str | Path, variable: str | None = None, *, rounds: int, devices: int, antennas: int = 1
) -> Replay:
    """Read the first rounds, devices and antennas of the channel `variable` in a file.

    The array is [rounds, devices] (one antenna), [rounds, devices, antennas], [rounds, devices, antennas, subcarriers]
    or [rounds, devices, antennas, blocks, subcarriers], real (gains of phase 0) or complex; or it holds amplitudes of
    paths, [rounds, devices, antennas, paths], beside their delays `tau_s`. In HDF5, complex numbers are h5py's, or
    pairs of fields r and i, or real and imag as MATLAB writes them. Arrays written by MATLAB (with the attribute
    MATLAB_class) are transposed to their axes in MATLAB. Without `variable`, the file must hold exactly one candidate
    array; the array of a .npy file has no name. An optional array `mean_power` [devices] gives estimators E|h|^2;
    without it, the mean of the gains is used. Only the required part is read, links to other files are not followed,
    and nothing is unpickled.
    Raises ValueError, with a remedy, if the file cannot be read, there is no such array, it is too small, or a gain is
    NaN, infinite, or outside 1e-20 to 1e20 (0 is a device without a path); also for an array whose declared size is
    over 100 times that of the file. The exception is a `VariableError` if another `variable` is the remedy.
    """
    part = Recorded(file=str(path), variable=variable)
    return _read(part, rounds=rounds, devices=devices, antennas=antennas, physical=False, draw=None)


class VariableError(ValueError):
    """`variable` does not select an array of gains, or is needed because the file holds several arrays."""


def _read(
    part: Recorded, *, rounds: int, devices: int, antennas: int, physical: bool, draw: Callable[[str], Draw] | None
) -> Replay:
    with _explained(part.file), _opened(part.file, part.variable) as (source, layout):
        return _replay(part, source, layout, rounds, devices, antennas, physical, draw)


def recorded_layout(file: str, variable: str | None = None) -> Layout:
    """Return what is recorded in a file, without reading its values. Raises ValueError as `read_replay` does."""
    with _explained(file), _opened(file, variable) as (_, layout):
        return layout


@contextmanager
def _explained(file: str) -> Iterator[None]:
    """Convert errors of reading a file into ValueErrors that name it."""
    path = Path(file)
    try:
        yield
    except RecordingError as error:
        kind = VariableError if isinstance(error, ChoiceError) else ValueError
        raise kind(f"{path}: {' '.join(str(error).split())}") from None
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(f"{path}: not a readable {FORMATS} file ({_reason(error)}); export it again") from None


@contextmanager
def _opened(file: str, variable: str | None) -> Iterator[tuple[Source, Layout]]:
    """Open a recording for the block, and find its arrays. Raises RecordingError for anything but a regular file; a
    damaged file may raise anything."""
    path = Path(file)
    _check_regular(path)
    source = open_source(path)
    try:
        yield source, layout_of(source, variable)
    finally:
        source.close()


def _replay(
    part: Recorded,
    source: Source,
    layout: Layout,
    rounds: int,
    devices: int,
    antennas: int,
    physical: bool,
    draw: Callable[[str], Draw] | None,
) -> Replay:
    if draw is None and (part.rounds == "shuffle" or part.devices == "draw"):
        raise RecordingError("replay_rounds and replay_devices are drawn by a run; give generators")
    if physical:
        _check_reference(source)
    steered = layout.paths > 0 and layout.antennas == 1 and AZIMUTH in layout.beside
    named = devices if not isinstance(part.devices, tuple) else 1
    required = (rounds if part.rounds == "once" else 1, named, 1 if steered else antennas)
    check_lengths(layout, source.shapes[layout.name], required)
    order = RoundOrder(part.rounds, layout.rounds, draw("rounds") if draw else None)
    rows = device_rows(part.devices, layout.devices, devices, draw("devices") if draw else None, shown(layout.name))
    used, recording = order.used(rounds), Recording(source, layout, required[2])
    recording.check_room(used, rows)
    found = _surveyed(recording, used, rows, physical, part.outage_gain)
    mean_power = found.mean_power
    if MEAN_POWER in layout.beside:
        stated = source.small(layout.sibling(MEAN_POWER))
        mean_power = check_mean_power(stated, int(rows.max()) + 1, mean_power, rows)
    return Replay(
        rounds=found.held or recording,
        layout=layout,
        order=order,
        devices=rows,
        mean_power=mean_power,
        outage_gain=part.outage_gain,
        interpolation_error=interpolation_error(recording),
        longest_delay_s=found.longest_delay_s,
        silent=found.silent or part.outage_gain > 0,
        carrier_hz=_carrier_hz(source),
    )


def _check_reference(source: Source) -> None:
    """Raise RecordingError if gains are relative to a reference power, and so no longer received over sent."""
    reference_db = source.attribute(REFERENCE)
    if not math.isnan(reference_db):
        raise RecordingError(
            f'its gains are relative to {reference_db:.2f} dB, but channel.units = "physical" needs received over '
            'sent amplitude; import it without --reference-db and --normalise, or use channel.units = "normalised"'
        )


def _carrier_hz(source: Source) -> float:
    """Return the carrier of a recording in Hz; nan if it is not known, or no frequency."""
    carrier_hz = source.attribute(CARRIER)
    return carrier_hz if 0 < carrier_hz < math.inf else math.nan


def _surveyed(recording: Recording, used: Ids, rows: Ids, physical: bool, outage_gain: float) -> Survey:
    """Return what a look at a recording tells: of one that is streamed, the same as before if its file has not changed
    since."""
    status, layout = recording.source.path.stat(), recording.layout
    changes = (status.st_ino, status.st_size, status.st_mtime_ns)
    asked = (used.tobytes(), rows.tobytes(), recording.antennas, physical, outage_gain)
    key = (str(recording.source.path.resolve()), layout.name, changes, asked)
    if key not in _SURVEYS:
        found = survey(recording, used, rows, physical=physical, silent_below=outage_gain)
        if found.held is not None:
            return found
        while len(_SURVEYS) >= MOST_SURVEYS:
            _SURVEYS.pop(next(iter(_SURVEYS)))
        _SURVEYS[key] = found
    return _SURVEYS[key]


@functools.lru_cache(maxsize=64)
def _is_selective(file: str, variable: str | None, *_status: int) -> bool:
    """Whether the channel in a file is selective. `_status` keys the cache."""
    try:
        with _opened(file, variable) as (_, layout):
            return layout.selective
    except Exception:  # a damaged file can raise anything; `read` tells what
        return False


def _check_regular(path: Path) -> None:
    try:
        there, regular = path.exists(), path.is_file()
    except OSError as error:  # the name is too long, or the folder is not accessible
        raise RecordingError(f"cannot be read ({error.strerror})") from None
    if not regular:  # reading a pipe could block forever
        what = "is a folder, not a file" if path.is_dir() else "not a regular file" if there else "no such file"
        raise RecordingError(f"{what}; give the path of an {FORMATS} file")


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, IsolatedError) else f"{type(error).__name__}: {error}"
    return text.splitlines()[0][:120]


__all__ = ["Recorded", "Replay", "VariableError", "read_replay", "recorded_layout"]
