"""What an import returns, which part of a source it reads, and the conversion to a reference power."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.recorded.mapping import Ids
from channels.recorded.source import RecordingError

MOST_BYTES = 4 << 30
"""Largest channel in bytes that is imported at once, because it is held in memory."""


@dataclass(frozen=True, eq=False)
class Imported:
    """A channel as it was read: gains, responses or paths, with the base station as the receiver.

    Attributes:
        gains: Complex gains [rounds, devices, antennas], responses [rounds, devices, antennas, subcarriers] or [rounds,
            devices, antennas, blocks, subcarriers]; amplitudes of paths [rounds, devices, antennas, paths] beside
            `delays_s`. 0 where there is no path.
        delays_s: Delays of paths in s, [rounds, devices, paths]; None for gains and responses.
        doppler_hz: Doppler shifts of paths in Hz, [rounds, devices, paths]; None if unknown.
        azimuth_rad: Azimuths of arrival at the base station in rad, [rounds, devices, paths]; None if unknown.
        elevation_rad: Elevations of arrival above the horizon in rad, [rounds, devices, paths]; None if unknown.
        leaked_power: Power that paths beyond the cyclic prefix leak to other elements, per unit of power on one,
            [rounds, devices, blocks, subcarriers]; None for none.
        frequencies_hz: Frequencies of the subcarriers from the carrier in Hz, ascending; None if unknown.
        block_times_s: Starts of the blocks of a round in s, ascending; None if unknown.
        positions_m: Positions of the devices in m, [rounds, devices, 3]; None if unknown.
        base_m: Position of the base station in m, [3]; None if unknown.
        carrier_hz: Carrier frequency in Hz; None if unknown.
        physical: Whether gains are received over sent amplitudes, which are below 1.
        reference_db: Power gain in dB that gains are relative to; None if they are not scaled.
        notes: Remarks on what was read, one line each.
    """

    gains: NDArray[np.complexfloating]
    delays_s: Array | None = None
    doppler_hz: Array | None = None
    azimuth_rad: Array | None = None
    elevation_rad: Array | None = None
    leaked_power: NDArray[np.float32] | None = None
    frequencies_hz: Array | None = None
    block_times_s: Array | None = None
    positions_m: Array | None = None
    base_m: Array | None = None
    carrier_hz: float | None = None
    physical: bool = False
    reference_db: float | None = None
    notes: tuple[str, ...] = ()

    def sizes(self) -> dict[str, int]:
        """Return the lengths of the axes by their names."""
        inner = ("paths",) if self.delays_s is not None else ("blocks", "subcarriers")[5 - self.gains.ndim :]
        return dict(zip(("rounds", "devices", "antennas", *inner), self.gains.shape, strict=True))

    def power(self) -> Array:
        """Return |h|^2 of every round and device, [rounds, devices]: the mean over antennas and elements; for paths the
        sum over paths, which is the mean over their phases."""
        squares = np.abs(self.gains.astype(np.complex128)) ** 2
        if self.delays_s is not None:
            squares = squares.sum(axis=-1)
        return np.asarray(squares.reshape(*squares.shape[:2], -1).mean(axis=-1))


@dataclass(frozen=True)
class Choice:
    """Which part of a source is imported.

    A choice is "all", a number, a range "first:end" or "first:end:step" counted from 0, or a list such as "3,5,9". A
    number of devices is that many, evenly spread over the source; of rounds and antennas, the first ones.

    Attributes:
        devices: The devices.
        rounds: The rounds.
        antennas: The receive antennas.
        reachable: Whether devices without a path in one of these rounds are left out, before others are chosen.
    """

    devices: str = "all"
    rounds: str = "all"
    antennas: str = "all"
    reachable: bool = False

    def round_rows(self, total: int) -> Ids:
        """Return the chosen rounds of so many, int64."""
        return chosen(self.rounds, total, "rounds")

    def antenna_rows(self, total: int) -> Ids:
        """Return the chosen antennas of so many, int64."""
        return chosen(self.antennas, total, "antennas")

    def device_rows(self, total: int, power: Callable[[], Array] | None = None) -> Ids:
        """Return the chosen devices of so many, int64.

        Args:
            total: Number of devices of the source.
            power: Returns |h|^2 of the chosen rounds and all devices, [rounds, devices], for `reachable`.
        """
        if not self.reachable:
            return chosen(self.devices, total, "devices", spread=True)
        if power is None:
            raise RecordingError("--reachable has no effect on this kind of source, where every device has a channel")
        reached = np.flatnonzero((power() > 0).all(axis=0))
        if not len(reached):
            raise RecordingError(f"none of the {total:,} devices has a path in every chosen round")
        return np.asarray(reached[chosen(self.devices, len(reached), "devices with a path", spread=True)])


def chosen(text: str, total: int, what: str, *, spread: bool = False) -> Ids:
    """Return the indices that a choice selects out of `total`, int64.

    Args:
        text: The choice, see `Choice`.
        total: How many there are.
        what: What is chosen, for messages.
        spread: Whether a number selects evenly spread ones instead of the first.

    Raises RecordingError for anything else, and for a choice beyond what there is.
    """
    text = text.strip()
    if text == "all":
        return np.arange(total)
    try:
        if ":" in text:
            parts = [int(one) if one.strip() else None for one in text.split(":")]
            if len(parts) > 3 or any(one is not None and one < 0 for one in parts) or parts[2:] == [0]:
                raise ValueError
            if parts[1] is not None and parts[1] > total:
                raise RecordingError(f"{what} {text}: the source has {total:,} {what}")
            rows = np.arange(total)[slice(*parts)]
        elif "," in text:
            rows = np.array([int(one) for one in text.split(",") if one.strip()], dtype=np.int64)
        else:
            count = int(text)
            if count < 1:
                raise ValueError
            if count > total:
                raise RecordingError(f"{what} {text}: the source has {total:,} {what}")
            rows = np.arange(count) * total // count if spread else np.arange(count)
    except (ValueError, OverflowError):
        raise RecordingError(
            f"{what} must be all, a number, a range such as 0:100 or a list such as 3,5,9, got {text[:40]!r}"
        ) from None
    if not len(rows) or rows.min() < 0 or rows.max() >= total:
        raise RecordingError(f"{what} {text[:40]}: the source has {what} 0 to {total - 1:,}")
    return rows.astype(np.int64)


def check_positive(**values: float | None) -> None:
    """Raise RecordingError for a given option that is not a positive finite number."""
    for name, value in values.items():
        if value is not None and not 0 < value < math.inf:
            raise RecordingError(f"{name} must be positive, got {value:g}")


def check_room(shape: Sequence[int], itemsize: int = 16) -> None:
    """Raise RecordingError if an array of this shape is more than is imported at once."""
    needed = math.prod(map(int, shape)) * itemsize
    if needed > MOST_BYTES:
        raise RecordingError(
            f"{needed / 1e9:,.1f} GB would be held in memory, at most {MOST_BYTES / 1e9:,.1f}; choose fewer with "
            "--devices, --rounds or --antennas"
        )


def scaled(imported: Imported, reference_db: float = 0.0, *, normalise: bool = False) -> Imported:
    """Return the channel with its gains divided by those of a reference.

    Args:
        imported: The channel.
        reference_db: Power gain in dB that becomes |h|^2 = 1; 0 leaves gains as they are.
        normalise: Whether to divide by the mean power of all rounds and devices that have a path, instead.

    Raises RecordingError if nothing has a path, or if both are given.
    """
    if normalise and reference_db:
        raise RecordingError("--reference-db and --normalise exclude each other; give one")
    if not math.isfinite(reference_db) or abs(reference_db) > 400:
        raise RecordingError(f"--reference-db must be from -400 to 400 dB, got {reference_db:g}")
    if normalise:
        power = imported.power()
        reached = power[power > 0]
        if not len(reached) or not np.isfinite(reached).all():
            raise RecordingError("the mean power is 0 or not finite, and cannot be normalised")
        reference_db = 10 * math.log10(float(reached.mean()))
    elif not reference_db:
        return imported
    factor = 10 ** (-reference_db / 20)
    note = f"gains are relative to {reference_db:.2f} dB"
    gains: Any = (imported.gains * factor).astype(imported.gains.dtype)
    return replace(imported, gains=gains, physical=False, reference_db=reference_db, notes=(*imported.notes, note))
