"""Several access points: what devices are received with, and the error, against their number at equal antennas."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, label, line, panels, quote
from channel_effects.rounds import errors, scenario_of, sent

COUNTS = np.array([1, 2, 4, 8, 16])
PLACES = {0: "1", 2: "4", 4: "16"}
ANTENNAS, RADIUS_M, DEVICES, DROPS = 16, 300.0, 16, 20
CELL = (
    "channel.units=physical",
    "channel.fading=rayleigh",
    "grid.subcarriers=256",
    "power.tx_power_dbm=23.0",
    "topology.kind=disc",
    f"topology.radius_m={RADIUS_M}",
    f"antennas.count={ANTENNAS}",
)


def access_points(figure: Figure) -> list[str]:
    """16 antennas at one point in the centre, or divided over points on a circle of 180 m; a disc of 300 m, UMi, 23 dBm
    on 256 subcarriers. Left the mean power of a device over the antennas; right the error, r = 16, full inversion,
    median of 20 drops of 2 rounds."""
    left, right = panels(figure)
    return [*_received(left), *_errors(right)]


def points(count: int) -> str:
    """Return the setting of one point in the centre, or several on a circle of 0.6 of the radius."""
    if count == 1:
        return "topology.access_points=[[0,0]]"
    angles = 2 * np.pi * np.arange(count) / count
    places = 0.6 * RADIUS_M * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return "topology.access_points=[" + ",".join(f"[{x:.3f},{y:.3f}]" for x, y in places) + "]"


def _received(axis: Axes) -> list[str]:
    gains = [10 * np.log10(scenario_of((*CELL, points(int(count))), devices=2000).radio.mean_power) for count in COUNTS]
    numbers = []
    for number, (name, share) in enumerate({"median": 0.5, "5%": 0.05, "1%": 0.01}.items()):
        found = [float(np.quantile(one, share)) for one in gains]
        axis.plot(COUNTS, found, label=name, **line(number, marked=True))
        numbers.append(quote(f"mean path gain in dB, {name} of devices", found, PLACES, ".1f"))
    label(axis, "access points", "mean path gain (dB)", legend="lower right", xscale="log")
    return numbers


def _errors(axis: Axes) -> list[str]:
    numbers = []
    for number, combining in enumerate(("max-min", "principal", "sum")):
        given = (*CELL, f"antennas.combining={combining}", "power.policy=full-inversion")
        found = [
            float(
                np.median(
                    [
                        np.median(errors(sent(scenario_of((*given, points(int(count)), f"run.seed={seed}"),
                                                          devices=DEVICES, selected=DEVICES), 2)))
                        for seed in range(DROPS)
                    ]
                )
            )
            for count in COUNTS
        ]  # fmt: skip
        axis.plot(COUNTS, found, label=combining, **line(number, marked=True))
        numbers.append(quote(f"{combining}: error", found, PLACES))
    label(axis, "access points", ERROR, legend="lower left", xscale="log", yscale="log")
    return numbers
