"""Imperfect CSI: channel estimation, ageing, quantised feedback and residual phase."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import j0

from airfl.uplinks import LinkReport
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, RAYLEIGH, WIDE, Round, errors, noise_error, opened, scenario_of, sent
from channels.fading import doppler_hz

ABOVE = ("selection.kind=threshold", "selection.min_gain=0.3")
"""Restrict to |hhat| >= 0.3, since E[1/|hhat|^2] and hence the mean error are infinite in Rayleigh fading."""


def law_5(rounds: Sequence[Round], slope: float, error_variance: float) -> float:
    """Return (1 - slope)^2 + mean of s_e^2/(2 |hhat_i|^2) + noise for the estimates of these rounds."""
    return float(np.mean([(1 - slope) ** 2 + error_variance / 2 * _inverse(one) + noise_error(one) for one in rounds]))


def _inverse(one: Round) -> float:
    return float((1 / np.abs(one.plan.estimate.gains) ** 2).mean())


def estimation(figure: Figure) -> list[str]:
    """Left the error against a pilot's SNR, 200 rounds, r = 16 above |hhat| = 0.3; right what L pilots take, 20 rounds,
    r = 16, 4,096 entries."""
    left, right = panels(figure)
    return [*_against_pilot_snr(left), *_pilots(right)]


def _against_pilot_snr(axis: Axes) -> list[str]:
    numbers, levels = [], np.arange(-10.0, 41.0, 5.0)
    fading = (*RAYLEIGH, *ABOVE, "power.max_snr_db=20.0")
    for number, name in enumerate(("ls", "mmse")):
        measured, law = [], []
        for level in levels:
            unit = (*fading, f"csi.estimation={name}", f"csi.pilot_snr_db={level}")
            rounds = sent(scenario_of(unit, devices=100, selected=16), 200)
            noise = 2 * 10 ** (-level / 10)  # N_0 = 2 sigma_0^2
            measured.append(errors(rounds).mean())
            law.append(law_5(rounds, 1 / (1 + noise) if name == "ls" else 1.0, noise / (1 + noise)))
        axis.plot(levels, law, label=f"{name.upper()}, law 5", **line(number))
        axis.plot(levels, measured, **dots(number))
        worst = 100 * np.max(np.abs(np.array(measured) / law - 1))
        numbers.append(quote(f"{name}: error", measured, {2: "0 dB", 6: "20 dB"}) + f", within {worst:.0f}% of law 5")
    perfect = errors(sent(scenario_of(fading, devices=100, selected=16), 200)).mean()
    axis.axhline(perfect, label="perfect", **line(6))
    label(axis, "pilot SNR (dB)", ERROR, legend="upper right", yscale="log", ylim=(1e-3, 30))
    return [*numbers, f"perfect CSI: error {perfect:.2g}"]


def _pilots(axis: Axes) -> list[str]:
    numbers, pilots = [], np.array([1, 2, 4, 8, 16, 32, 64])
    kinds: dict[str, tuple[str, ...]] = {
        "flat": RAYLEIGH,
        "256 subcarriers": ("channel.fading=tapped-line", "channel.mean_gain=1.0", *WIDE),
    }
    for number, (name, overrides) in enumerate(kinds.items()):
        reports = [_link_budgets((*overrides, "csi.estimation=mmse", f"csi.pilots={count}")) for count in pilots]
        shares = [100 * np.mean([one.pilot_elements / one.use.resource_elements for one in each]) for each in reports]
        # A pilot has the energy of an element, P_i/d: 20 dB over sigma_0^2.
        energy = [
            100 * np.mean([100 * one.pilot_elements / one.devices.energy.sum() for one in each]) for each in reports
        ]
        axis.plot(pilots, shares, label=f"{name}, elements", **line(number, marked=True))
        axis.plot(pilots, energy, label=f"{name}, energy", **line(number + 2, marked=True))
        numbers.append(quote(f"{name}: pilots in % of the elements", shares, {0: "L = 1", 6: "L = 64"}))
        numbers.append(quote(f"{name}: pilots in % of the energy", energy, {0: "L = 1", 6: "L = 64"}))
    x, y = "pilots for each coefficient, L", "share of the pilots (%)"
    label(axis, x, y, legend="lower right", xscale="log", yscale="log", ylim=(0.05, 120))
    return numbers


def _link_budgets(overrides: Sequence[str]) -> list[LinkReport]:
    unit = (*overrides, "grid.subcarriers=256", "power.max_snr_db=20.0")
    return [one.link.link_budget() for one in opened(scenario_of(unit, entries=4096, devices=16, selected=16), 20)]


def ageing(figure: Figure) -> list[str]:
    """The error against delay and Doppler, 200 rounds, r = 16 above |hhat| = 0.3, no noise."""
    left, right = panels(figure)
    numbers, products = [], np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.38, 0.5, 0.7, 1.0])
    rho = j0(2 * np.pi * products)
    fading = (*RAYLEIGH, *ABOVE, "channel.noise=false")
    for number, speed in enumerate((3, 30, 120)):
        doppler = doppler_hz(speed / 3.6, 3.5e9)
        moving = [(f"channel.speed_m_s={speed / 3.6}", f"csi.delay_s={product / doppler}") for product in products]
        rounds = [sent(scenario_of((*fading, *overrides), devices=100, selected=16), 200) for overrides in moving]
        measured = np.array([errors(each).mean() for each in rounds])
        inverse = np.array([np.mean([_inverse(one) for one in each]) for each in rounds])
        law = (1 - rho) ** 2 + (1 - rho**2) / 2 * inverse
        if not number:
            left.plot(products, law, label="law 5, ρ = J0(2π f_D τ)", **line(6))
            worst = 100 * np.max(np.abs(measured / law - 1))
            text = quote("error", measured, {1: "f_D τ = 0.02", 3: "0.1", 6: "0.38"})
            numbers.append(f"{text}, within {worst:.0f}% of law 5")
        left.plot(products, measured, label=f"{speed} km/h", **dots(number))
        right.plot(1e3 * products / doppler, law, **line(number))
        right.plot(1e3 * products / doppler, measured, label=f"{speed} km/h", **dots(number))
        at = float(np.interp(np.log(0.1), np.log(law[:6]), np.log(products[:6])))
        numbers.append(
            f"{speed} km/h at 3.5 GHz (f_D = {doppler:.3g} Hz): error 0.1 after {1e3 * np.exp(at) / doppler:.2g} ms"
        )
    label(left, "f_D × delay", ERROR, legend="lower right", xscale="log", yscale="log")
    label(right, "delay (ms)", ERROR, legend="lower right", xscale="log", yscale="log")
    return numbers


def feedback(figure: Figure) -> list[str]:
    """The error against the bits of the feedback, 100 rounds, r = 16, no noise."""
    left, right = panels(figure)
    numbers, bits, at = [], np.arange(1, 9), {1: "2 bits", 3: "4", 5: "6"}
    half = np.pi / 2.0**bits
    laws = {
        "real": 1.5 + np.sin(2 * half) / (4 * half) - 2 * np.sin(half) / half,
        "iq": 2 - 2 * np.sin(half) / half,
    }
    for number, (packing, law) in enumerate(laws.items()):
        measured = [_quiet(*RAYLEIGH, f"csi.phase_bits={count}", f"grid.packing={packing}") for count in bits]
        left.plot(bits, law, label=f"{packing}, uniform in ±π/2^b", **line(number))
        left.plot(bits, measured, **dots(number))
        numbers.append(quote(f"phase, {packing}: error", measured, at))
    half = 50 / 2.0**bits / 2 * np.log(10) / 20
    law = np.sinh(2 * half) / (2 * half) - 2 * np.sinh(half) / half + 1
    measured = [_quiet(*RAYLEIGH, f"csi.gain_bits={count}") for count in bits]
    right.plot(bits, law, label="uniform in a cell of 50/2^b dB", **line(2))
    right.plot(bits, measured, **dots(2))
    label(left, "bits of phase", ERROR, yscale="log", legend="lower left")
    label(right, "bits of gain", ERROR, yscale="log", legend="lower left")
    return [*numbers, quote("gain: error", measured, at)]


def phase(figure: Figure) -> list[str]:
    """The error against the residual phase, 100 rounds of 16 devices, no noise."""
    (axis,) = panels(figure, 1)
    numbers, spreads = [], np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5])
    smooth = np.geomspace(0.05, 1.5, 100)
    laws = {
        "real": 1.5 + 0.5 * np.exp(-2 * smooth**2) - 2 * np.exp(-(smooth**2) / 2),
        "iq": 2 * (1 - np.exp(-(smooth**2) / 2)),
    }
    for number, (packing, law) in enumerate(laws.items()):
        measured = [_quiet(*FIXED, f"csi.phase_std_rad={spread}", f"grid.packing={packing}") for spread in spreads]
        axis.plot(np.degrees(smooth), law, label=f"{packing} packing, law 4", **line(number))
        axis.plot(np.degrees(spreads), measured, **dots(number))
        numbers.append(quote(f"{packing}: error", measured, {1: "0.1 rad, 6°", 2: "0.2 rad, 11°", 4: "0.5 rad, 29°"}))
    label(axis, "residual phase, standard deviation (degrees)", ERROR, legend="upper left", xscale="log", yscale="log")
    axis.minorticks_off()
    axis.set_xticks([3, 5, 10, 20, 50, 90], ["3", "5", "10", "20", "50", "90"])
    return numbers


def _quiet(*overrides: str) -> float:
    """Return the mean error of 100 rounds with 16 devices and no noise."""
    scenario = scenario_of((*overrides, "channel.noise=false"), devices=16, selected=16)
    return float(errors(sent(scenario, 100)).mean())
