"""A recorded channel as a run replays it: its rounds and devices, on the resource elements of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex
from channels.frame import Frame
from channels.recorded.layout import Layout
from channels.recorded.mapping import Ids, RoundOrder
from channels.recorded.recording import HeldRounds, Rounds, Rows
from channels.recorded.resampling import CUBIC, LINEAR, Resampler, resampler
from channels.recorded.source import RecordingError, shown


@dataclass(frozen=True)
class Replay:
    """A recorded channel, as a run replays it.

    Attributes:
        rounds: The recorded rounds.
        layout: What is recorded.
        order: The recorded round of each round.
        devices: The recorded device of each device, [N].
        mean_power: E|h|^2 of each device, [N], from the file, or else the mean over what is replayed, see `Survey`; 0
            for a device that never has a path.
        outage_gain: Root mean square gain over antennas and elements up to which a device is in outage.
        interpolation_error: Error of predicting every other recorded subcarrier from the others, over their energy; nan
            if it is not known.
        longest_delay_s: Largest delay of a path behind the first one of its device, in s; 0 for gains.
        silent: Whether a device has no path in some round, or may be in outage.
        carrier_hz: Carrier frequency of the recording in Hz; nan if it is not known.
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
    carrier_hz: float = math.nan
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

    def check(self, frame: Frame, subcarriers: int, spacing_hz: float) -> None:
        """Raise RecordingError if the recording does not cover a frame on a grid.

        Args:
            frame: Resource elements of a message.
            subcarriers: K, number of subcarriers that may be used.
            spacing_hz: Subcarrier spacing in Hz.
        """
        layout = self.layout
        name = repr(shown(layout.name))
        if layout.paths:
            if self.longest_delay_s * spacing_hz > 1:
                raise RecordingError(
                    f"{name} has paths {self.longest_delay_s:g} s behind the first one, longer than the useful symbol "
                    f"of {1 / spacing_hz:.3g} s; give 'tau_s' in s, or use a smaller grid.spacing_hz"
                )
            return
        if layout.subcarriers not in (1, subcarriers) and layout.frequencies_hz is None:
            raise RecordingError(
                f"{name} holds {layout.subcarriers:,} subcarriers, but the grid uses {subcarriers:,}; "
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
