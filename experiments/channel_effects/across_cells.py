"""Power control across cells: two cells of one device each, and a ring of six around this one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airfl.core.scenario import Scenario
from airfl.uplinks import LinkReport
from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.neighbours import CELL, DEVICES, DISTANCES_M, PLACES, ring
from channel_effects.rounds import opened, scenario_of
from channels.units import SPEED_OF_LIGHT_M_S

APART_M, AWAY_M, POWER_DBM, SUBCARRIERS, CARRIER_HZ = np.array([120, 160, 200, 260, 340]), 50.0, 10.0, 256, 3.5e9
SHOWN = {0: "120 m", 2: "200 m", 4: "340 m"}
ONE = (
    *CELL,
    "channel.fading=fixed",
    "grid.packing=iq",
    "topology.kind=coordinates",
    f"topology.coordinates=[[{AWAY_M},0]]",
    "topology.shadowing_std_db=0",
    "topology.base_height_m=1.5",
    "power.policy=full-inversion",
    f"power.tx_power_dbm={POWER_DBM}",
)
DROPS, ROUNDS = 20, 5
CHOICES = ("none", "sum", "min-max")


def across_cells(figure: Figure) -> list[str]:
    """Left two cells with one device each, 50 m to the right of its base station, without fading, under I/Q packing, 10
    dBm on 256 subcarriers, exponent 3: the device of the left cell is nearer to the other base station. Right a cell in
    a ring of six as on the page of neighbouring cells, full inversion in Rayleigh fading, 20 drops of 5 rounds."""
    left, right = panels(figure)
    return [*_two(left), *_ring(right)]


def _error(scenario: Scenario, report: LinkReport, devices: int) -> float:
    """The error of the mean over its power, under full inversion that of noise and interference."""
    variance = report.noise_std**2 + report.interference_std**2
    return float(variance * scenario.bound.entries * devices / scenario.bound.rms**2)


def _gain(distance_m: float) -> float:
    """Of free space at 1 m, and with an exponent of 3 from there on."""
    return float((SPEED_OF_LIGHT_M_S / (4 * np.pi * CARRIER_HZ)) ** 2 * distance_m**-3.0)


def _closed_form(apart_m: float, noise_energy: float, coordinated: bool) -> tuple[float, float]:
    """The errors of the left and of the right cell: (N_0 + x' P|g'|^2)/(x P|h|^2), with 2 entries on an element."""
    power = 10 ** ((POWER_DBM - 30) / 10) / SUBCARRIERS
    own = power * _gain(AWAY_M)
    to_left, to_right = power * _gain(apart_m + AWAY_M), power * _gain(apart_m - AWAY_M)
    share = min(1.0, float(np.sqrt((noise_energy + to_left) / to_right))) if coordinated else 1.0
    return (noise_energy + to_left) / (share * own), (noise_energy + share * to_right) / own


def _two(axis: Axes) -> list[str]:
    numbers = []
    for number, choice in enumerate(CHOICES[:2]):
        exact: list[tuple[float, float]] = []
        found: list[tuple[float, float]] = []
        for apart_m in APART_M:
            both = []
            for other_m in (apart_m, -apart_m):  # this cell is the left one, then the right one
                given = (f"topology.neighbours=[[{other_m},0]]", f"power.across_cells={choice}")
                scenario = scenario_of((*ONE, *given), entries=2 * SUBCARRIERS, devices=1, selected=1)
                both.append(_error(scenario, opened(scenario, 1)[0].link.link_budget(), 1))
            found.append((both[0], both[1]))
            exact.append(_closed_form(float(apart_m), 2 * scenario.radio.noise_std**2, choice == "sum"))
        for cell, side_name in enumerate(("left cell", "right cell")):
            values, expected = [one[cell] for one in found], [one[cell] for one in exact]
            style = 2 * number + cell
            axis.plot(APART_M, expected, label=f"{side_name}, {choice}", **line(style))
            axis.plot(APART_M, values, **dots(style))
            numbers.append(quote(f"{side_name}, {choice}: error, closed form", expected, SHOWN))
            numbers.append(quote(f"{side_name}, {choice}: error, link", values, SHOWN))
    label(axis, "distance between base stations (m)", ERROR, legend="upper right", yscale="log")
    return numbers


def _ring(axis: Axes) -> list[str]:
    numbers = []
    for number, choice in enumerate(CHOICES):
        medians: list[float] = []
        high: list[float] = []
        for distance_m in DISTANCES_M:
            errors: list[float] = []
            for seed in range(DROPS):
                given: Sequence[str] = (
                    *CELL, "power.policy=full-inversion", ring(6, distance_m), f"run.seed={seed}",
                    f"power.across_cells={choice}",
                )  # fmt: skip
                scenario = scenario_of(given, devices=DEVICES, selected=DEVICES)
                reports = (plan.link.link_budget() for plan in opened(scenario, ROUNDS))
                errors += [_error(scenario, report, DEVICES) for report in reports]
            medians.append(float(np.median(errors)))
            high.append(float(np.quantile(errors, 0.9)))
        axis.plot(DISTANCES_M, medians, label=f"{choice}, median", **line(number, marked=True))
        axis.plot(DISTANCES_M, high, label=f"{choice}, exceeded by 10%", **line(number + 3, marked=True))
        numbers.append(quote(f"ring of six, {choice}: median error", medians, PLACES))
        numbers.append(quote(f"ring of six, {choice}: error that 10% of the rounds exceed", high, PLACES))
    label(axis, "distance between base stations (m)", ERROR, legend="upper right", yscale="log")
    return numbers
