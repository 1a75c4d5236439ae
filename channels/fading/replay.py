"""Replay of recorded channels: gains, frequency responses or paths from HDF5, .mat, .npy and .npz files."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex
from channels.fading.kinds import Fading
from channels.frame import Frame
from channels.isolated.child import IsolatedError
from channels.part import parameter
from channels.recorded import (
    ChoiceError,
    HeldRounds,
    Recording,
    RecordingError,
    RoundOrder,
    Rounds,
    Source,
    Survey,
    device_rows,
    open_source,
    survey,
)
from channels.recorded.layout import AZIMUTH, LEAKED_POWER, MEAN_POWER, Layout, check_lengths, layout_of
from channels.recorded.mapping import Draw, Ids
from channels.recorded.recording import Rows
from channels.recorded.resampling import CUBIC, LINEAR, Resampler, resampler
from channels.recorded.source import shown
from channels.recorded.surveying import check_mean_power, interpolation_error

MOST_SURVEYS = 4
_SURVEYS: dict[tuple[object, ...], Survey] = {}
"""What was found in recordings that are streamed, so that a run does not read its file twice before it begins."""
FORMATS = "HDF5, .mat, .npy or .npz"


@dataclass(frozen=True)
class Grid:
    """What a recording has to fit.

    Attributes:
        frequencies_hz: Frequencies of the subcarriers that may be used, relative to the carrier in Hz, [K].
        spacing_hz: Subcarrier spacing in Hz.
    """

    frequencies_hz: Array
    spacing_hz: float


@dataclass(frozen=True)
class Replay:
    """A recorded channel, as a run replays it.

    Attributes:
        rounds: The recorded rounds.
        layout: What is recorded.
        order: The recorded round of each round.
        devices: The recorded device of each device, [N].
        mean_power: E|h|^2 over the rounds in which a device has a path, [N], from the file, or else the mean over what
            is replayed; 0 for a device that never has one.
        outage_gain: Root mean square gain over antennas and elements up to which a device is in outage.
        interpolation_error: Error of predicting every other recorded subcarrier from the others, over their energy; nan
            if it is not known.
        longest_delay_s: Largest delay of a path behind the first one of its device, in s; 0 for gains.
        silent: Whether a device has no path in some round, or may be in outage.
    """

    rounds: Rounds
    layout: Layout
    order: RoundOrder
    devices: Ids
    mean_power: Array
    outage_gain: float = 0.0
    interpolation_error: float = math.nan
    longest_delay_s: float = 0.0
    silent: bool = False
    _resamplers: dict[bytes, tuple[Resampler | None, Resampler | None]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @staticmethod
    def of(gains: Complex, mean_power: Array) -> Replay:
        """Return the replay of gains in memory, complex128 [rounds, devices, antennas]."""
        rounds, devices, antennas = gains.shape
        layout = Layout("gains", 3, rounds, devices, antennas)
        held = HeldRounds({row: Rows(one[:, :, None, None]) for row, one in enumerate(gains)}, np.arange(devices))
        return Replay(held, layout, RoundOrder("once", rounds), np.arange(devices), mean_power)

    @property
    def selective(self) -> bool:
        """Whether the channel differs between subcarriers."""
        return self.layout.selective

    @property
    def moves(self) -> bool:
        """Whether the channel changes within a round."""
        return self.layout.moves

    @property
    def has_paths(self) -> bool:
        """Whether paths are recorded, of which `paths` returns those of a round."""
        return self.layout.paths > 0

    def interpolates(self, frame: Frame) -> bool:
        """Whether H on a frame is interpolated between recorded subcarriers."""
        over_frequency, _ = self._onto(frame)
        return over_frequency is not None and not over_frequency.exact

    @property
    def gains(self) -> Complex:
        """Gains of a flat, static channel in all recorded rounds, complex128 [rounds, devices, antennas]."""
        rows = range(self.order.recorded) if self.order.kind != "once" else range(len(self._held.rows))
        return np.stack([self.at(row, np.arange(len(self.devices))) for row in rows])

    @property
    def _held(self) -> HeldRounds:
        assert isinstance(self.rounds, HeldRounds)
        return self.rounds

    def at(self, round_index: int, device_ids: Sequence[int] | NDArray[np.int64]) -> Complex:
        """Return the flat gains of the given devices in a round, both counted from 0, [len(device_ids), antennas]."""
        return np.asarray(self.recorded(round_index, device_ids).gains[:, :, 0, 0])

    def recorded(self, round_index: int, device_ids: Sequence[int] | NDArray[np.int64]) -> Rows:
        """Return what is recorded of the given devices in a round, both counted from 0, before any interpolation."""
        ids = np.asarray(device_ids, dtype=np.int64)
        return self.rounds.read(self.order.row(round_index), self.devices[ids])

    def response(
        self, round_index: int, device_ids: Ids, frame: Frame
    ) -> tuple[NDArray[np.complexfloating], NDArray[np.float32] | None]:
        """Return H on the elements of a frame, and the power that late paths leak, None if it is not recorded.

        H is complex [devices, antennas, blocks, subcarriers], with length 1 along constant axes; leaked power is
        [devices, blocks, subcarriers]. Raises RecordingError if the recording does not cover the frame.
        """
        rows = self.recorded(round_index, device_ids)
        found: NDArray[Any] = rows.gains
        leaked = rows.leaked_power
        over_frequency, over_time = self._onto(frame)
        if over_time is not None:
            found = over_time(found, 2)
            leaked = None if leaked is None else np.asarray(over_time(leaked, 1), dtype=np.float32)
        if over_frequency is not None:
            found = over_frequency(found, 3)
            leaked = None if leaked is None else np.asarray(over_frequency(leaked, 2), dtype=np.float32)
        return found, None if leaked is None else np.maximum(leaked, 0)

    def check(self, frame: Frame, grid: Grid) -> None:
        """Raise RecordingError if the recording does not cover a frame on a grid."""
        layout = self.layout
        name = repr(shown(layout.name))
        if layout.paths:
            if self.longest_delay_s * grid.spacing_hz > 1:
                raise RecordingError(
                    f"{name} has paths {self.longest_delay_s:g} s behind the first one, longer than the useful symbol "
                    f"of {1 / grid.spacing_hz:.3g} s; give 'tau_s' in s, or use a smaller grid.spacing_hz"
                )
            return
        if layout.subcarriers not in (1, len(grid.frequencies_hz)) and layout.frequencies_hz is None:
            raise RecordingError(
                f"{name} holds {layout.subcarriers:,} subcarriers, but the grid uses {len(grid.frequencies_hz):,}; "
                "write their frequencies from the carrier beside it, 'frequency_hz', so that they can be interpolated"
            )
        self._onto(frame)

    def _onto(self, frame: Frame) -> tuple[Resampler | None, Resampler | None]:
        """Return the interpolation over frequency and over time, None along a constant axis."""
        layout = self.layout
        if layout.flat:
            return None, None
        key = frame.frequencies_hz.tobytes() + frame.block_times_s.tobytes()
        if key not in self._resamplers:
            self._resamplers[key] = (
                None
                if layout.subcarriers == 1
                else _along(layout, "subcarriers", layout.frequencies_hz, frame.frequencies_hz, CUBIC, "Hz"),
                None
                if layout.blocks == 1
                else _along(layout, "blocks", layout.block_times_s, frame.block_times_s, LINEAR, "s"),
            )
        return self._resamplers[key]


def _along(layout: Layout, what: str, recorded: Array | None, wanted: Array, points: int, unit: str) -> Resampler:
    held = getattr(layout, what)
    if recorded is None:
        if held < len(wanted):
            remedy = "the coherence of the channel, or a shorter message" if what == "blocks" else "fewer"
            raise RecordingError(
                f"{shown(layout.name)!r} holds {held:,} of the {len(wanted):,} {what} that the run needs; take {remedy}"
            )
        return Resampler(np.arange(len(wanted))[:, None], np.ones((len(wanted), 1)))
    try:
        return resampler(recorded, wanted, points, unit)
    except RecordingError as error:
        raise RecordingError(f"{shown(layout.name)!r}: {error}") from None


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

    def interpolation(self, frame: Frame) -> tuple[int, float] | None:
        """Return the number of recorded subcarriers and the error of interpolating at twice their spacing, over the
        energy; None if H on a frame is not interpolated, or the file cannot be read."""
        source = None
        try:
            source = open_source(Path(self.file))
            layout = layout_of(source, self.variable)
            if layout.frequencies_hz is None:
                return None
            over = resampler(layout.frequencies_hz, frame.frequencies_hz, CUBIC, "Hz")
            return None if over.exact else (layout.subcarriers, interpolation_error(Recording(source, layout, 1)))
        except Exception:  # a damaged file can raise anything; `read` tells what
            return None
        finally:
            if source is not None:
                source.close()

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
    path, source = Path(part.file), None
    _check_regular(path)
    try:
        source = open_source(path)
        layout = layout_of(source, part.variable)
        replay = _replay(part, source, layout, rounds, devices, antennas, physical, draw)
    except RecordingError as error:
        kind = VariableError if isinstance(error, ChoiceError) else ValueError
        raise kind(f"{path}: {' '.join(str(error).split())}") from None
    except Exception as error:  # a damaged file can raise anything
        raise ValueError(f"{path}: not a readable {FORMATS} file ({_reason(error)}); export it again") from None
    finally:
        if source is not None:
            source.close()
    return replay


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
    )


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
        _check_regular(Path(file))
        source = open_source(Path(file))
        try:
            return layout_of(source, variable).selective
        finally:
            source.close()
    except Exception:  # a damaged file can raise anything; `read` tells what
        return False


def _check_regular(path: Path) -> None:
    try:
        there, regular = path.exists(), path.is_file()
    except OSError as error:  # the name is too long, or the folder is not accessible
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if not regular:  # reading a pipe could block forever
        what = "not a regular file" if there and not path.is_dir() else "no such file"
        raise ValueError(f"{path}: {what}; give the path of an {FORMATS} file")


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, IsolatedError) else f"{type(error).__name__}: {error}"
    return text.splitlines()[0][:120]


__all__ = ["LEAKED_POWER", "MEAN_POWER", "Grid", "Recorded", "Replay", "VariableError", "read_replay"]
