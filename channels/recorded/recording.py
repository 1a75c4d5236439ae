"""Reading of a round of some devices, from a file or from memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.recorded.layout import AZIMUTH, DELAYS, DOPPLER, ELEVATION, LEAKED_POWER, Layout
from channels.recorded.mapping import Ids, runs_of
from channels.recorded.source import Source, as_complex

SLAB_BYTES = 1 << 26
"""Largest part of a round that is read at once if only some of its devices are wanted."""
DENSE = 4
"""A round is read from the first to the last of its devices if at least one in so many is wanted."""


@dataclass(frozen=True)
class Rows:
    """What is recorded of some devices in one round.

    Attributes:
        gains: h, complex [devices, antennas, blocks, subcarriers], or the amplitudes of paths, [devices, antennas, 1,
            paths].
        leaked_power: Power that late paths leak, [devices, blocks, subcarriers]; None if not recorded.
        delays_s: Delays of paths, [devices, paths]; None for gains.
        doppler_hz: Doppler shifts of paths, [devices, paths]; None if not recorded.
        azimuth_rad: Azimuths of arrival, [devices, paths]; None if not recorded.
        elevation_rad: Elevations of arrival, [devices, paths]; None if not recorded.
    """

    gains: NDArray[np.complex64] | NDArray[np.complex128]
    leaked_power: NDArray[np.float32] | None = None
    delays_s: Array | None = None
    doppler_hz: Array | None = None
    azimuth_rad: Array | None = None
    elevation_rad: Array | None = None

    def take(self, rows: Ids) -> Rows:
        """Return some of the devices."""
        return Rows(*(None if one is None else one[rows] for one in vars(self).values()))  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(one.nbytes for one in vars(self).values() if one is not None)


class Rounds(Protocol):
    """Recorded rounds. Rounds and devices are counted as in the file."""

    def read(self, row: int, devices: Ids) -> Rows:
        """Return what is recorded of these devices in a round."""
        ...


@dataclass(frozen=True, eq=False)
class Recording:
    """Rounds that are read from the file when they are needed.

    Attributes:
        source: The file.
        layout: Its arrays.
        antennas: Number of antennas that are read.
    """

    source: Source
    layout: Layout
    antennas: int

    def read(self, row: int, devices: Ids) -> Rows:
        """Return what is recorded of these devices in a round."""
        layout = self.layout
        shape = self.source.shapes[layout.name]
        inner = (slice(0, self.antennas), *(slice(0, length) for length in shape[3:]))[: len(shape) - 2]
        gains = as_complex(self._rows(layout.name, row, devices, inner), double=layout.flat)
        axes = (len(devices), self.antennas, layout.blocks, layout.paths or layout.subcarriers)
        beside: dict[str, Any] = {}
        if LEAKED_POWER in layout.beside and not layout.paths:
            leaked = self._beside(LEAKED_POWER, row, devices)
            beside["leaked_power"] = leaked.astype(np.float32)
        if layout.paths:
            for name in (DELAYS, DOPPLER, AZIMUTH, ELEVATION):
                if name in layout.beside:
                    kept = "delays_s" if name == DELAYS else name
                    beside[kept] = np.asarray(self._beside(name, row, devices), dtype=np.float64)
        return Rows(gains.reshape(axes), **beside)

    def check_room(self, rounds: Ids, devices: Ids) -> None:
        """Raise RecordingError if the sizes of what is read of these rounds and devices are not believable."""
        layout, source = self.layout, self.source
        ends = (slice(0, int(rounds.max()) + 1), slice(0, int(devices.max()) + 1))
        shape = source.shapes[layout.name]
        inner = (slice(0, self.antennas), *(slice(0, length) for length in shape[3:]))[: len(shape) - 2]
        source.check_room(layout.name, (*ends, *inner))
        for name in (LEAKED_POWER, DELAYS, DOPPLER, AZIMUTH, ELEVATION):
            if name in layout.beside and (name == LEAKED_POWER) != bool(layout.paths):
                full = layout.sibling(name)
                source.check_room(full, (*ends, *(slice(0, length) for length in source.shapes[full][2:])))

    def _beside(self, name: str, row: int, devices: Ids) -> NDArray[Any]:
        full = self.layout.sibling(name)
        inner = tuple(slice(0, length) for length in self.source.shapes[full][2:])
        return self._rows(full, row, devices, inner)

    def _rows(self, name: str, row: int, devices: Ids, inner: tuple[slice, ...]) -> NDArray[Any]:
        """Return [devices, ...] of a round. Neighbours are read together, and all at once if most are wanted."""
        if not len(devices):
            return np.asarray(self.source.read(name, (slice(row, row + 1), slice(0, 1), *inner))[0, :0])
        order = np.unique(devices)
        low, high = int(order[0]), int(order[-1]) + 1
        slab = (slice(row, row + 1), slice(low, high), *inner)
        if len(order) * DENSE >= high - low and self.source.bytes_to_read(name, slab) <= SLAB_BYTES:
            found = self.source.read(name, slab)[0]
            everyone = len(devices) == high - low and (devices == np.arange(low, high)).all()
            return found if everyone else np.asarray(found[devices - low])
        parts = [self.source.read(name, (slice(row, row + 1), part, *inner))[0] for part in runs_of(order)]
        return np.concatenate(parts)[np.searchsorted(order, devices)]


@dataclass(frozen=True, eq=False)
class HeldRounds:
    """Rounds that have been read into memory.

    Attributes:
        rows: What is recorded of all devices of the run, by recorded round.
        devices: The recorded devices, ascending, [N].
    """

    rows: dict[int, Rows]
    devices: Ids

    def read(self, row: int, devices: Ids) -> Rows:
        """Return what is recorded of these devices in a round."""
        return self.rows[row].take(np.searchsorted(self.devices, devices))
