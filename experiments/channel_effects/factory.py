"""Indoor factories: lines of sight, and the error against the density of the clutter."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, label, line, panels, quote
from channel_effects.rounds import errors, scenario_of, sent
from channels.topology.path_loss import PATH_LOSS, Paths

KINDS = ("inf-sl", "inf-dl", "inf-sh", "inf-dh")
RADIUS_M, DEVICES, DROPS = 30.0, 16, 10
HALL = (
    "channel.units=physical",
    "channel.fading=rician",
    "channel.rician_k=tr38901",
    "grid.subcarriers=256",
    "power.tx_power_dbm=0.0",
    "power.policy=full-inversion",
    "topology.kind=disc",
    f"topology.radius_m={RADIUS_M}",
)


def factory(figure: Figure) -> list[str]:
    """A disc of 30 m, 0 dBm on 256 subcarriers, K by the table. Left the probability of a line of sight with the usual
    clutter; right the error of full inversion, r = 16, median of 10 drops of 4 rounds."""
    left, right = panels(figure)
    return [*_in_sight(left), *_errors(right)]


def _in_sight(axis: Axes) -> list[str]:
    distances, numbers = np.geomspace(1, 599, 400), []
    for number, name in enumerate(KINDS):
        entry = PATH_LOSS[name]
        assert entry.base_height_m is not None
        chance = entry.los_probability(Paths(distances, entry.base_height_m, 1.5, 3.5e9))
        axis.plot(distances, chance, label=name, **line(number))
        half_m = float(np.interp(0.5, chance[::-1], distances[::-1]))
        numbers.append(f"{name}: half of the devices are in line of sight at {half_m:.1f} m")
    label(
        axis,
        "distance in the plane (m)",
        "probability of a line of sight",
        legend="upper right",
        xscale="log",
        ylim=(-0.05, 1.3),
        yticks=np.linspace(0, 1, 6),
    )
    return numbers


def _errors(axis: Axes) -> list[str]:
    numbers = []
    for number, (low, high) in enumerate((("inf-sl", "inf-dl"), ("inf-sh", "inf-dh"))):
        densities = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.8])
        found = [_error(low if density < 0.4 else high, float(density)) for density in densities]
        place = "within the clutter" if number == 0 else "above the clutter"
        axis.plot(densities, found, label=place, **line(number, marked=True))
        at = {1: "20%", 4: "60%", 5: "80%"}
        numbers.append(quote(f"base station {place}: error", found, at))
    label(axis, "density of the clutter", ERROR, legend="lower right", yscale="log")
    return numbers


def _error(model: str, density: float) -> float:
    given = (*HALL, f"topology.path_loss={model}", f"topology.clutter_density={density}")
    drops = (scenario_of((*given, f"run.seed={seed}"), devices=DEVICES, selected=DEVICES) for seed in range(DROPS))
    return float(np.median([np.median(errors(sent(one, 4))) for one in drops]))
