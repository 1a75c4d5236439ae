"""Synchronisation: symbol timing and carrier frequency offsets."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, Array, errors, scenario_of, sent

SPACING_HZ = 15e3
PREFIX_S = 15 / (14 * SPACING_HZ) - 1 / SPACING_HZ  # mean over the symbols of a slot


def timing(figure: Figure) -> list[str]:
    """Left within the prefix, by bandwidth; right beyond it, on one subcarrier without a ramp. 30 rounds, r = 16."""
    left, right = panels(figure)
    return [*_within_prefix(left), *_beyond_prefix(right)]


def _within_prefix(axis: Axes) -> list[str]:
    numbers, latest, smooth = [], np.geomspace(1e-8, 4e-6, 7), np.geomspace(1e-8, 4e-6, 60)
    for number, subcarriers in enumerate((12, 120, 1200)):
        frequencies = SPACING_HZ * (np.arange(subcarriers, dtype=np.float64) - subcarriers // 2)
        law = [timing_error(offset, frequencies) for offset in smooth]
        measured = [_error(f"csi.timing_offset_s={offset}", subcarriers) for offset in latest]
        name = f"{subcarriers * SPACING_HZ / 1e6:g} MHz"
        axis.plot(smooth * 1e6, law, label=name, **line(number))
        axis.plot(latest * 1e6, measured, **dots(number))
        at = np.exp(np.interp(np.log(0.1), np.log(law), np.log(smooth)))
        numbers.append(f"{name}: error 0.1 at a latest arrival of {1e6 * at:.2g} µs")
    label(axis, "latest arrival (µs)", ERROR, legend="upper left", xscale="log", yscale="log", ylim=(1e-5, 50))
    return numbers


def _beyond_prefix(axis: Axes) -> list[str]:
    late, smooth = np.linspace(0, 20e-6, 11), np.linspace(0, 20e-6, 81)
    measured = [_error(f"csi.timing_offset_s={offset}", 1) for offset in late]
    law = [timing_error(offset, np.zeros(1)) for offset in smooth]
    axis.axvspan(0, PREFIX_S * 1e6, color="0.86", linewidth=0, label="cyclic prefix")
    axis.plot(smooth * 1e6, law, label="loss and leakage, by quadrature", **line(0))
    axis.plot(late * 1e6, measured, label="one subcarrier", **dots(0))
    label(axis, "latest arrival (µs)", ERROR, legend="upper left", ylim=(-0.004, 0.14))
    rounded = np.round(measured, 12)  # within the prefix, errors are due to rounding only
    return [quote(f"prefix {1e6 * PREFIX_S:.2f} µs, no ramp: error", rounded, {2: "4 µs", 5: "10 µs", 10: "20 µs"})]


def timing_error(latest_s: float, frequencies_hz: Array) -> float:
    """Return E[((1 - e) cos(2 pi f t) - 1)^2] + E[2 e - e^2]/2, with t uniform in [0, latest] and e the part of t
    beyond the prefix over the useful symbol."""
    late = latest_s * (np.arange(4000) + 0.5) / 4000
    lost = np.maximum(late - PREFIX_S, 0) * SPACING_HZ
    rotation = np.cos(2 * np.pi * np.outer(frequencies_hz, late))
    return float((((1 - lost) * rotation - 1) ** 2).mean() + (lost * (2 - lost)).mean() / 2)


def frequency(figure: Figure) -> list[str]:
    """Left by the length of the transmission; right the parts of it for one symbol. 30 rounds, r = 16."""
    left, right = panels(figure)
    return [*_by_length(left), *_parts(right)]


def _by_length(axis: Axes) -> list[str]:
    numbers, offsets, smooth = [], np.geomspace(3, 3000, 9), np.geomspace(3, 3000, 80)
    for number, symbols in enumerate((1, 14, 140)):
        law = [sum(frequency_error(offset, symbols)) for offset in smooth]
        measured = [_error(f"csi.frequency_offset_hz={offset}", 4, symbols) for offset in offsets]
        name = f"{symbols} OFDM symbol{'s' * (symbols > 1)}"
        axis.plot(smooth, law, label=name, **line(number))
        axis.plot(offsets, measured, **dots(number))
        at = np.exp(np.interp(np.log(0.01), np.log(law), np.log(smooth)))
        numbers.append(f"{name}: error 0.01 at offsets up to {at:.3g} Hz")
    label(axis, "largest offset (Hz)", ERROR, legend="lower right", xscale="log", yscale="log", ylim=(1e-7, 10))
    return numbers


def _parts(axis: Axes) -> list[str]:
    offsets, smooth = np.geomspace(3, 3000, 9), np.geomspace(3, 3000, 80)
    own, others = np.array([frequency_error(offset, 1) for offset in smooth]).T
    measured, simulated = (
        np.array([_error(f"csi.frequency_offset_hz={offset}", 240, 1, *overrides) for offset in offsets])
        for overrides in ((), ("grid.waveform=true",))
    )
    axis.plot(smooth / SPACING_HZ, own, label="turned and weakened", **line(0))
    axis.plot(smooth / SPACING_HZ, others, label="from other subcarriers (ICI)", **line(1))
    axis.plot(smooth / SPACING_HZ, own + others, label="both", **line(6))
    axis.plot(offsets / SPACING_HZ, measured, label="model per subcarrier", **dots(6))
    axis.plot(offsets / SPACING_HZ, simulated, label="waveform", **{**dots(2), "fillstyle": "none", "markersize": 6})
    label(
        axis,
        "largest offset over the spacing",
        ERROR,
        legend="lower right",
        xscale="log",
        yscale="log",
        ylim=(1e-11, 10),
    )
    ratios = simulated / measured
    return [
        f"one symbol, offsets up to 3 kHz: {own[-1]:.2g} turned and weakened, {others[-1]:.2g} ICI",
        f"one symbol, error of the waveform over the model's: {ratios.min():.2f} to {ratios.max():.2f}",
    ]


def frequency_error(largest_hz: float, symbols: int) -> tuple[float, float]:
    """Return E[(sinc(eps) cos(phi) - 1)^2] and E[(1 - sinc^2) cos^2(phi)], with phi = pi eps + 2 pi df t_b over the
    symbols b."""
    offsets = largest_hz * (2 * (np.arange(4000) + 0.5) / 4000 - 1)
    share = offsets / SPACING_HZ
    starts = np.arange(symbols) * (1 / SPACING_HZ + PREFIX_S)
    rotation = np.cos(np.pi * share + 2 * np.pi * np.outer(starts, offsets))
    weakened = np.sinc(share)
    return float(((weakened * rotation - 1) ** 2).mean()), float(((1 - weakened**2) * rotation**2).mean())


def _error(override: str, subcarriers: int, symbols: int = 0, *overrides: str) -> float:
    """Return the mean error of 30 rounds with 16 devices and no noise. symbols: OFDM symbols, 0 for about 240
    entries."""
    unit = (*FIXED, "channel.noise=false", f"grid.subcarriers={subcarriers}", override, *overrides)
    entries = subcarriers * (symbols or max(240 // subcarriers, 1))
    return float(errors(sent(scenario_of(unit, entries=entries, devices=16, selected=16), 30)).mean())
