"""Channel-based device selection: benefit and privacy cost of a threshold."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airfl.core.accounting import noise_multiplier
from airfl.privacy.events import Gaussian
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import Statement
from airfl.selection import SELECTIONS
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import WIDE, opened, scenario_of

DEVICES, ROUNDS, DELTA = 1000, 200, 1e-3
EXPONENTIAL = ("channel.fading=exponential", "channel.mean_gain=1.0", *WIDE)
RULES = {
    "uniform": ("selection.kind=uniform",),
    "threshold, |h| ≥ 1": ("selection.kind=threshold", "selection.min_gain=1.0"),
    "best-k": ("selection.kind=best-k",),
}


def selection(figure: Figure) -> list[str]:
    """Left r beta against r at 0 dB; right one round's epsilon against its error, r = 32. Median of 200 rounds of 1,000
    devices of exponential |h|."""
    left, right = panels(figure)
    return [*_amplitude(left), *_price(right)]


def _amplitude(axis: Axes) -> list[str]:
    counts, smooth = [2, 4, 8, 16, 32, 64, 128], np.arange(2, 129)
    harmonic = np.cumsum(1 / np.arange(1, DEVICES + 1))
    laws = {
        "uniform": np.full(len(smooth), np.log(2)),  # the minimum of r exponentials has median log(2)/r
        "threshold, |h| ≥ 1": smooth + np.log(2),  # exponentials are memoryless beyond the threshold
        "best-k": smooth * (harmonic[-1] - harmonic[smooth - 2]),  # mean of the r-th largest of N
    }
    numbers, energies = [], []
    for number, (name, overrides) in enumerate(RULES.items()):
        measured, spent = [], []
        for count in counts:
            unit = (*EXPONENTIAL, *overrides, "power.max_snr_db=0.0")
            links = opened(scenario_of(unit, entries=1, devices=DEVICES, selected=count), ROUNDS)
            reports = [one.link.link_budget() for one in links]
            measured.append(count * np.median([one.alignment_coefficient for one in reports]))
            spent.append(np.mean([one.devices.energy.mean() for one in reports]))
        axis.plot(smooth, laws[name], **line(number))
        axis.plot(counts, measured, label=name, **dots(number))
        numbers.append(quote(f"{name}: r β", measured, {2: "r = 8", 4: "32", 6: "128"}, ".3g"))
        energies.append(quote(f"{name}: energy over the limits", spent, {2: "r = 8", 4: "32", 6: "128"}))
    x, y = "devices r", "receive amplitude of the sum, r β"
    label(axis, x, y, legend="upper left", xscale="log", yscale="log", ylim=(0.3, 3000))
    return [*numbers, *energies]


def _price(axis: Axes) -> list[str]:
    numbers, powers = [], 10 ** (np.arange(-30.0, 51.0) / 10)
    for number, (name, overrides) in enumerate(RULES.items()):
        scenario = scenario_of((*EXPONENTIAL, *overrides, "power.max_snr_db=0.0"), entries=1, devices=DEVICES)
        reports = [one.link.link_budget() for one in opened(scenario, ROUNDS)]
        # At 0 dB. Without a privacy bound, beta grows with the square root of the power limits and energy linearly.
        beta = np.median([one.alignment_coefficient for one in reports])
        multiplier = float(np.median([noise_multiplier(scenario, one) for one in reports]))
        energy = np.mean([one.devices.energy.mean() for one in reports])
        kind = scenario.rule.name
        epsilon = [_epsilon(multiplier / np.sqrt(power), kind) for power in powers]
        axis.plot(1 / (32 * powers * beta**2), epsilon, label=name, **line(number))
        power = 1 / (32 * 0.1 * beta**2)
        numbers.append(
            f"{name}, error 0.1: P/σ0² {10 * np.log10(power):.1f} dB, energy an entry {power * energy:.2g} σ0², "
            f"ε of the round {_epsilon(multiplier / np.sqrt(power), kind):.2g}"
        )
    x, y = ERROR, "ε of one round (δ = 0.001)"
    label(axis, x, y, legend="lower left", xscale="log", yscale="log", xlim=(1e-3, 10), ylim=(1e-2, 300))
    return numbers


def _epsilon(multiplier: float, kind: str) -> float:
    sampling = SELECTIONS[kind].sampling
    ledger = PrivacyLedger(Statement("client", sampling, 32, DEVICES, "third_party", DELTA))
    return ledger.of_one_round(Gaussian(multiplier))
