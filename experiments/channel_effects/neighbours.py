"""Neighbouring cells that aggregate at the same time: what crosses, and the error, against their distance."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import exp1

from airfl.core.scenario import Scenario
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import errors, opened, scenario_of, sent

DISTANCES_M = np.array([400, 600, 800, 1200, 1600])
PLACES = {0: "400 m", 2: "800 m", 4: "1600 m"}
RADIUS_M, DEVICES, DROPS, THRESHOLD = 200.0, 16, 20, 0.2
CELL = (
    "channel.units=physical",
    "channel.fading=rayleigh",
    "grid.subcarriers=256",
    "power.tx_power_dbm=23.0",
    "topology.kind=disc",
    f"topology.radius_m={RADIUS_M}",
    "topology.path_loss=log-distance",
    "topology.exponent=3.0",
)
TRUNCATED = ("power.policy=truncated-inversion", f"power.threshold={THRESHOLD}", "power.average_over=fading")


def neighbours(figure: Figure) -> list[str]:
    """Cells of 200 m with 16 devices each, exponent 3, 23 dBm on 256 subcarriers, Rayleigh fading. Left what one
    neighbour, or a ring of six, adds to the noise under truncated inversion (threshold 0.2, limits on average over
    fading), of one drop, mean of 300 rounds; right the error of full inversion, median of 20 drops of 2 rounds."""
    left, right = panels(figure)
    return [*_crossing(left), *_errors(right)]


def ring(cells: int, distance_m: float) -> str:
    """Return the setting of so many neighbours at one distance."""
    angles = 2 * np.pi * np.arange(cells) / max(cells, 1)
    places = distance_m * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return "topology.neighbours=[" + ",".join(f"[{x:.3f},{y:.3f}]" for x, y in places) + "]"


def _closed_form(scenario: Scenario) -> float:
    """E sum_j |g_j|^2 p_j^2 over the noise: half of it is observed, and half of the noise energy is."""
    total, inverse = 0.0, float(exp1(THRESHOLD))
    for cell, (limits, _) in zip(scenario.neighbours, scenario.neighbour_powers, strict=True):
        own, across = cell.serving.mean_power, cell.crossing.mean_power
        beta = np.sqrt(limits * own / inverse).min() / scenario.bound.rms
        total += float((across * beta**2 * inverse / own).sum())
    return total * scenario.bound.rms**2 / scenario.bound.entries / (2 * scenario.radio.noise_std**2)


def _crossing(axis: Axes) -> list[str]:
    numbers = []
    for number, (cells, name) in enumerate({1: "1 neighbour", 6: "6 neighbours"}.items()):
        exact, measured, spread = [], [], []
        for distance_m in DISTANCES_M:
            scenario = scenario_of((*CELL, *TRUNCATED, ring(cells, distance_m)), devices=DEVICES, selected=DEVICES)
            reports = [plan.link.link_budget() for plan in opened(scenario, 300)]
            exact.append(10 * np.log10(_closed_form(scenario)))
            ratios = [(one.interference_std / one.noise_std) ** 2 for one in reports]
            over = np.mean(ratios)
            measured.append(10 * np.log10(over))
            spread.append(10 / np.log(10) * np.std(ratios) / over / np.sqrt(len(ratios)))
        axis.plot(DISTANCES_M, exact, label=f"{name}, closed form", **line(number))
        axis.plot(DISTANCES_M, measured, label=f"{name}, link", **dots(number))
        numbers.append(quote(f"{name}: over the noise in dB, closed form", exact, PLACES, ".1f"))
        numbers.append(quote(f"{name}: over the noise in dB, link", measured, PLACES, ".1f"))
        numbers.append(quote(f"{name}: standard error of the link in dB", spread, PLACES, ".1f"))
    label(axis, "distance between base stations (m)", "interference over noise (dB)", legend="upper right")
    return numbers


def _errors(axis: Axes) -> list[str]:
    numbers = []
    for number, (cells, name) in enumerate({0: "alone", 1: "1 neighbour", 6: "6 neighbours"}.items()):
        found = []
        for distance_m in DISTANCES_M:
            drops = []
            for seed in range(DROPS):
                given = (*CELL, "power.policy=full-inversion", ring(cells, distance_m), f"run.seed={seed}")
                drops.append(np.median(errors(sent(scenario_of(given, devices=DEVICES, selected=DEVICES), 2))))
            found.append(float(np.median(drops)))
        axis.plot(DISTANCES_M, found, label=name, **line(number, marked=True))
        numbers.append(quote(f"{name}: error", found, PLACES))
    label(axis, "distance between base stations (m)", ERROR, legend="upper right", yscale="log")
    return numbers
