"""Impulsive interference: alpha-stable and in bursts, and receivers that withstand it."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from airfl.core.scenario import Scenario
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, Array, errors, scenario_of, sent
from channels.interference import AlphaStable, BernoulliGaussian, Interference

ROUNDS, DEVICES, LEVEL_DB, ENTRIES = 40, 32, 10.0, 1024
BASE = (*FIXED, "power.max_snr_db=0.0", f"channel.interference_to_noise_db={LEVEL_DB}")
STABLE, BURSTS = "channel.interference=alpha-stable", "channel.interference=bernoulli-gaussian"
ANTENNAS = ("antennas.count=9", "antennas.angle=broadside", "channel.interference_across_antennas=independent")


def impulsive(figure: Figure) -> list[str]:
    """Left against the tail index, medians, right against the clipping, means of 40 rounds; r = 32, 0 dB, no fading."""
    left, right = panels(figure)
    return [*_by_index(left), *_by_clipping(right)]


def _by_index(axis: Axes) -> list[str]:
    indices = np.array([1.0, 1.2, 1.4, 1.6, 1.8, 2.0])
    receivers = {
        "one antenna": (),
        "clipped, c = 5": ("antennas.median_clip=5.0",),
        "9 antennas, summed": (*ANTENNAS, "antennas.combining=sum"),
        "9 antennas, median": (*ANTENNAS, "antennas.combining=median"),
    }
    numbers = []
    for number, (name, overrides) in enumerate(receivers.items()):
        measured = [_median_error(STABLE, f"channel.interference_tail_index={one}", *overrides) for one in indices]
        axis.plot(indices, measured, label=name, **line(number, marked=True))
        numbers.append(quote(f"{name}: error", measured, {0: "α = 1", 3: "1.6", 5: "2"}))
    label(axis, "tail index α", ERROR, legend="upper right", yscale="log")
    return numbers


def _by_clipping(axis: Axes) -> list[str]:
    factors, smooth = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0]), np.geomspace(1, 32, 40)
    laws: dict[str, tuple[Interference, tuple[str, ...]]] = {
        "α = 1": (AlphaStable(tail_index=1.0), (STABLE, "channel.interference_tail_index=1.0")),
        "α = 1.6": (AlphaStable(tail_index=1.6), (STABLE, "channel.interference_tail_index=1.6")),
        "bursts, p = 0.02": (
            BernoulliGaussian(burst_probability=0.02),
            (BURSTS, "channel.interference_burst_probability=0.02"),
        ),
        "Gaussian": (AlphaStable(tail_index=2.0), ()),
    }
    numbers = []
    for number, (name, (model, overrides)) in enumerate(laws.items()):
        measured = [
            errors(sent(_scenario(*overrides, f"antennas.median_clip={factor}"), ROUNDS)).mean() for factor in factors
        ]
        axis.plot(smooth, [clipped_error(model, float(factor)) for factor in smooth], label=name, **line(number))
        axis.plot(factors, measured, **dots(number))
        numbers.append(quote(f"{name}: error", measured, {0: "c = 1", 3: "5", 6: "32"}))
    ticks = {"xticks": [1, 2, 5, 10, 30], "xticklabels": ["1", "2", "5", "10", "30"]}
    label(axis, "clipped at c median deviations", ERROR, legend="upper left", xscale="log", yscale="log", **ticks)
    axis.minorticks_off()
    return numbers


def _scenario(*overrides: str) -> Scenario:
    return scenario_of((*BASE, *overrides), entries=ENTRIES, devices=DEVICES, selected=DEVICES)


def _median_error(*overrides: str) -> float:
    return float(np.median(errors(sent(_scenario(*overrides), ROUNDS))))


def clipped_error(model: Interference, factor: float) -> float:
    """Return the error of the clipped mean over its power, by integrals over the laws of signal and interference.

    An entry of the sum is y = g + n with g ~ N(0, r) and, given the power A, n ~ N(0, 1 + I A), at beta = sigma_0 = 1.
    It is clipped to +-b with b = c s and P(|y| < s) = 1/2.
    """
    powers, shares = model.mixture()
    stds = np.sqrt(1 + 10 ** (LEVEL_DB / 10) * powers)
    total = np.sqrt(DEVICES + stds**2)
    spread = brentq(lambda s: shares @ (2 * ndtr(s / total) - 1) - 0.5, 1e-3, 1e6)
    bound = factor * spread
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    values = np.sqrt(DEVICES) * nodes
    wrong = np.array([shares @ _clipped_square(value, stds, bound) for value in values])
    return float(wrong @ weights / weights.sum() / DEVICES)


def _clipped_square(value: float, stds: Array, bound: float) -> Array:
    """Return E (clip(y) - value)^2 for y ~ N(value, stds^2) and a clip to +-bound."""
    low, high = (-bound - value) / stds, (bound - value) / stds
    inside = ndtr(high) - ndtr(low) - high * norm.pdf(high) + low * norm.pdf(low)
    outside = (bound + value) ** 2 * ndtr(low) + (bound - value) ** 2 * ndtr(-high)
    return np.asarray(stds**2 * inside + outside)
