"""Devices that move: path loss along their ways, and the error over the rounds of a run."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, label, line, panels, quote
from channel_effects.rounds import errors, scenario_of, sent

ROUNDS, RUNS, DEVICES = 60, 10, 16
CELL = (
    "channel.units=physical",
    "channel.fading=fixed",
    "channel.speed_m_s=1.5",
    "channel.round_s=5.0",
    "grid.subcarriers=256",
    "power.tx_power_dbm=23.0",
    "power.policy=full-inversion",
    "topology.kind=disc",
    "topology.radius_m=150.0",
)


def motion(figure: Figure) -> list[str]:
    """A disc of 150 m, UMi, 1.5 m/s, a round every 5 s. Left the path loss of three devices that go straight on; right
    the error of full inversion without fading, r = 16, over the rounds of a run."""
    left, right = panels(figure)
    _path_losses(left)
    return _errors(right)


def _path_losses(axis: Axes) -> None:
    radio = scenario_of((*CELL, "topology.motion=straight"), devices=DEVICES, selected=DEVICES).radio
    assert radio.moving is not None
    times_s = np.arange(0, 301, 1.0)
    losses = np.array([radio.moving.at(float(time)).path_loss_db[:3] for time in times_s])
    for device in range(3):
        axis.plot(times_s * 1.5, losses[:, device], label=f"device {device}", **line(device))
    label(axis, "way (m)", "path loss (dB)", legend="lower right")


def _errors(axis: Axes) -> list[str]:
    numbers = []
    for number, kind in enumerate(("none", "straight", "waypoint")):
        runs = [scenario_of((*CELL, f"topology.motion={kind}", f"run.seed={seed}"), devices=DEVICES, selected=DEVICES)
                for seed in range(RUNS)]  # fmt: skip
        found = np.array([errors(sent(one, ROUNDS)) for one in runs])
        axis.plot(np.arange(found.shape[1]), found[0], label=f"motion: {kind}", **line(number))
        low, high = np.quantile(found.mean(axis=1), [0.1, 0.9])
        at = {0: "10% of the runs", 1: "90%"}
        numbers.append(quote(f"motion {kind}: mean error of a run", np.array([low, high]), at))
        weakest = [len({int(one.radio.at(t).mean_power.argmin()) for t in range(found.shape[1])}) for one in runs]
        numbers.append(f"motion {kind}: {np.mean(weakest):.1f} devices limit β in some round of a run")
    label(axis, "round", ERROR, legend="upper right", yscale="log")
    return numbers
