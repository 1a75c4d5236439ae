"""Power policies and the peak power limit."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import erfc, exp1

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, RAYLEIGH, Round, errors, scenario_of, sent

DEVICES = 10
FLOOR = 0.1
SILENT = 1 - np.exp(-FLOOR)
POLICIES = {
    "full inversion (median)": ("power.policy=full-inversion",),
    "truncated at 0.1": ("power.policy=truncated-inversion", "power.average_over=fading", f"power.threshold={FLOOR}"),
    "Cao et al.": ("power.policy=cao",),
    "COTAF, floor 0.1": ("power.policy=cotaf", f"power.threshold={FLOOR}"),
}


def policies(figure: Figure) -> list[str]:
    """Left against SNR, right against the threshold at 0 dB. 400 rounds, 10 devices, Rayleigh."""
    left, right = panels(figure)
    return [*_against_snr(left), *_against_threshold(right)]


def _against_snr(axis: Axes) -> list[str]:
    levels, smooth = np.arange(-10.0, 31.0, 5.0), np.linspace(-10, 30, 80)
    power = 10 ** (smooth / 10)
    rounds = {name: [_rounds(level, *overrides) for level in levels] for name, overrides in POLICIES.items()}
    optimum = [np.mean([law_2(one, at) for one in each]) for at, each in zip(levels, rounds["Cao et al."], strict=True)]
    laws = {
        "law 1": (smooth, 1 / (np.log(2) * power)),  # the median of min |h|^2 is log(2)/K
        "law 3": (smooth, SILENT + exp1(FLOOR) / power / DEVICES),
        "law 2": (levels, np.array(optimum)),
        "closed form": (smooth, SILENT + 1 / (FLOOR * power) / DEVICES),
    }
    numbers = []
    for number, ((name, each), (law, (at, values))) in enumerate(zip(rounds.items(), laws.items(), strict=True)):
        middle = np.median if "median" in name else np.mean
        measured = [middle(errors(one)) for one in each]
        axis.plot(at, values, label=f"{name}, {law}", **line(number))
        axis.plot(levels, measured, **dots(number))
        numbers.append(quote(f"{name}: error", measured, {2: "0 dB", 4: "10 dB", 6: "20 dB"}))
    label(axis, "P/σ0² (dB)", ERROR, legend="lower left", yscale="log", ylim=(1e-5, 30))
    return numbers


def law_2(one: Round, level_db: float) -> float:
    """Return the least error per device for a round's gains, implemented independently of the policy."""
    reaches = np.sort(np.abs(one.plan.channel.gains)) * 10 ** (level_db / 20)
    eta = np.min(((1 + np.cumsum(reaches**2)) / np.cumsum(reaches)) ** 2)
    missing = np.sqrt(np.minimum(reaches**2, eta) / eta) - 1
    return float((missing**2).sum() + 1 / eta) / len(reaches)


def _against_threshold(axis: Axes) -> list[str]:
    numbers, floors, smooth = [], np.geomspace(0.01, 1, 7), np.geomspace(0.01, 1, 80)
    noise = exp1(smooth) / DEVICES
    laws = {
        "selected": ("divided by r, biased", 1 - np.exp(-smooth) + noise),
        "expected": ("divided by the expected senders", np.exp(smooth) - 1 + noise * np.exp(2 * smooth)),
    }
    truncated = ("power.policy=truncated-inversion", "power.average_over=fading")
    for number, (divisor, (name, law)) in enumerate(laws.items()):
        each = [_rounds(0.0, *truncated, f"power.threshold={g}", f"power.divide_by={divisor}") for g in floors]
        axis.plot(smooth, law, label=f"{name}, law 3", **line(number))
        axis.plot(floors, [errors(rounds).mean() for rounds in each], **dots(number))
        best = int(np.argmin(law))
        numbers.append(f"0 dB, {name}: least error {law[best]:.2g} at a threshold of {smooth[best]:.2g}")
    label(axis, "threshold on |h|²/E|h|²", ERROR, legend="upper left", xscale="log", yscale="log", ylim=(0.1, 10))
    return numbers


def peak(figure: Figure) -> list[str]:
    """Error and clipped share against the peak limit; 100 rounds, 10 devices that do not fade, 1,024 entries, 20 dB."""
    left, right = panels(figure)
    levels, smooth = np.arange(-6.0, 37.0, 3.0), np.linspace(-6, 36, 100)
    noise, cut = 1 / (100.0 * DEVICES), 10 ** (smooth / 20)
    tail = erfc(cut / np.sqrt(2)) / 2
    clipped = 2 * ((1 + cut**2) * tail - cut * np.exp(-(cut**2) / 2) / np.sqrt(2 * np.pi))
    laws = {"back-off": noise * np.maximum(1, 1024 / cut**2), "clip": noise + clipped}
    numbers = []
    for number, (kind, law) in enumerate(laws.items()):
        rounds = [_peak(level, kind) for level in levels]
        measured = [errors(one).mean() for one in rounds]
        left.plot(smooth, law, label=kind, **line(number))
        left.plot(levels, measured, **dots(number))
        numbers.append(quote(f"{kind}: error", measured, {2: "0 dB", 5: "9 dB", 12: "30 dB"}))
    shares = np.array([np.mean([one.report.clipped_share for one in each]) for each in rounds])
    right.plot(smooth, 2 * tail, label="Gaussian tail", **line(1))
    right.plot(levels[shares > 0], shares[shares > 0], label="clip", **dots(1))
    limit = "peak over mean energy of an entry (dB)"
    label(left, limit, ERROR, legend="upper right", yscale="log", ylim=(5e-4, 10))
    label(right, limit, "share of entries clipped", yscale="log", ylim=(1e-6, 1), xlim=(-6.5, 15))
    return [*numbers, quote("clip: % of the entries clipped", 100 * shares, {2: "0 dB", 5: "9 dB"})]


def _rounds(level_db: float, *overrides: str) -> list[Round]:
    unit = (*RAYLEIGH, f"power.max_snr_db={level_db}", *overrides)
    return sent(scenario_of(unit, devices=DEVICES, selected=DEVICES), 400)


def _peak(level_db: float, kind: str) -> list[Round]:
    unit = (*FIXED, "power.max_snr_db=20.0", f"power.peak_db={level_db}", f"power.peak={kind}")
    return sent(scenario_of(unit, entries=1024, devices=DEVICES, selected=DEVICES), 100)
