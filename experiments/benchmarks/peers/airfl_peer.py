"""airfl on a workload: the scheme wfl-p, which clips, adds up over the air and receives with noise on the sum, drawn
once as by the peers (dp-fedavg's devices draw d numbers each). Every round as `airfl run` makes it.

python experiments/benchmarks/peers/airfl_peer.py WORKLOAD [SETTING=VALUE ...] [--profile]

--profile: then a hundred rounds by their stages, medians in ms.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence

import numpy as np
import torch
from workload import WORKLOADS, Workload, time_rounds, use_all_cores

from airfl.config.load import override, validate
from airfl.config.settings import Settings
from airfl.profile import profiled_round
from airfl.round import State, World, run_round
from airfl.simulation import world_of
from airfl.tasks.models.modules.lstm import build as build_lstm
from airfl.tasks.partitions import Partition
from airfl.tasks.task import DividedTask, Samples

ENDLESS = 1_000_000
LEAST_S = 3.0
# The model's name is asked for by the settings; the task brings the module.
NEAREST = {"digits-mlp": "mlp", "mnist-cnn": "cnn", "fmnist-cnn": "cnn-fashion", "text-lstm": "lstm"}


def settings_of(work: Workload, overrides: Sequence[str] = ()) -> Settings:
    """The workload's settings; how strong the noise is the channel decides. Only the last round, which never comes, is
    evaluated."""
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
    """The workload's tensors as a task; inputs are taken as they are."""
    inputs, labels = work.data()
    train = Samples(inputs.flatten(0, 1), labels.flatten())
    few = Samples(train.inputs[: work.samples], train.targets[: work.samples])
    total = work.devices * work.samples
    module = work.model()
    if work.text:  # the same layers and parameters in the project's own class
        own = build_lstm()
        own.load_state_dict(module.state_dict())
        module = own
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
    """A round, from the state that the last one left."""
    state = State(0, world.model.initial(), world.cell.memory)

    def one_round() -> None:
        nonlocal state
        state, _ = run_round(world, state)

    return one_round


def stages_of(world: World, rounds: int = 100) -> dict[str, float]:
    """Median ms of each stage of a round, by the name of the stage."""
    state, found = State(0, world.model.initial(), world.cell.memory), []
    for _ in range(rounds):
        state, stages = profiled_round(world, state, lambda _: None)
        found.append(stages)
    return {name: 1e3 * statistics.median(stages[name] for stages in found) for name in found[0]}


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
