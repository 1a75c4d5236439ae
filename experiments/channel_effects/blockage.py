"""Blocked paths: how much direct paths lose in a crowd, and the error over the rounds of a run."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, label, line, panels, quote
from channel_effects.rounds import errors, scenario_of, sent

ROUNDS, RUNS, DEVICES, PLACES = 40, 10, 16, 1000
CELL = (
    "channel.units=physical",
    "channel.carrier_hz=28e9",
    "channel.round_s=5.0",
    "grid.subcarriers=256",
    "power.tx_power_dbm=23.0",
    "power.policy=full-inversion",
    "topology.kind=disc",
    "topology.radius_m=40.0",
    "topology.los=los",
)
FLAT = ("channel.fading=rician", "channel.rician_k=10.0")
SCREENS = "blockage.model=model-b"
REGIONS = ("channel.fading=umi", "blockage.model=model-a", "topology.radius_m=250.0")
CROWDS = {
    "model-b, 500 people": (*FLAT, SCREENS, "blockage.count=500"),
    "model-b, 2000 people": (*FLAT, SCREENS, "blockage.count=2000"),
    "model-b, 8000 people": (*FLAT, SCREENS, "blockage.count=8000"),
    "model-a, 250 m, portrait": REGIONS,
    "model-a, 250 m, no user": (*REGIONS, "blockage.orientation=none"),
}
PEOPLE = {
    "none": (),
    "standing": (SCREENS, "blockage.count=2000", "blockage.speed_m_s=0.0"),
    "walking": (SCREENS, "blockage.count=2000"),
}


def blockage(figure: Figure) -> list[str]:
    """A disc of 40 m, UMi, all in sight, 28 GHz, a round every 5 s. Left the share of 1,000 devices whose direct path
    loses more than a given loss, by model A in a disc of 250 m; right the error of full inversion, Rician with K = 10,
    r = 16, over the rounds of a run among 2,000 people."""
    left, right = panels(figure)
    return [*_losses(left), *_errors(right)]


def _losses(axis: Axes) -> list[str]:
    numbers, limits = [], np.linspace(0.1, 40, 400)
    for number, (name, given) in enumerate(CROWDS.items()):
        losses = _of_direct_paths(given)
        shares = np.array([(losses > limit).mean() for limit in limits])
        axis.plot(limits, shares, label=name, **line(number))
        above = np.array([(losses > limit).mean() for limit in (3.0, 10.0)])
        share = quote(f"{name}: mean loss {losses.mean():.2g} dB; share above", above, {0: "3 dB", 1: "10 dB"})
        numbers.append(share)
    limits_shown = {"xlim": (0, 90), "ylim": (1e-3, 1), "yscale": "log"}
    label(axis, "loss of the direct path (dB)", "share of devices above", legend="upper right", **limits_shown)
    return numbers


def _of_direct_paths(given: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the losses of the direct paths of many devices at the start of a run in dB, [devices]."""
    radio = scenario_of((*CELL, *given), devices=PLACES, selected=DEVICES).radio
    drop, ids = radio.drop, np.arange(PLACES)
    assert radio.obstacles is not None
    assert drop is not None
    blocked = radio.obstacles.of_paths(drop, ids, drop.base_height_m, 0.0)
    ways = np.array([0.0, 0.0, drop.base_height_m]) - drop.positions_m
    azimuth = np.degrees(np.arctan2(ways[:, 1], ways[:, 0]))
    zenith = np.degrees(np.arccos(ways[:, 2] / np.linalg.norm(ways, axis=1)))
    return np.array([float(blocked.direct_db(row, azimuth[row], zenith[row])) for row in range(PLACES)])


def _errors(axis: Axes) -> list[str]:
    numbers = []
    for number, (name, given) in enumerate(PEOPLE.items()):
        runs = [
            scenario_of((*CELL, *FLAT, *given, f"run.seed={seed}"), devices=DEVICES, selected=DEVICES)
            for seed in range(RUNS)
        ]
        found = np.array([errors(sent(one, ROUNDS)) for one in runs])
        axis.plot(np.arange(found.shape[1]), found[0], label=f"people: {name}", **line(number))
        middle = np.quantile(found, [0.5, 0.9])
        numbers.append(quote(f"people {name}: error", middle, {0: "half of the rounds", 1: "90% of the rounds"}))
        weakest = [len({int(one.radio.at(t).mean_power.argmin()) for t in range(found.shape[1])}) for one in runs]
        numbers.append(
            f"people {name}: {np.mean(weakest):.1f} devices have the least mean power in some round of a run"
        )
    label(axis, "round", ERROR, legend="best", yscale="log")
    return numbers
