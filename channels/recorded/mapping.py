"""Which recorded round and which recorded device a run uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from channels.recorded.source import RecordingError

Ids = NDArray[np.int64]
RoundsAtEnd = Literal["once", "wrap", "shuffle"]
DeviceChoice = Literal["in-order", "draw"] | tuple[int, ...]
Draw = Callable[[int | None], np.random.Generator]
"""The generator of a pass over the recorded rounds, or of the run (None)."""


@dataclass(frozen=True)
class RoundOrder:
    """The recorded round of each round of a run.

    Attributes:
        kind: "once" uses each recorded round once, in order; "wrap" starts again at the end; "shuffle" plays all
            recorded rounds in an order drawn for each pass.
        recorded: Number of recorded rounds.
        draw: The generator of a pass, for "shuffle".
    """

    kind: RoundsAtEnd
    recorded: int
    draw: Draw | None = None
    _orders: dict[int, Ids] = field(default_factory=dict, repr=False, compare=False)

    def row(self, round_index: int) -> int:
        """Return the recorded round of a round of the run, both counted from 0."""
        number, place = divmod(round_index, self.recorded)
        if self.kind != "shuffle":
            return place if self.kind == "wrap" else round_index
        if number not in self._orders:
            assert self.draw is not None
            self._orders.clear()
            self._orders[number] = self.draw(number).permutation(self.recorded)
        return int(self._orders[number][place])

    def used(self, rounds: int) -> Ids:
        """Return the recorded rounds that a run of so many rounds uses, ascending."""
        if self.kind != "shuffle" or rounds >= self.recorded:
            return np.arange(min(rounds, self.recorded))
        return np.unique([self.row(index) for index in range(rounds)])


def device_rows(choice: DeviceChoice, recorded: int, devices: int, draw: Draw | None, named: str) -> Ids:
    """Return the recorded device of each of a run's devices, int64 [N].

    Args:
        choice: "in-order" uses the first N recorded devices; "draw" draws N different ones, of which a run with fewer
            devices has the first; a list names one for each device.
        recorded: Number of recorded devices.
        devices: N.
        draw: The generator of the run, for "draw".
        named: Name of the array, for messages.

    Raises RecordingError for a list of another length, or with a device that is not recorded.
    """
    if isinstance(choice, tuple):
        if len(choice) != devices:
            raise RecordingError(f"replay_devices names {len(choice):,} devices, but the run has {devices:,}")
        wrong = [one for one in choice if not 0 <= one < recorded]
        if wrong:
            raise RecordingError(
                f"replay_devices names device {wrong[0]}, but {named!r} holds devices 0 to {recorded - 1:,}"
            )
        return np.array(choice, dtype=np.int64)
    if choice == "draw":
        assert draw is not None
        return np.asarray(draw(None).permutation(recorded)[:devices], dtype=np.int64)
    return np.arange(devices)


def runs_of(rows: Sequence[int] | Ids) -> list[slice]:
    """Return ascending rows as slices of neighbours."""
    rows = np.asarray(rows, dtype=np.int64)
    if not len(rows):
        return []
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    return [slice(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, breaks)]
