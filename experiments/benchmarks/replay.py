"""Benchmark replays: a round of a frequency-selective recording beside a flat one of as many entries.

    make bench        (or: python experiments/benchmarks/replay.py)

"entries": the channel of a round as a run asks for it, 32 devices on 3,276 subcarriers against 32 x 3,276 flat gains,
from memory and streamed from the disk; also interpolated from every fourth subcarrier, and from paths. "round": whole
rounds of airfl with messages of equal length, training included, with a channel that is drawn beside them: what a
selective round takes more is its superposition, subcarrier by subcarrier, and not its replay. Repetitions are
interleaved, and processor time is measured, so that other load on the machine matters little. Results are medians, and
ratios to the flat replay of the same kind.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import h5py
import numpy as np

import airfl
from airfl.config import load_settings
from airfl.core.building import build_scenario
from airfl.core.scenario import Scenario

TURNS = 7
DEVICES, SUBCARRIERS, ROUNDS, PATHS = 32, 3276, 8, 20
SPACING_HZ = 15e3
RUN = (
    *("run.devices=100", "run.selected=32", "run.evaluate_every=8", "privacy.epsilon=inf", "power.policy=pfels"),
    *("task.model=mlp", "scheme.name=wfl-p"),
)
CONFIG = "demo"


def record(folder: Path) -> dict[str, Path]:
    """Write the recordings: flat ones, selective ones, every fourth subcarrier, and paths."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        numbers = 0.01 * (generator.standard_normal(shape) + 1j * generator.standard_normal(shape))
        return np.asarray(numbers, dtype=np.complex64)

    frequencies = SPACING_HZ * (np.arange(SUBCARRIERS) - SUBCARRIERS // 2)
    coarse = np.append(frequencies[::4], frequencies[-1])
    contents: dict[str, dict[str, np.ndarray]] = {
        "flat": {"gains": normal(ROUNDS, DEVICES * SUBCARRIERS)},
        "selective": {"gains": normal(ROUNDS, DEVICES, 1, SUBCARRIERS), "frequency_hz": frequencies},
        "interpolated": {"gains": normal(ROUNDS, DEVICES, 1, len(coarse)), "frequency_hz": coarse},
        "paths": {
            "a": normal(ROUNDS, DEVICES, 1, PATHS),
            "tau_s": 1e-6 * generator.random((ROUNDS, DEVICES, PATHS)),
        },
        "flat run": {"gains": normal(ROUNDS, 100)},
        "selective run": {"gains": normal(ROUNDS, 100, 1, SUBCARRIERS), "frequency_hz": frequencies},
    }
    paths = {}
    for name, arrays in contents.items():
        paths[name] = folder / f"{name.replace(' ', '-')}.h5"
        with h5py.File(paths[name], "w") as file:
            for array, values in arrays.items():
                file[array] = values
    return paths


def scenario_of(path: Path, devices: int) -> Scenario:
    """Return the scenario of a run that replays this file, with messages over the whole band."""
    settings = load_settings(
        CONFIG,
        [
            *(f"run.devices={devices}", f"run.rounds={ROUNDS}", "run.selected=1", f"grid.subcarriers={SUBCARRIERS}"),
            *("channel.fading=replay", f"channel.replay_file={path}", "scheme.name=wfl-p", "privacy.epsilon=inf"),
        ],
    )
    return build_scenario(settings, 2 * SUBCARRIERS, np.ones(devices))


def channel_of(path: Path, devices: int, *, streamed: bool) -> Callable[[int], None]:
    """Return what gets the channel of a round, from memory or from the disk."""
    if streamed:
        with patch("channels.recorded.surveying.HELD_BYTES", 0):
            scenario = scenario_of(path, devices)
    else:
        scenario = scenario_of(path, devices)
    everyone = np.arange(devices)

    def get(round_index: int) -> None:
        scenario.radio.channel(round_index, everyone, scenario.frame)

    return get


def run_of(folder: Path, *channel: str) -> Callable[[int], None]:
    """Return what runs all rounds with this channel."""
    overrides = [*RUN, f"run.rounds={ROUNDS}", f"grid.subcarriers={SUBCARRIERS}", *channel]

    def run(turn: int) -> None:
        airfl.run(CONFIG, overrides=overrides, out=folder / f"{turn}-{time.perf_counter_ns()}")

    return run


def medians(actions: dict[str, Callable[[int], None]], repeats: int) -> dict[str, list[float]]:
    """Return the processor time of each action in each turn in s; the first of each is not counted."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action(0)
    for turn in range(TURNS):
        for name, action in actions.items():
            begin = time.process_time()
            for index in range(repeats):
                action((turn + index) % ROUNDS)
            times[name].append((time.process_time() - begin) / repeats)
    return times


def show(title: str, times: dict[str, list[float]], base: str) -> None:
    """Print medians, and ratios of them within a turn."""
    print(title)
    for name, values in times.items():
        # A single short turn may take less than the clock of the processor time resolves.
        ratios = [value / other if other else math.nan for value, other in zip(values, times[base], strict=True)]
        ratio = statistics.median(ratios)
        print(f"  {name:24s} {1e3 * statistics.median(values):9.3f} ms   {ratio:6.2f} x")


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        paths = record(Path(folder))
        print(f"{DEVICES} devices x {SUBCARRIERS:,} subcarriers, {ROUNDS} recorded rounds")
        for kept in ("memory", "disk"):
            actions = {"flat": channel_of(paths["flat"], DEVICES * SUBCARRIERS, streamed=kept == "disk")}
            for name in ("selective", "interpolated", "paths"):
                actions[name] = channel_of(paths[name], DEVICES, streamed=kept == "disk")
            show(f"entries of a round, from {kept}", medians(actions, 20), "flat")
        runs = {
            name: run_of(Path(folder), "channel.fading=replay", f"channel.replay_file={paths[f'{name} run']}")
            for name in ("flat", "selective")
        }
        runs["selective, drawn"] = run_of(Path(folder), "channel.fading=tapped-line")
        show(f"{ROUNDS} rounds with messages of equal length", medians(runs, 1), "flat")


if __name__ == "__main__":
    main()
