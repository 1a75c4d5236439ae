"""Run a workload with airfl and the scheme wfl-p, which clips, aggregates over the air and receives noise on the sum.
The noise is drawn once, as by the other peers (devices of dp-fedavg draw d numbers each). Rounds are those of `airfl
run`.

python experiments/benchmarks/peers/airfl_peer.py WORKLOAD [SETTING=VALUE ...] [--profile]

With --profile, it also prints the median time in ms of each stage over a hundred rounds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch
from workload import WORKLOADS, Workload, time_rounds, use_all_cores

from airfl.analysis.profile import profiled_round
from airfl.config.load import override, validate
from airfl.config.settings import Settings
from airfl.core.round import run_round
from airfl.core.state import State, World
from airfl.core.world import world_of
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.models.modules.lstm import build as build_lstm
from airfl.learning.tasks.partitions import Partition

ENDLESS = 1_000_000
LEAST_S = 3.0
# The settings need the name of a model, while the module comes with the task.
NEAREST = {"digits-mlp": "mlp", "mnist-cnn": "cnn", "fmnist-cnn": "cnn-fashion", "text-lstm": "lstm"}


def settings_of(work: Workload, overrides: Sequence[str] = ()) -> Settings:
    """Return the settings of the workload. The channel determines the noise level. Only the last round, which is never
    reached, is evaluated."""
    tables = {
        "run": {
            "rounds": ENDLESS,
            "evaluate_every": ENDLESS,
            "devices": work.devices,
            "selected": work.selected,
        },
        "task": {"model": NEAREST[work.name]},
        "local": {
            "epochs": work.epochs,
            "batch_size": work.batch,
            "learning_rate": work.learning_rate,
            "momentum": work.momentum,
            "clip_norm": work.clip_norm,
        },
        "scheme": {"name": "wfl-p"},
        "power": {"max_snr_db": [40.0, 50.0]},
    }
    return validate(override(tables, overrides), source=work.name)


def task_of(work: Workload) -> DividedTask:
    """Return the tensors of the workload as a task, without normalization of the inputs."""
    inputs, labels = work.data()
    train = Samples(inputs.flatten(0, 1), labels.flatten())
    few = Samples(train.inputs[: work.samples], train.targets[: work.samples])
    total = work.devices * work.samples
    module = work.model()
    if work.text:  # the same layers and parameters in airfl's class
        lstm = build_lstm()
        lstm.load_state_dict(module.state_dict())
        module = lstm
    return DividedTask(
        train=train,
        validation=few,
        public=few,
        test=few,
        partition=Partition(np.arange(total), np.arange(0, total + 1, work.samples)),
        mean=(),
        std=(),
        model=module,
    )


def rounds_of(world: World) -> Callable[[], None]:
    """Return a function that runs a round from the state of the last one."""
    state = State(0, world.model.initial(), world.scenario.memory)

    def one_round() -> None:
        nonlocal state
        state, _ = run_round(world, state)

    return one_round


def stages_of(world: World, rounds: int = 100) -> dict[str, float]:
    """Return the median time in ms of each stage of a round, by name."""
    state, profiles = State(0, world.model.initial(), world.scenario.memory), []
    for _ in range(rounds):
        state, stages = profiled_round(world, state, lambda _: None)
        profiles.append(stages)
    return {name: 1e3 * statistics.median(stages[name] for stages in profiles) for name in profiles[0]}


def main() -> None:
    """Print the rate."""
    work, overrides = WORKLOADS[sys.argv[1]], [argument for argument in sys.argv[2:] if argument != "--profile"]
    use_all_cores()
    settings = settings_of(work, overrides)
    task = task_of(work)
    built: list[tuple[World, Callable[[], None]]] = []

    def one_round() -> None:
        # The first call builds the world: calibration and compilation count as part of the first round.
        if not built:
            world = world_of(settings, task, torch.device("cpu"))
            built.append((world, rounds_of(world)))
        built[0][1]()

    time_rounds("airfl", work, one_round, LEAST_S, f"scheme {settings.scheme.name}").print()
    if "--profile" in sys.argv:
        for name, spent in stages_of(built[0][0]).items():
            print(f"{name:16s}{spent:8.2f} ms")


if __name__ == "__main__":
    main()
