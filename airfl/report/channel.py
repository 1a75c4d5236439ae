"""The table and the figures of a recorded channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.report.figures import COLOURS, check_new_figures, write_figure
from airfl.report.terminal import two_columns
from airfl.runtime.numbers import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

    from channels.recorded.statistics import ChannelStatistics

FLOOR_DB = -60.0
"""Lowest relative power that figures show."""
MOST_POINTS = 20_000
SIZE = (5.6, 3.6)


def statistics_table(found: ChannelStatistics) -> Table:
    """Return a table of two columns, quantity and value."""
    layout, values = found.layout, found.figures()
    of_axes = [counted(layout.rounds, "round"), counted(layout.devices, "device"), counted(layout.antennas, "antenna")]
    of_axes += [counted(layout.paths, "path")] if layout.paths else []
    if not (layout.paths or layout.flat):
        of_axes += [counted(layout.blocks, "block"), counted(layout.subcarriers, "subcarrier")]
    beyond = "above 1 GHz" if layout.paths else "above half of the band"
    lines = [
        ("carrier", _told(values["carrier_hz"], "Hz")),
        ("band of the subcarriers, and their spacing", _several((values["band_hz"], values["spacing_hz"]), "Hz")),
        ("time from the first to the last block", _told(values["duration_s"], "s")),
        ("links (a device in a round) without a path", f"{100 * found.silent_share:.2f} %"),
        ("mean gain of links with a path", _decibels(values["mean_gain_db"])),
        ("gain: 5 %, median, 95 %", _each(values, "gain_{}_db", ("p05", "median", "p95"))),
        ("gain: lowest, highest", _each(values, "gain_{}_db", ("lowest", "highest"))),
        ("rms delay spread of devices: 5 %, median, 95 %", _quantiles(values, "delay_spread", "s")),
        (
            "coherence bandwidth (correlation 0.5): 5 %, median, 95 %",
            _quantiles(values, "coherence_bandwidth", "Hz", beyond) if not np.isnan(found.delay_spread_s).all() else "",
        ),
        ("rms Doppler spread of devices: 5 %, median, 95 %", _quantiles(values, "doppler_spread", "Hz")),
        ("largest Doppler shift of a path", _told(values["largest_doppler_hz"], "Hz")),
        ("K factor by moments of |h|²", _k_factor(found)),
        ("strongest path over the others, median", _decibels(values["strongest_path_db"])),
    ]
    return two_columns(f"{layout.name}: {', '.join(of_axes)}", "quantity", [line for line in lines if line[1]])


def _told(value: float | None, unit: str) -> str:
    if value is None or math.isnan(value):
        return ""
    scales = {
        "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")),
        "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    }
    for scale, name in scales[unit]:
        if abs(value) >= scale:
            return f"{value / scale:.4g} {name}"
    return f"{value / (1e-9 if unit == 's' else 1):.4g} {'ns' if unit == 's' else unit}"


def _several(values: tuple[float | None, ...], unit: str) -> str:
    return "" if None in values else ", ".join(_told(one, unit) for one in values)


def _quantiles(values: dict[str, Any], name: str, unit: str, beyond: str = "") -> str:
    found = [values[f"{name}_{label}_{unit.lower()}"] for label in ("p05", "median", "p95")]
    if found == [None] * 3 and not beyond:
        return ""
    return ", ".join(_told(one, unit) if one is not None else beyond for one in found)


def _each(values: dict[str, Any], pattern: str, labels: tuple[str, ...]) -> str:
    return ", ".join(_decibels(values[pattern.format(label)]) for label in labels)


def _decibels(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} dB"


def _k_factor(found: ChannelStatistics) -> str:
    if math.isnan(found.k_factor):
        return f"not estimated: {counted(found.k_samples, 'value')} of a device, at least 32 are needed"
    if math.isinf(found.k_factor):
        return "infinite: |h| is constant"
    in_db = f" ({10 * math.log10(found.k_factor):.1f} dB)" if found.k_factor > 0 else ""
    return f"{found.k_factor:.3g}{in_db}, of {found.k_samples:,} values of a device"


def draw_channel(found: ChannelStatistics, out: Path, tell: Callable[[str], None]) -> list[Path]:
    """Draw the figures for which the file has data, and return their files.

    Args:
        found: The statistics.
        out: The folder.
        tell: Called with one line for each figure that is left out.

    Raises UserError if a file exists.
    """
    files: list[Path] = []
    for name, (draw, missing) in FIGURES.items():
        if reason := missing(found):
            tell(f"{name}: {reason}")
            continue
        targets = [out / f"{name}.png", out / f"{name}.pdf"]
        check_new_figures(out, [one.name for one in targets], "--out")
        files += write_figure(lambda figure, draw=draw: draw(found, figure), targets, SIZE)  # type: ignore[misc]
    return files


def _axes(figure: Figure, x: str, y: str) -> Axes:
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return axes


def _draw_gains(found: ChannelStatistics, figure: Figure) -> None:
    axes = _axes(figure, "gain |h|² in dB", "share of links with less")
    gains = np.sort(found.gains_db)
    axes.plot(gains, (np.arange(len(gains)) + 1) / len(gains), color=COLOURS[0])


def _draw_profile(found: ChannelStatistics, figure: Figure) -> None:
    assert found.profile is not None
    delays, power = found.profile
    axes = _axes(figure, "delay in ns", "mean power over the largest, in dB")
    shown = 10 * np.log10(np.maximum(power, 10 ** (FLOOR_DB / 10)))
    if found.layout.paths:
        axes.bar(1e9 * delays, shown - FLOOR_DB, width=1e9 * (delays[1] - delays[0]), bottom=FLOOR_DB, color=COLOURS[0])
    else:
        axes.plot(1e9 * delays, shown, color=COLOURS[0])
    axes.set_ylim(FLOOR_DB, 3)


def _draw_doppler(found: ChannelStatistics, figure: Figure) -> None:
    assert found.doppler is not None
    shifts, power = found.doppler
    axes = _axes(figure, "Doppler shift in Hz", "mean power over the largest, in dB")
    axes.plot(shifts, 10 * np.log10(np.maximum(power, 10 ** (FLOOR_DB / 10))), color=COLOURS[0], drawstyle="steps-mid")
    axes.set_ylim(FLOOR_DB, 3)


def _draw_map(found: ChannelStatistics, figure: Figure) -> None:
    assert found.positions_m is not None
    places, power = found.positions_m.reshape(-1, 3), found.power.ravel()
    if len(power) > MOST_POINTS:
        kept = np.arange(MOST_POINTS) * len(power) // MOST_POINTS
        places, power = places[kept], power[kept]
    axes = _axes(figure, "x in m", "y in m")
    reached = power > 0
    axes.scatter(places[~reached, 0], places[~reached, 1], s=2, color="0.8")
    points = axes.scatter(places[reached, 0], places[reached, 1], s=4, c=10 * np.log10(power[reached]), cmap="viridis")
    figure.colorbar(points, ax=axes, label="gain |h|² in dB")
    if found.base_m is not None:
        axes.plot(*found.base_m[:2], marker="^", markersize=9, color="black", linestyle="none", label="base station")
        axes.legend(loc="best")
    axes.set_aspect("equal", adjustable="datalim")


FIGURES: dict[str, tuple[Callable[[ChannelStatistics, Figure], None], Callable[[ChannelStatistics], str]]] = {
    "gains": (_draw_gains, lambda found: "" if len(found.gains_db) else "no device has a path"),
    "power-delay-profile": (
        _draw_profile,
        lambda found: "" if found.profile is not None else "the file has no paths, and no even frequency_hz",
    ),
    "gain-map": (
        _draw_map,
        lambda found: (
            "the file has no position_m"
            if found.positions_m is None
            else ""
            if (found.power > 0).any()
            else "no device has a path"
        ),
    ),
    "doppler-spectrum": (
        _draw_doppler,
        lambda found: "" if found.doppler is not None else "the file has no doppler_hz, and no even block_time_s",
    ),
}
"""What draws each figure, and what returns the reason if it cannot be drawn."""
