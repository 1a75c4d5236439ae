"""Frequency-selective fading: channel responses, and the error under different power policies."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, label, line, panels, quote
from channel_effects.rounds import WIDE, Array, errors, scenario_of, sent
from channels import fading
from channels.grid import OfdmaGrid, default_symbol_duration_s
from channels.selective import SelectiveRequest

SPREADS_S = np.array([3e-9, 1e-8, 3e-8, 1e-7, 3e-7, 1e-6])
POLICIES = {
    "one β for all (pfels)": ("power.policy=pfels",),
    "per-subcarrier": ("power.policy=per-subcarrier",),
    "per-subcarrier-truncated, 0.1": ("power.policy=per-subcarrier-truncated", "power.threshold=0.1"),
}


def selective(figure: Figure) -> list[str]:
    """Left |H| of one device over 5 MHz; right the error against the delay spread, median of 60 rounds, r = 8."""
    left, right = panels(figure)
    return [*_responses(left), *_policies(right)]


def _responses(axis: Axes) -> list[str]:
    frame = OfdmaGrid(334, default_symbol_duration_s(15e3)).frame(334, 1)
    numbers = []
    models = (
        fading.TappedLine(taps=16, delay_spread_s=3e-7),
        fading.TdlA(delay_spread_s=3e-7),
        fading.CdlC(delay_spread_s=3e-7),
        fading.Umi(),
    )
    for number, model in enumerate(models):
        request = SelectiveRequest(
            frame=frame,
            antennas=1,
            carrier_hz=3.5e9,
            speed_m_s=0.0,
            variation="independent",
            start_s=0.0,
            per_round=_one_device,
            per_run=_one_device,
            bandwidth_hz=334 * 15e3,
            positions_m=np.array([[120.0, 0.0, 1.5]]),
            line_of_sight=np.array([False]),
        )
        level_db = 20 * np.log10(np.abs(model.respond(request).response[0, 0, 0]))
        axis.plot(frame.frequencies_hz / 1e6, level_db, label=model.name, **line(number))
        weak, strong = np.quantile(level_db, [0.02, 0.98])
        numbers.append(f"{model.name}: |H| from {weak:.1f} to {strong:.1f} dB (2% to 98% of the subcarriers)")
    label(axis, "frequency from the carrier (MHz)", "|H| (dB)", legend="lower left", ylim=(-38, 12))
    return numbers


def _policies(axis: Axes) -> list[str]:
    numbers = []
    base = (
        "channel.fading=tapped-line",
        "channel.mean_gain=1.0",
        *WIDE,
        "grid.subcarriers=256",
        "power.max_snr_db=20.0",
    )
    for number, (name, overrides) in enumerate(POLICIES.items()):
        measured, spent = [], []
        for spread in SPREADS_S:
            unit = (*base, *overrides, f"channel.delay_spread_s={spread}")
            scenario = scenario_of(unit, entries=512, devices=8, selected=8)
            rounds = sent(scenario, 60)
            measured.append(np.median(errors(rounds)))
            spent.append(np.median([one.report.devices.energy.sum() for one in rounds]) / scenario.power_limits.sum())
        axis.plot(SPREADS_S * 1e9, measured, label=name, **line(number, marked=True))
        numbers.append(quote(f"{name}: error", measured, {0: "3 ns", 3: "100 ns", 5: "1 µs"}))
        numbers.append(quote(f"{name}: energy over the limits", spent, {0: "3 ns", 5: "1 µs"}))
    label(axis, "rms delay spread (ns)", ERROR, legend="lower left", xscale="log", yscale="log", ylim=(3e-3, 0.3))
    return numbers


def _one_device(count: int) -> Array:
    return np.random.default_rng(5).random((1, count))
