"""Fading laws and variation of the channel over rounds."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import j0

from channel_effects.drawing import dots, label, line, panels
from channel_effects.rounds import RAYLEIGH, WIDE, coefficients, opened, scenario_of
from channels.fading import doppler_hz

LAWS = {
    "exponential": ("channel.fading=exponential",),
    "Rayleigh": ("channel.fading=rayleigh",),
    "Rician, K = 5": ("channel.fading=rician", "channel.rician_k=5.0"),
    "Nakagami, m = 3": ("channel.fading=nakagami", "channel.nakagami_m=3.0"),
}
SPEED_M_S, CARRIER_HZ = 1.0, 3.5e9
DOPPLER_HZ = doppler_hz(SPEED_M_S, CARRIER_HZ)


def fading_laws(figure: Figure) -> list[str]:
    """Left the density of |h|, 20,000 devices; right beta against r, median of 500 rounds."""
    left, right = panels(figure)
    numbers, counts = [], [1, 4, 16, 64]
    gains, edges, smooth = np.linspace(0.0, 3.0, 601), np.linspace(0.0, 3.0, 25), np.geomspace(1, 64, 50)
    for number, (name, overrides) in enumerate(LAWS.items()):
        unit = (*overrides, "channel.mean_gain=1.0", *WIDE, "power.max_snr_db=0.0")
        many = scenario_of(unit, devices=20_000, selected=20_000)
        law = many.radio.law
        assert law is not None
        sampled = np.abs(opened(many, 1)[0].channel.gains)
        density = np.histogram(sampled, edges)[0] / len(sampled) / np.diff(edges)
        left.plot(gains, np.gradient(law.cdf(gains), gains), **line(number))
        left.plot((edges[1:] + edges[:-1]) / 2, density, **{**dots(number), "markersize": 2.5})

        betas = [np.median(coefficients(scenario_of(unit, devices=r, selected=r), 500)) for r in counts]
        right.plot(smooth, law.quantile(1 - 0.5 ** (1 / smooth)), label=name, **line(number))
        right.plot(counts, betas, **dots(number))
        exact = law.quantile(np.array(1 - 0.5 ** (1 / 64)))
        numbers.append(f"{name}: median of the weakest |h| of 64 devices {betas[-1]:.3g}, by the law {exact:.3g}")
    label(left, "|h| over its mean", "density", legend=None)
    weakest = "β (the weakest |h| over the mean)"
    label(right, "devices r", weakest, legend="lower left", xscale="log", yscale="log", ylim=(5e-3, 2))
    return numbers


def variation(figure: Figure) -> list[str]:
    """Left the autocorrelation, 2,000 devices (flat) and 1,000 (tapped line); right beta over rounds, r = N = 8."""
    left, right = panels(figure)
    doppler = f"speed {SPEED_M_S:g} m/s at {CARRIER_HZ / 1e9:g} GHz: f_D = {DOPPLER_HZ:.3g} Hz"
    return [doppler, *_autocorrelation(left), *_over_rounds(right)]


def _autocorrelation(axis: Axes) -> list[str]:
    lags, smooth = np.arange(31), np.linspace(0, 3, 300)
    axis.plot(smooth, j0(2 * np.pi * smooth), label="J0(2π f_D τ)", **line(6))
    tapped = ("channel.fading=tapped-line", "channel.mean_gain=1.0", *WIDE)
    kinds: dict[str, tuple[tuple[str, ...], int]] = {"flat Rayleigh": (RAYLEIGH, 2_000), "tapped line": (tapped, 1_000)}
    numbers = []
    for number, (name, (overrides, devices)) in enumerate(kinds.items()):
        unit = (*overrides, *_moving(0.1), "grid.subcarriers=1")
        scenario = scenario_of(unit, entries=1, devices=devices, selected=devices)
        gains = np.array([one.channel.gains for one in opened(scenario, len(lags))])
        measured = (gains * gains[0].conj()).mean(axis=1).real / (np.abs(gains[0]) ** 2).mean()
        shown = lags[: len(measured)] / 10
        axis.plot(shown, measured, label=name, **dots(number))
        worst = np.abs(measured - j0(2 * np.pi * shown)).max()
        numbers.append(f"{name}, {devices:,} devices: at most {worst:.2g} from J0, up to f_D τ = 3")
    label(axis, "f_D τ", "autocorrelation of h", legend="upper right")
    return numbers


def _over_rounds(axis: Axes) -> list[str]:
    numbers = []
    ways = {
        "independent": ("channel.variation=independent",),
        "constant": ("channel.variation=constant",),
        "jakes, f_D T = 0.02": _moving(0.02),
    }
    for number, (name, overrides) in enumerate(ways.items()):
        betas = coefficients(scenario_of((*RAYLEIGH, "power.max_snr_db=0.0", *overrides), devices=8, selected=8), 60)
        axis.plot(betas, label=name, **line(number))
        if name != "constant":
            correlation = np.corrcoef(np.log(betas[:-1]), np.log(betas[1:]))[0, 1]
            numbers.append(f"{name}: correlation of log β from one round to the next {correlation:.2f}")
    label(axis, "round", "β of 8 devices", legend="lower left", yscale="log", ylim=(0.005, 1))
    return numbers


def _moving(product: float) -> tuple[str, ...]:
    """Return overrides for Jakes fading with this product of f_D and the time between rounds."""
    return ("channel.variation=jakes", f"channel.speed_m_s={SPEED_M_S}", f"channel.round_s={product / DOPPLER_HZ}")
