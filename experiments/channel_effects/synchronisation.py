"""Errors that remain after synchronisation: by their law, and from a file of measurements."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airfl.core.round_plan import RoundPlan
from airfl.core.scenario import Scenario
from airfl.uplinks.stages import Batch
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, Array, messages, opened, scenario_of
from channels.draws import Complex

DEVICES, ROUNDS, MEASURED_ROUNDS, MEASURED_DEVICES = 20, 100, 200, 20
NEPER = np.log(10) / 20
"""Nepers in a decibel of amplitude."""
PHASE_RAD, MISSED = 0.1, 0.05
PACKINGS = ("real", "iq")


def synchronisation(figure: Figure) -> list[str]:
    """Left by the law, with a phase error of 0.1 rad and 5% missed triggers; right with the errors of a file, in their
    order and drawn. 100 rounds of 20 devices, no noise."""
    left, right = panels(figure)
    return [*_by_law(left), *_from_a_file(right)]


def error_of(gains: Complex, packing: str) -> float:
    """Return the error of the mean that residual gains cause: the mean of (Re c - 1)^2, of |c - 1|^2 under I/Q packing.

    gains: c, complex, 0 for a device that missed the trigger.
    """
    return float(((gains.real - 1) ** 2).mean() if packing == "real" else (np.abs(gains - 1) ** 2).mean())


def _by_law(axis: Axes) -> list[str]:
    numbers, spreads, smooth = [], np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0]), np.linspace(0, 3, 80)
    at = {0: "0 dB", 2: "1 dB", 4: "2 dB"}
    for number, packing in enumerate(PACKINGS):
        law = _law(smooth * NEPER, PHASE_RAD, MISSED, packing)
        given = (f"csi.phase_std_rad={PHASE_RAD}", f"csi.missed_probability={MISSED}", f"grid.packing={packing}")
        measured = [_mean_error((f"csi.amplitude_std_db={spread}", *given)) for spread in spreads]
        axis.plot(smooth, law, label=f"{packing} packing", **line(number))
        axis.plot(spreads, measured, **dots(number))
        numbers.append(
            quote(f"{packing}: error", measured, at)
            + _within(measured, _law(spreads * NEPER, PHASE_RAD, MISSED, packing))
        )
    label(axis, "amplitude error, standard deviation (dB)", ERROR, legend="upper left", ylim=(0, None))
    return numbers


def _law(amplitude: Array, phase: float, missed: float, packing: str) -> Array:
    """Return the closed form of the page; amplitude: s, the standard deviation in nepers."""
    mean, square = np.exp((amplitude**2 - phase**2) / 2), np.exp(2 * amplitude**2)
    if packing == "real":
        square = square * (1 + np.exp(-2 * phase**2)) / 2
    return np.asarray((1 - missed) * (square - 2 * mean + 1) + missed)


def measurement(phase_std_rad: float) -> Complex:
    """Return residual gains as a testbed may record them, [rounds, devices]: half of the variance of the phase stays
    with a device, the other half drifts slowly; the amplitude falls with the phase error; 2% of triggers are missed."""
    generator = np.random.default_rng(18085)
    drift, step = np.zeros((MEASURED_ROUNDS, MEASURED_DEVICES)), generator.standard_normal(MEASURED_DEVICES)
    for row in drift:
        step = 0.9 * step + np.sqrt(1 - 0.9**2) * generator.standard_normal(MEASURED_DEVICES)
        row[:] = step
    phase = phase_std_rad * np.sqrt(0.5) * (generator.standard_normal(MEASURED_DEVICES) + drift)
    amplitude_db = -2 * np.abs(phase) + 0.5 * generator.standard_normal(phase.shape)
    heard = generator.random(phase.shape) >= 0.02
    return np.asarray(heard * 10 ** (amplitude_db / 20) * np.exp(1j * phase))


def _from_a_file(axis: Axes) -> list[str]:
    numbers, spreads = [], np.array([0.05, 0.1, 0.2, 0.35, 0.5])
    tables = [measurement(spread) for spread in spreads]
    ways = {"in order": (), "drawn": ("csi.residual_rounds=draw",)}
    for number, packing in enumerate(PACKINGS):
        predicted = {name: [error_of(_used(table, name), packing) for table in tables] for name in ways}
        axis.plot(np.degrees(spreads), predicted["drawn"], label=f"{packing}, of the file", **line(number))
        for place, (name, way) in enumerate(ways.items()):
            measured = [_of_file(table, (*way, f"grid.packing={packing}")) for table in tables]
            hollow = {"fillstyle": "none", "markersize": 7.0} if place else {}
            axis.plot(np.degrees(spreads), measured, label=f"{packing}, {name}", **{**dots(number), **hollow})
            text = quote(f"{packing}, {name}: error", measured, {1: "6°", 2: "11°", 4: "29°"})
            numbers.append(text + _within(measured, np.array(predicted[name])))
    gains = tables[2]
    numbers.append(
        f"at 11°: mean gain {gains.mean():.3f}, variance {gains.var():.3f}, "
        f"|E c - 1|² + Var c = {abs(gains.mean() - 1) ** 2 + gains.var():.3f}"
    )
    x = "std of the phase in the file (degrees)"
    label(axis, x, ERROR, legend="upper left", xscale="log", yscale="log", ylim=(0.015, 0.6))
    axis.minorticks_off()
    axis.set_xticks([3, 5, 10, 20, 30], ["3", "5", "10", "20", "30"])
    return numbers


def _used(table: Complex, way: str) -> Complex:
    """The part of a table that a run uses: its first rounds in order, or all of it."""
    return table[:ROUNDS] if way == "in order" else table


def _of_file(table: Complex, overrides: Sequence[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "residuals.npy"
        np.save(file, table)
        return _mean_error((f"csi.residual_file={file}", *overrides))


def _mean_error(overrides: Sequence[str]) -> float:
    """Return the mean error of rounds without noise, of the mean over all devices, those that missed the trigger
    included."""
    given = (*FIXED, f"run.rounds={ROUNDS}", "channel.noise=false", *overrides)
    scenario = scenario_of(given, devices=DEVICES, selected=DEVICES)
    return float(np.mean([_error(scenario, plan, index) for index, plan in enumerate(opened(scenario, ROUNDS))]))


def _error(scenario: Scenario, plan: RoundPlan, index: int) -> float:
    heard = plan.devices
    values = messages(DEVICES, scenario.bound.entries, scenario.bound.rms, index)
    plan.link.send(Batch(torch.from_numpy(values[heard]), torch.ones(len(heard))), slice(0, len(heard)))
    off = plan.link.close().mean.numpy().astype(np.float64) - values.astype(np.float64).mean(axis=0)
    return float(off @ off) * DEVICES / scenario.bound.rms**2


def _within(measured: Sequence[float], law: Array) -> str:
    return f", within {100 * np.max(np.abs(np.array(measured) / law - 1)):.0f}% of the closed form"
