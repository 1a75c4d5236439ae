"""Measured synchronisation errors: residual gains from a file, replayed round by round or drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from channels.csi.synchronisation import SynchronisationErrors
from channels.draws import Array, Complex
from channels.fading.replay import Recorded, Replay, recorded_layout
from channels.frame import Frame
from channels.recorded.layout import LEAKED_POWER
from channels.recorded.mapping import Draw, Ids


@dataclass(frozen=True)
class MeasuredErrors:
    """Measured residual gains, as a run replays or draws them.

    Attributes:
        replay: The measured gains, for the devices of the run.
        target: Gain of a device without any error.
        drawn: Whether every device draws a measured round in every round, instead of following an order.
    """

    replay: Replay
    target: float
    drawn: bool

    @property
    def silent(self) -> bool:
        """Whether a device misses the trigger of some measured round, or may do so."""
        return self.replay.silent

    def gains(self, round_index: int, devices: Ids, frame: Frame, uniforms: Array) -> Complex:
        """Return the residual gains of a round, 1 without any error, and 0 for a device that missed the trigger.

        Args:
            round_index: Round of the run, from 0.
            devices: Ids of the devices.
            frame: Resource elements of the message.
            uniforms: Uniform numbers in [0, 1) of these devices, [devices], which choose a measured round if it is
                drawn.

        Returns complex [devices, 1, blocks, subcarriers], with length 1 along constant axes. Raises RecordingError if
        the measurement does not cover the frame.
        """
        if not self.drawn:
            return self._of_round(round_index, devices, frame)
        rounds = np.minimum((uniforms * self.replay.layout.rounds).astype(np.int64), self.replay.layout.rounds - 1)
        shape = self._of_round(0, devices[:1], frame).shape
        found = np.empty((len(devices), *shape[1:]), dtype=np.complex128)
        for one in np.unique(rounds).tolist():
            found[rounds == one] = self._of_round(one, devices[rounds == one], frame)
        return found

    def _of_round(self, round_index: int, devices: Ids, frame: Frame) -> Complex:
        found = np.asarray(self.replay.response(round_index, devices, frame)[0], dtype=np.complex128)
        power = (np.abs(found) ** 2).mean(axis=(1, 2, 3), keepdims=True)
        return np.asarray(np.where(power > self.replay.outage_gain**2, found, 0.0) / self.target, dtype=np.complex128)


def read_measured(
    part: SynchronisationErrors,
    *,
    rounds: int,
    devices: int,
    uniforms: Callable[[], Array],
    order: Draw,
) -> MeasuredErrors | None:
    """Read the measured errors that a run uses; None if there is no file.

    Args:
        part: The file, and how it is used.
        rounds: Rounds of the run.
        devices: N, devices of the run.
        uniforms: Returns uniform numbers in [0, 1) of the devices, [N], which choose their measured devices if these
            are drawn.
        order: The generator of a pass, if measured rounds are shuffled.

    Raises ValueError, with a remedy, as `read_replay` does, and for an array of another kind than residual gains.
    """
    if part.file is None:
        return None
    path, layout = Path(part.file), recorded_layout(part.file, part.variable)
    if layout.paths or LEAKED_POWER in layout.beside:
        beside = "tau_s" if layout.paths else LEAKED_POWER
        raise ValueError(f"{path}: residual gains are factors on a channel, but lie beside {beside!r}; omit that array")
    rows: NDArray[np.int64] | None = None
    if part.devices == "draw":
        rows = np.minimum((uniforms() * layout.devices).astype(np.int64), layout.devices - 1)
    elif not isinstance(part.devices, str):
        rows = np.array(part.devices, dtype=np.int64)
        if len(rows) != devices:
            raise ValueError(f"{path}: residual_devices names {len(rows):,} devices, but the run has {devices:,}")
        wrong = rows[(rows < 0) | (rows >= layout.devices)]
        if len(wrong):
            raise ValueError(
                f"{path}: residual_devices names device {wrong[0]}, but the file holds devices 0 to "
                f"{layout.devices - 1:,}"
            )
    replay = Recorded(
        file=part.file,
        variable=part.variable,
        rounds="wrap" if part.rounds == "draw" else part.rounds,
        devices="in-order" if rows is None else tuple(rows.tolist()),
        outage_gain=part.missed_below * part.target,
    ).read(
        rounds=sys.maxsize if part.rounds == "draw" else rounds,
        devices=devices,
        draw=lambda _: order,
    )
    return MeasuredErrors(replay, part.target, part.rounds == "draw")


def measured_over_subcarriers(part: SynchronisationErrors) -> bool:
    """Whether measured errors differ between subcarriers; False without a file, or if it cannot be read."""
    return part.file is not None and Recorded(file=part.file, variable=part.variable).selective
