"""Oscillators: phase noise of devices that run free or are locked, by element and in time."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, Array, errors, scenario_of, sent
from channels.hardware import PHASE_SPECTRA, LockedOscillator, LockedSymbol, SymbolPhaseNoise

SUBCARRIERS, SPACING_HZ = 256, 15e3
SYMBOL_S = 15 / (14 * SPACING_HZ)
CARRIER_HZ, WIDE_HZ, NARROW = 30e9, 120e3, 64


def oscillator(figure: Figure) -> list[str]:
    """Left: free-running, by the length of the transmission; middle: one symbol, its parts; right: locked, sets of 3GPP
    at a carrier of 30 GHz and a spacing of 120 kHz. r = 16, real payload, 30 rounds; dots: model per element, open:
    phase noise in time."""
    left, middle, right = panels(figure, 3)
    return [*_by_length(left), *_parts(middle), *_locked(right)]


def phase_noise_error(linewidth_hz: float, symbols: int) -> tuple[float, float]:
    """Return K q - 2 sqrt(K) e^(-s^2/2) + 1 and (1 - K)(1/4 + q/2), q = (1 + e^(-2 s^2))/2, mean over the symbols."""
    symbol = SymbolPhaseNoise(2 * np.pi * linewidth_hz / SPACING_HZ)
    spread = 2 * np.pi * linewidth_hz * np.arange(symbols) * SYMBOL_S + symbol.common_variance
    return _error_parts(symbol, spread)


def locked_error(name: str, symbols: int) -> float:
    """Return the error with a set of 3GPP, of 64 subcarriers."""
    locked = LockedOscillator(PHASE_SPECTRA[name], CARRIER_HZ, NARROW * WIDE_HZ)
    spread = locked.over_symbols(1 / WIDE_HZ, 15 / (14 * WIDE_HZ), symbols).variances
    return sum(_error_parts(locked.over_symbol(1 / WIDE_HZ), spread))


def _error_parts(symbol: SymbolPhaseNoise | LockedSymbol, spread: Array) -> tuple[float, float]:
    """The parts by variances of the common phase, [symbols]: with a share i in phase, the second is
    (1 - K)((1 - i)/2 + i q)."""
    real = -np.expm1(-2 * spread) / 2  # 1 - q, and likewise 1 - e^(-s^2/2), without cancellation
    turned = symbol.kept * (1 - real) + 1 - 2 * np.sqrt(symbol.kept) * (1 + np.expm1(-spread / 2))
    return float(turned.mean()), float(
        ((1 - symbol.kept) * ((1 + symbol.in_phase) / 2 - symbol.in_phase * real)).mean()
    )


def _by_length(axis: Axes) -> list[str]:
    numbers, widths, smooth = [], np.geomspace(0.01, 1000, 6), np.geomspace(0.01, 1000, 60)
    for number, symbols in enumerate((1, 14, 140)):
        law = [sum(phase_noise_error(width, symbols)) for width in smooth]
        measured = [_phase_noise_error(width, 12, symbols) for width in widths]
        name = f"{symbols} OFDM symbol{'s' * (symbols > 1)}"
        axis.plot(smooth, law, label=name, **line(number))
        axis.plot(widths, measured, **dots(number))
        at = np.exp(np.interp(np.log(0.01), np.log(law), np.log(smooth)))
        numbers.append(f"{name}: error 0.01 at a linewidth of {at:.2g} Hz")
    label(axis, "linewidth (Hz)", ERROR, legend="lower right", xscale="log", yscale="log", ylim=(1e-9, 10))
    return numbers


def _parts(axis: Axes) -> list[str]:
    widths, smooth = np.geomspace(1, 2000, 6), np.geomspace(1, 2000, 60)
    turned, scattered = np.array([phase_noise_error(width, 1) for width in smooth]).T
    measured = np.array([_phase_noise_error(width, SUBCARRIERS, 1) for width in widths])
    in_time = np.array([_wiener_error(width) for width in widths])
    axis.plot(smooth, turned, label="turned and weakened", **line(0))
    axis.plot(smooth, scattered, label="ICI", **line(1))
    axis.plot(smooth, turned + scattered, label="both", **line(6))
    axis.plot(widths, measured, **dots(6))
    axis.plot(widths, in_time, **{**dots(2), "fillstyle": "none", "markersize": 7})
    label(axis, "linewidth (Hz)", ERROR, legend="lower right", xscale="log", yscale="log", ylim=(1e-10, 10))
    ratios = in_time / measured
    return [
        f"one symbol, 2 kHz: {turned[-1]:.2g} turned and weakened, {scattered[-1]:.2g} ICI",
        f"one symbol, error in time over the model's: {ratios.min():.2f} to {ratios.max():.2f}",
    ]


def _phase_noise_error(linewidth_hz: float, subcarriers: int, symbols: int) -> float:
    """Return the mean error of 30 rounds with 16 devices and no noise."""
    unit = (*FIXED, "channel.noise=false", f"grid.subcarriers={subcarriers}", f"csi.linewidth_hz={linewidth_hz}")
    return float(errors(sent(scenario_of(unit, entries=subcarriers * symbols, devices=16, selected=16), 30)).mean())


def _wiener_error(linewidth_hz: float) -> float:
    """Return the error of 480 real symbols, each with the phase noise of its own device on its samples."""
    rng = np.random.default_rng(4)
    entries = rng.standard_normal((480, SUBCARRIERS)) + 0j
    steps = rng.standard_normal((480, SUBCARRIERS)) * np.sqrt(2 * np.pi * linewidth_hz / SPACING_HZ / SUBCARRIERS)
    phases = np.cumsum(steps, axis=1) - steps / 2  # at the middle of a sample, but for a quarter of a step's variance
    received = np.fft.fft(np.fft.ifft(entries, axis=1) * np.exp(1j * phases), axis=1)
    return float(((received.real - entries.real) ** 2).mean())


def _locked(axis: Axes) -> list[str]:
    numbers, lengths, smooth = (
        [],
        np.array([1, 4, 14, 42, 140]),
        np.unique(np.geomspace(1, 140, 30).round().astype(int)),
    )
    for number, name in enumerate(("r1-163984-a", "r1-163984-b", "tr38803-30ghz")):
        measured = [_locked_error(name, int(symbols)) for symbols in lengths]
        axis.plot(smooth, [locked_error(name, int(symbols)) for symbols in smooth], label=name, **line(number))
        axis.plot(lengths, measured, **dots(number))
        in_time = _spectrum_error(name)
        axis.plot(lengths[:1], [in_time], **{**dots(number), "fillstyle": "none", "markersize": 7})
        numbers.append(quote(f"{name}: error", measured, {0: "1 symbol", 2: "14", 4: "140"}))
        numbers.append(f"{name}, one symbol: error in time over the line's {in_time / locked_error(name, 1):.2f}")
    label(axis, "OFDM symbols", ERROR, legend="upper left", xscale="log", yscale="log", ylim=(1e-4, 30))
    return [*numbers, *_integrated()]


def _integrated() -> list[str]:
    """Return the phase up to 100 MHz of the sets that are flat near the carrier, and the slow drift of the other."""
    numbers = []
    for name in ("r1-163984-a", "r1-163984-b"):
        base_hz = PHASE_SPECTRA[name].base_hz or CARRIER_HZ
        variance = LockedOscillator(PHASE_SPECTRA[name], base_hz, 200e6).variance(1.0, 100e6)
        numbers.append(
            f"{name}: {np.degrees(np.sqrt(variance)):.2f} degrees rms at {base_hz / 1e9:g} GHz up to 100 MHz"
        )
    slow = np.geomspace(1e-3, 1e3, 20_000)
    drift = 2 * np.trapezoid(slow**2 * PHASE_SPECTRA["tr38803-30ghz"].density(slow, CARRIER_HZ), slow)
    return [*numbers, f"tr38803-30ghz: drifts below 1 kHz as with a carrier offset of {np.sqrt(drift):.0f} Hz rms"]


def _locked_error(name: str, symbols: int) -> float:
    """Return the mean error of 30 rounds with 16 devices and no noise."""
    unit = (*FIXED, "channel.noise=false", f"grid.subcarriers={NARROW}", f"grid.spacing_hz={WIDE_HZ}")
    loop = (f"csi.oscillator={name}", f"channel.carrier_hz={CARRIER_HZ}")
    scenario = scenario_of((*unit, *loop), entries=NARROW * symbols, devices=16, selected=16)
    return float(errors(sent(scenario, 30)).mean())


def _spectrum_error(name: str) -> float:
    """Return the error of 2,000 real symbols of 64 subcarriers, each with tones at random offsets on its samples, a
    hundred in every decade from 0.01 Hz to the edge of the band."""
    rng, spectrum, samples = np.random.default_rng(5), PHASE_SPECTRA[name], NARROW
    most_hz = samples * WIDE_HZ / 2
    edges = np.geomspace(0.01, most_hz, 100 * round(np.log10(most_hz / 0.01)) + 1)
    missed = []
    for _ in range(2000):
        offsets = rng.uniform(edges[:-1], edges[1:])
        spread = np.sqrt(4 * spectrum.density(offsets, CARRIER_HZ) * np.diff(edges))
        phases = rng.uniform(0, 2 * np.pi, len(offsets))
        middles = (np.arange(samples) + 0.5) / (samples * WIDE_HZ)
        wandered = np.cos(2 * np.pi * np.multiply.outer(middles, offsets) + phases) - np.cos(phases)
        entries = rng.standard_normal(samples) + 0j
        received = np.fft.fft(np.fft.ifft(entries) * np.exp(1j * wandered @ spread))
        missed.append((received.real - entries.real) ** 2)
    return float(np.mean(missed))
