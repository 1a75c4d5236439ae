"""Which arrays of a file describe a channel, by their names and axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from channels.recorded.source import ChoiceError, RecordingError, Source, listed, shown

Array = NDArray[np.float64]

AXES = "[rounds, devices] or [rounds, devices, antennas]"
MORE_AXES = "[rounds, devices, antennas, subcarriers] or [rounds, devices, antennas, blocks, subcarriers]"
PATH_AXES = "[rounds, devices, antennas, paths]"
MEAN_POWER, LEAKED_POWER = "mean_power", "leaked_power"
FREQUENCIES, BLOCK_TIMES = "frequency_hz", "block_time_s"
PATH_GAINS, DELAYS, DOPPLER = "a", "tau_s", "doppler_hz"
AZIMUTH, ELEVATION = "azimuth_rad", "elevation_rad"
POSITIONS, BASE_POSITION = "position_m", "base_position_m"
BESIDE = frozenset(
    {
        *(MEAN_POWER, LEAKED_POWER, FREQUENCIES, BLOCK_TIMES, DELAYS, DOPPLER, AZIMUTH, ELEVATION),
        *(POSITIONS, BASE_POSITION),
    },
)
"""Names of arrays beside the gains, which are never taken for them."""
CARRIER, PHYSICAL, REFERENCE = "carrier_hz", "physical", "reference_db"
"""Attributes of a file: the carrier, whether gains are received over sent, and the gain in dB they are relative to."""
LONGEST_AXIS = 1 << 20


@dataclass(frozen=True)
class Layout:
    """The arrays of a file that describe a channel.

    Attributes:
        name: Name of the gains, or of the complex amplitudes of paths.
        axes: Number of axes of that array, 2 to 5.
        rounds: Number of recorded rounds.
        devices: Number of recorded devices.
        antennas: Number of recorded receive antennas.
        blocks: Number of recorded blocks of a round; 1 for paths.
        subcarriers: Number of recorded subcarriers; 1 for paths.
        paths: Number of paths of a device; 0 for gains.
        frequencies_hz: Frequencies of the subcarriers relative to the carrier in Hz, ascending; None if not recorded.
        block_times_s: Starts of the blocks in s from the start of a round, ascending; None if not recorded.
        beside: Names of the other arrays by their meaning, such as "tau_s".
        prefix: Group of all these arrays in the file, with a slash at its end; "" for none.
    """

    name: str
    axes: int
    rounds: int
    devices: int
    antennas: int
    blocks: int = 1
    subcarriers: int = 1
    paths: int = 0
    frequencies_hz: Array | None = None
    block_times_s: Array | None = None
    beside: frozenset[str] = frozenset()
    prefix: str = ""

    @property
    def selective(self) -> bool:
        """Whether the channel differs between subcarriers."""
        return self.subcarriers > 1 or self.paths > 0

    @property
    def moves(self) -> bool:
        """Whether the channel changes within a round."""
        return self.blocks > 1 or DOPPLER in self.beside

    @property
    def flat(self) -> bool:
        """Whether the gains have no axes but rounds, devices and antennas."""
        return self.axes < 4

    def sibling(self, name: str) -> str:
        """Return the full name of an array beside the gains."""
        return f"{self.prefix}{name}"


def layout_of(source: Source, variable: str | None = None) -> Layout:
    """Find the arrays of a channel: those beside `variable`, or beside the only candidate.

    Raises RecordingError if there is none, and ChoiceError if another variable is the remedy.
    """
    name = _chosen(source, variable)
    prefix = f"{name.rpartition('/')[0]}/".lstrip("/")
    shape = source.shapes[name]
    beside = frozenset(one for one in BESIDE if f"{prefix}{one}" in source.shapes and f"{prefix}{one}" != name)
    if name == f"{prefix}{PATH_GAINS}" and DELAYS in beside:
        return _paths(source, name, prefix, beside)
    if len(shape) not in (2, 3, 4, 5):
        raise RecordingError(f"{shown(name)!r} must have the axes {AXES}, {MORE_AXES}, got {len(shape)} axes")
    antennas = shape[2] if len(shape) > 2 else 1
    blocks, subcarriers = (1, 1) if len(shape) < 4 else (1, shape[3]) if len(shape) == 4 else (shape[3], shape[4])
    if 0 in shape:
        raise RecordingError(f"{shown(name)!r} is empty, its shape is {shape}; export it again")
    layout = Layout(
        name=name,
        axes=len(shape),
        rounds=shape[0],
        devices=shape[1],
        antennas=antennas,
        blocks=blocks,
        subcarriers=subcarriers,
        frequencies_hz=_axis(source, f"{prefix}{FREQUENCIES}", subcarriers) if len(shape) > 3 else None,
        block_times_s=_axis(source, f"{prefix}{BLOCK_TIMES}", blocks) if len(shape) > 4 else None,
        beside=beside,
        prefix=prefix,
    )
    if LEAKED_POWER in beside:
        wanted = (layout.rounds, layout.devices, layout.blocks, layout.subcarriers)
        found = source.shapes[f"{prefix}{LEAKED_POWER}"]
        if found != wanted:
            raise RecordingError(f"{LEAKED_POWER!r} must have the shape {wanted} beside the gains, got {found}")
    return layout


REPEATED = '; take fewer rounds, or repeat the recorded ones (replay_rounds = "wrap" or "shuffle")'


def check_lengths(layout: Layout, shape: tuple[int, ...], required: tuple[int, int, int]) -> None:
    """Raise RecordingError if the file holds fewer rounds, devices or antennas than required."""
    axes = PATH_AXES if layout.paths else AXES if layout.flat else MORE_AXES
    available = (layout.rounds, layout.devices, layout.antennas)
    for what, held, needed in zip(("rounds", "devices", "antennas"), available, required, strict=True):
        if held < needed:
            raise RecordingError(
                f"{shown(layout.name)!r} holds {held:,} of the {needed:,} {what} that the run needs; its shape {shape} "
                f"is read as {axes}{REPEATED if what == 'rounds' else ''}"
            )


def _paths(source: Source, name: str, prefix: str, beside: frozenset[str]) -> Layout:
    shape = source.shapes[name]
    if len(shape) != 4:
        raise RecordingError(f"{shown(name)!r} beside {DELAYS!r} must have the axes {PATH_AXES}, got {len(shape)} axes")
    rounds, devices, antennas, paths = shape
    if 0 in shape:
        raise RecordingError(f"{shown(name)!r} is empty, its shape is {shape}; export it again")
    for one in (DELAYS, DOPPLER, AZIMUTH, ELEVATION):
        if one in beside and source.shapes[f"{prefix}{one}"] != (rounds, devices, paths):
            raise RecordingError(
                f"{one!r} must have the axes [rounds, devices, paths] of {shown(name)!r}, {(rounds, devices, paths)}, "
                f"got {source.shapes[f'{prefix}{one}']}"
            )
    if (AZIMUTH in beside) != (ELEVATION in beside):
        there, missing = (AZIMUTH, ELEVATION) if AZIMUTH in beside else (ELEVATION, AZIMUTH)
        raise RecordingError(f"{there!r} needs {missing!r} beside it; both are angles of arrival in rad")
    return Layout(
        name=name, axes=4, rounds=rounds, devices=devices, antennas=antennas, paths=paths, beside=beside, prefix=prefix
    )


def _chosen(source: Source, variable: str | None) -> str:
    """Return the requested variable, or the only candidate."""
    shapes, others = source.shapes, source.others
    if variable is not None and [*shapes, *others] == [""]:
        raise ChoiceError(f"the array of a .npy file has no name; leave {variable!r} out")
    if variable is not None:
        name = variable.strip("/")
        if name in others:
            raise ChoiceError(f"{shown(name)!r} is {others[name]}; give an array of numbers, {AXES}")
        if name not in shapes:
            raise ChoiceError(f"there is no array {variable!r}; the file has {listed(sorted({*shapes, *others}))}")
        return name
    held = {name: shape for name, shape in shapes.items() if name.rpartition("/")[2] not in BESIDE}
    paths = [
        name
        for name in held
        if name.rpartition("/")[2] == PATH_GAINS and f"{name[: -len(PATH_GAINS)]}{DELAYS}" in shapes
    ]
    flat = [name for name, shape in held.items() if len(shape) in (2, 3)]
    candidates = paths or flat or [name for name, shape in held.items() if len(shape) in (4, 5)]
    if not candidates:
        raise RecordingError(
            f"no array of numbers has axes {AXES}, {MORE_AXES}; the file has {listed(sorted({*shapes, *others}))}"
        )
    if len(candidates) > 1:
        raise ChoiceError(f"{len(candidates)} arrays could be the gains: {listed(sorted(candidates))}; name one")
    return candidates[0]


def _axis(source: Source, name: str, length: int) -> Array | None:
    """Return an ascending list of real numbers beside the gains, None if there is none."""
    if name not in source.shapes:
        return None
    shape = source.shapes[name]
    count = max(shape, default=1)
    if sorted(shape)[:-1] not in ([], [1]) or count != length or count > LONGEST_AXIS:  # MATLAB has rows and columns
        raise RecordingError(
            f"{shown(name)!r} must list {length:,} numbers, one for each on its axis, got shape {shape}"
        )
    values = np.ravel(source.small(name))
    if values.dtype.kind not in "iuf":
        raise RecordingError(f"{shown(name)!r} must be real numbers, got {values.dtype}")
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all() or (np.diff(values) <= 0).any():
        raise RecordingError(f"{shown(name)!r} must be finite and ascending; sort the axis of the gains by it")
    return values
