"""Statistics of a recorded channel: gains, spread over delay and over Doppler, coherence bandwidth and K factor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.recorded.estimators import (
    Correlation,
    even,
    falls_to_half,
    from_curvature,
    k_factor_by_moments,
    normalised,
    spacing,
    spread,
)
from channels.recorded.layout import BASE_POSITION, CARRIER, DOPPLER, POSITIONS, Layout, layout_of
from channels.recorded.opening import opened, regular_file
from channels.recorded.recording import Recording, Rounds, Rows
from channels.recorded.source import RecordingError, Source
from channels.recorded.surveying import survey

PART_BYTES = 1 << 26
"""About how much of a round is looked at together."""
PATH_LAGS_HZ = np.geomspace(1e3, 1e9, 192)
DELAY_BINS, DOPPLER_BINS = 120, 101
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, eq=False)
class ChannelStatistics:
    """What a recorded channel looks like. A link is a device in a round; nan stands for what the file does not tell.

    Attributes:
        layout: Rounds, devices, antennas, blocks, subcarriers and paths.
        power: |h|^2 of every link, mean over antennas and elements, for paths their sum, [rounds, devices].
        carrier_hz: Carrier frequency in Hz.
        delay_spread_s: Root mean square delay spread of each device, [devices].
        coherence_bandwidth_hz: Distance at which the frequency correlation of each device falls to 0.5, [devices];
            infinite if it does not within half of the band, or within 1 GHz for paths.
        doppler_spread_hz: Root mean square Doppler spread of each device, [devices].
        largest_doppler_hz: Largest Doppler shift of a path.
        k_factor: Rician K factor by moments, linear.
        k_samples: Values of |h|^2 of each device that the K factor is taken from.
        strongest_path: Power of the strongest path over that of the others of each link with several, [links].
        profile: Delays in s and mean normalised power, [2, bins]; None if unknown.
        doppler: Doppler shifts in Hz and mean normalised power, [2, bins]; None if unknown.
        positions_m: Positions of the devices, [rounds, devices, 3]; None if not recorded.
        base_m: Position of the base station, [3]; None if not recorded.
    """

    layout: Layout
    power: Array
    carrier_hz: float
    delay_spread_s: Array
    coherence_bandwidth_hz: Array
    doppler_spread_hz: Array
    largest_doppler_hz: float
    k_factor: float
    k_samples: int
    strongest_path: Array
    profile: Array | None
    doppler: Array | None
    positions_m: Array | None
    base_m: Array | None

    @property
    def gains_db(self) -> Array:
        """|h|^2 in dB of the links that have a path, [links]."""
        return 10 * np.log10(self.power[self.power > 0])

    @property
    def silent_share(self) -> float:
        """Share of links without a path."""
        return float(np.mean(self.power == 0))

    def figures(self) -> dict[str, Any]:
        """Return the statistics as numbers by name with units; None for what is not known."""
        layout, frequencies = self.layout, self.layout.frequencies_hz
        reached = self.power[self.power > 0]
        values: dict[str, Any] = {
            "rounds": layout.rounds,
            "devices": layout.devices,
            "antennas": layout.antennas,
            "blocks": layout.blocks,
            "subcarriers": layout.subcarriers,
            "paths": layout.paths,
            "carrier_hz": self.carrier_hz,
            "band_hz": math.nan if frequencies is None else float(frequencies[-1] - frequencies[0]),
            "spacing_hz": spacing(frequencies),
            "duration_s": math.nan if layout.block_times_s is None else float(np.ptp(layout.block_times_s)),
            "silent_share": self.silent_share,
            "mean_gain_db": 10 * math.log10(float(reached.mean())) if len(reached) else math.nan,
        }
        for name, quantile in (("lowest", 0.0), ("p05", 0.05), ("median", 0.5), ("p95", 0.95), ("highest", 1.0)):
            values[f"gain_{name}_db"] = float(np.quantile(self.gains_db, quantile)) if len(reached) else math.nan
        for name, each in (
            ("delay_spread_s", self.delay_spread_s),
            ("coherence_bandwidth_hz", self.coherence_bandwidth_hz),
            ("doppler_spread_hz", self.doppler_spread_hz),
        ):
            known = each[~np.isnan(each)]
            for label, quantile in zip(("p05", "median", "p95"), QUANTILES, strict=True):
                # Without interpolation, as a bandwidth may be infinite.
                found = float(np.quantile(known, quantile, method="nearest")) if len(known) else math.nan
                stem, _, unit = name.rpartition("_")
                values[f"{stem}_{label}_{unit}"] = found
        values["largest_doppler_hz"] = self.largest_doppler_hz
        values["k_factor"] = self.k_factor
        values["k_factor_db"] = 10 * math.log10(self.k_factor) if self.k_factor > 0 else math.nan
        values["k_samples"] = self.k_samples
        strongest = self.strongest_path
        values["strongest_path_db"] = 10 * math.log10(float(np.median(strongest))) if len(strongest) else math.nan
        return {
            name: None if isinstance(one, float) and not math.isfinite(one) else one for name, one in values.items()
        }


@dataclass
class _Sums:
    """What is summed over rounds."""

    layout: Layout
    power: Array = field(init=False)
    frequency: Correlation | None = None
    time: Correlation | None = None
    path_rho: NDArray[np.complex128] | None = None
    delay: Array | None = None
    shift: Array | None = None
    fades: Array = field(init=False)
    strongest: list[Array] = field(default_factory=list)
    profile: Array | None = None
    spectrum: Array | None = None

    def __post_init__(self) -> None:
        layout, devices = self.layout, self.layout.devices
        self.power = np.zeros((layout.rounds, devices))
        self.fades = np.zeros((3, devices))
        if layout.paths:
            self.path_rho = np.zeros((devices, len(PATH_LAGS_HZ)), dtype=np.complex128)
            self.delay = np.zeros((3, devices))
            self.profile = np.zeros(DELAY_BINS)
            if DOPPLER in layout.beside:
                self.shift = np.zeros((3, devices))
                self.spectrum = np.zeros(DOPPLER_BINS)
        if layout.subcarriers > 1 and even(layout.frequencies_hz):
            self.frequency = Correlation.over(layout.subcarriers, devices)
            self.profile = np.zeros(layout.subcarriers)
        if layout.blocks > 1 and even(layout.block_times_s):
            self.time = Correlation.over(layout.blocks, devices)
            self.spectrum = np.zeros(layout.blocks)


def read_statistics(path: Path, variable: str | None = None) -> ChannelStatistics:
    """Look at every value of a recorded channel.

    The delay spread of a device is that of its power-delay profile, averaged over rounds, antennas and blocks. For
    paths, whose delays count from the first path of each round, it is sqrt(E tau^2 - (E tau)^2) with the powers as
    weights. For responses it follows from the frequency correlation, |rho(d)|^2 = 1 - (2 pi d sigma)^2 for small d, at
    the smallest d where 1 - |rho|^2 reaches `DROP`, or the largest. Their delays are as recorded, so that a timing that
    drifts from round to round counts as spread, and so does the noise of a measurement. The Doppler spread follows in
    the same way from the Doppler shifts of paths, or from the correlation between blocks. The K factor is estimated
    from the moments of |h|^2 (Greenstein, Michelson, Erceg 1999): with gamma = Var |h|^2 / (E |h|^2)^2, the mean over
    devices, K = sqrt(1 - gamma) / (1 - sqrt(1 - gamma)), and 0 if gamma is 1 or more.

    Args:
        path: The file: HDF5, .mat, .npy or .npz.
        variable: Name of its array of gains; None if it has one candidate.

    Raises RecordingError in one line, for everything that a replay refuses too.
    """
    with opened(regular_file(path)) as source:
        layout = layout_of(source, variable)
        recording = Recording(source, layout, layout.antennas)
        everything = np.arange(layout.rounds), np.arange(layout.devices)
        recording.check_room(*everything)
        found = survey(recording, *everything)
        sums = _Sums(layout)
        values = found.held or recording
        limits = (max(found.longest_delay_s, 1e-12), _largest_doppler(values, layout))
        for row, part, rows in _parts(values, layout):
            _add(sums, row, part, rows, limits)
        positions, base, carrier_hz = _beside(source, layout)
    return _result(sums, limits, positions, base, carrier_hz)


def _parts(values: Rounds, layout: Layout) -> Iterator[tuple[int, slice, Rows]]:
    """Yield every round in parts of some devices that fit in memory: the round, the devices and their values."""
    each = layout.antennas * layout.blocks * (layout.paths or layout.subcarriers) * 16
    step = max(PART_BYTES // each, 1)
    for row in range(layout.rounds):
        for begin in range(0, layout.devices, step):
            part = slice(begin, min(begin + step, layout.devices))
            yield row, part, values.read(row, np.arange(part.start, part.stop))


def _largest_doppler(values: Rounds, layout: Layout) -> float:
    """Return the largest Doppler shift of a path in Hz; nan if none is recorded."""
    if not layout.paths or DOPPLER not in layout.beside:
        return math.nan
    largest = 0.0
    for _, _, rows in _parts(values, layout):
        assert rows.doppler_hz is not None
        there = (rows.gains != 0).any(axis=(1, 2))
        largest = max(largest, float(np.max(np.abs(rows.doppler_hz), where=there, initial=0.0)))
    return largest


def _add(sums: _Sums, row: int, part: slice, rows: Rows, limits: tuple[float, float]) -> None:
    """Add some devices of a round."""
    layout = sums.layout
    gains = np.asarray(rows.gains, dtype=np.complex128)  # [devices, antennas, blocks, subcarriers or paths]
    squares = np.abs(gains) ** 2
    fades = squares
    if layout.paths:
        fades = np.abs(gains.sum(axis=-1)) ** 2
        _add_paths(sums, part, rows, squares.mean(axis=(1, 2)), limits)
    sums.power[row, part] = (squares.sum(axis=-1) if layout.paths else squares.mean(axis=-1)).mean(axis=(1, 2))
    there = sums.power[row, part] > 0
    flat = fades.reshape(len(gains), -1)
    sums.fades[:, part] += np.where(
        there, [np.full(len(flat), flat.shape[1]), flat.sum(axis=1), (flat**2).sum(axis=1)], 0
    )
    scale = np.where(there, sums.power[row, part], 1.0)[:, None, None, None]
    if sums.frequency is not None:
        sums.frequency.add(part, gains)
        assert sums.profile is not None
        window = np.hanning(layout.subcarriers + 2)[1:-1]
        taps = np.abs(np.fft.ifft(gains * window, axis=-1)) ** 2 / scale
        sums.profile += taps.sum(axis=(0, 1, 2))
    if sums.time is not None:
        moved = np.moveaxis(gains, 2, 3)
        sums.time.add(part, moved)
        assert sums.spectrum is not None
        window = np.hanning(layout.blocks + 2)[1:-1]
        lines = np.abs(np.fft.fft(moved * window, axis=-1)) ** 2 / scale
        sums.spectrum += np.fft.fftshift(lines.sum(axis=(0, 1, 2)))


def _add_paths(sums: _Sums, part: slice, rows: Rows, power: Array, limits: tuple[float, float]) -> None:
    """Add the paths of some devices in a round. power: mean over antennas, [devices, paths]."""
    from channels.selective.recorded_paths import relative_delays

    assert sums.delay is not None
    assert sums.path_rho is not None
    assert sums.profile is not None
    delays, total = relative_delays(rows), power.sum(axis=-1)
    sums.delay[:, part] += [total, (power * delays).sum(axis=-1), (power * delays**2).sum(axis=-1)]
    for place, lag in enumerate(PATH_LAGS_HZ.tolist()):
        sums.path_rho[part, place] += (power * np.exp(-2j * np.pi * lag * delays)).sum(axis=-1)
    share = np.divide(power, total[:, None], out=np.zeros_like(power), where=total[:, None] > 0)
    sums.profile += np.histogram(delays, DELAY_BINS, (0, limits[0]), weights=share)[0]
    several = (power > 0).sum(axis=-1) > 1
    strongest = power[several].max(axis=-1)
    sums.strongest.append(strongest / (total[several] - strongest))
    if sums.shift is not None:
        assert rows.doppler_hz is not None
        assert sums.spectrum is not None
        shifts = np.where(power > 0, rows.doppler_hz, 0.0)
        sums.shift[:, part] += [total, (power * shifts).sum(axis=-1), (power * shifts**2).sum(axis=-1)]
        edge = max(limits[1], 1e-9) * (1 + 1e-9)
        sums.spectrum += np.histogram(shifts, DOPPLER_BINS, (-edge, edge), weights=share)[0]


def _result(
    sums: _Sums, limits: tuple[float, float], positions: Array | None, base: Array | None, carrier_hz: float
) -> ChannelStatistics:
    layout = sums.layout
    unknown = np.full(layout.devices, math.nan)
    delay_spread, bandwidth, doppler_spread = unknown, unknown, unknown
    profile = doppler = None
    if sums.delay is not None:
        assert sums.path_rho is not None
        delay_spread = spread(sums.delay)
        reached = sums.delay[0] > 0
        rho = np.divide(
            np.abs(sums.path_rho),
            sums.delay[0][:, None],
            out=np.full(sums.path_rho.shape, np.nan),
            where=reached[:, None],
        )
        bandwidth = falls_to_half(PATH_LAGS_HZ, rho)
        profile = np.stack([(np.arange(DELAY_BINS) + 0.5) * limits[0] / DELAY_BINS, normalised(sums.profile)])
    if sums.shift is not None:
        doppler_spread = spread(sums.shift)
        edge = max(limits[1], 1e-9)
        doppler = np.stack([np.linspace(-edge, edge, DOPPLER_BINS), normalised(sums.spectrum)])
    if sums.frequency is not None:
        step = spacing(layout.frequencies_hz)
        rho = sums.frequency.modulus()
        delay_spread = from_curvature(sums.frequency.lags * step, rho)
        bandwidth = falls_to_half(sums.frequency.lags * step, rho)
        delays = np.arange(layout.subcarriers) / (layout.subcarriers * step)
        profile = np.stack([delays, normalised(sums.profile)])
    if sums.time is not None:
        step = spacing(layout.block_times_s)
        doppler_spread = from_curvature(sums.time.lags * step, sums.time.modulus())
        shifts = np.fft.fftshift(np.fft.fftfreq(layout.blocks, step))
        doppler = np.stack([shifts, normalised(sums.spectrum)])
    k_factor, samples = k_factor_by_moments(sums.fades)
    return ChannelStatistics(
        layout=layout,
        power=sums.power,
        carrier_hz=carrier_hz,
        delay_spread_s=delay_spread,
        coherence_bandwidth_hz=bandwidth,
        doppler_spread_hz=doppler_spread,
        largest_doppler_hz=limits[1],
        k_factor=k_factor,
        k_samples=samples,
        strongest_path=np.concatenate(sums.strongest) if sums.strongest else np.empty(0),
        profile=profile,
        doppler=doppler,
        positions_m=positions,
        base_m=base,
    )


def _beside(source: Source, layout: Layout) -> tuple[Array | None, Array | None, float]:
    """Return positions of devices and base station in m, and the carrier in Hz; None or nan if not recorded."""
    positions = base = None
    if POSITIONS in layout.beside:
        shape = source.shapes[layout.sibling(POSITIONS)]
        if shape not in ((layout.rounds, layout.devices, 3), (layout.devices, 3)):
            raise RecordingError(f"{POSITIONS!r} must be {(layout.rounds, layout.devices, 3)}, got {shape}")
        positions = np.broadcast_to(source.small(layout.sibling(POSITIONS)), (layout.rounds, layout.devices, 3))
    if BASE_POSITION in layout.beside:
        found = np.ravel(source.small(layout.sibling(BASE_POSITION)))
        base = found if len(found) == 3 else None
    return positions, base, source.attribute(CARRIER)


__all__ = ["ChannelStatistics", "RecordingError", "read_statistics"]
