"""Multiple receive antennas."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, label, line, panels, quote
from channel_effects.rounds import RAYLEIGH, Round, errors, scenario_of, sent
from channels.antennas import COMBINERS, combine, upper_bound

DEVICES, ROUNDS = 16, 40
COUNTS = [1, 2, 4, 8, 16, 32, 64]
EQUAL = np.ones(DEVICES)


def antennas(figure: Figure) -> list[str]:
    """Left the worst device's gain, right the error at 0 dB; median of 40 rounds, r = 16, Rayleigh."""
    left, right = panels(figure)
    at = {0: "A = 1", 3: "8", 6: "64"}
    numbers, error_lines = [], []
    for number, name in enumerate(("max-min", "principal", "sum", "first")):
        rounds = [_rounds(count, name) for count in COUNTS]
        worst = [10 * np.log10(np.median([_worst(one, name) for one in each])) for each in rounds]
        error = [np.median(errors(each)) for each in rounds]
        left.plot(COUNTS, worst, label=name, **line(number, marked=True))
        right.plot(COUNTS, error, label=name, **line(number, marked=True))
        numbers.append(quote(f"{name}: worst gain in dB", worst, at, ".1f"))
        error_lines.append(quote(f"{name}: error", error, at))
    bounds = [[upper_bound(one.plan.estimate.response, EQUAL)[0, 0] for one in each] for each in rounds]
    bound = [10 * np.log10(np.median(each)) for each in bounds]
    left.plot(COUNTS, bound, label="upper bound", **line(6))
    ticks: dict[str, Any] = {"xscale": "log", "xticks": COUNTS, "xticklabels": [str(count) for count in COUNTS]}
    label(left, "receive antennas A", "worst of 16 gains (dB)", legend="upper left", ylim=(-18, 22), **ticks)
    label(right, "receive antennas A", ERROR, legend="lower left", yscale="log", **ticks)
    for axis in (left, right):
        axis.minorticks_off()
    return [*numbers, quote("upper bound in dB", bound, at, ".1f"), *error_lines]


def _rounds(count: int, name: str) -> list[Round]:
    unit = (*RAYLEIGH, f"antennas.count={count}", f"antennas.combining={name}", "power.max_snr_db=0.0")
    return sent(scenario_of(unit, devices=DEVICES, selected=DEVICES), ROUNDS)


def _worst(one: Round, name: str) -> float:
    response = one.plan.estimate.response
    return float(np.abs(combine(COMBINERS[name]().weights(response, EQUAL), response)).min()) ** 2
