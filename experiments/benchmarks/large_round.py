"""Benchmark one PFELS round at the paper's scale by stage: d = 9,750,922, p = 0.3, 32 devices; and peak memory.

    python experiments/benchmarks/large_round.py
    python experiments/benchmarks/large_round.py --without-training run.chunk=8

With --without-training, every chunk gets the same random updates, so that only the other stages remain. Settings can be
overridden as section.key=value. Uses CIFAR-10 if it is found (AIRFL_DATA, ./data), else random bytes in the same
format, which take the same time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

import airfl
from airfl.analysis.bench import peak_memory_bytes
from airfl.analysis.profile import profiled_round
from airfl.core.run_trace import open_writer
from airfl.core.state import State, World
from airfl.core.world import build_world, resolve
from airfl.learning.tasks.datasets import data_folders, find_dataset
from airfl.learning.tasks.datasets.cifar10 import BATCHES, CLASSES, PIXELS, RECORDS
from airfl.learning.work import Ids, Meanwhile
from airfl.runtime.store import Store

PAPER = Path(__file__).resolve().parents[1] / "configs" / "papers" / "pfels-cifar10.toml"
ROUNDS = 3
CPU = torch.device("cpu")


@dataclass
class Untrained:
    """A trainer that always returns the same updates, [chunk, d]."""

    chunk: int
    engine: str
    same: torch.Tensor

    def updates(
        self,
        parameters: torch.Tensor,
        devices: Ids,
        round_index: int,
        store: Store,
        meanwhile: Meanwhile | None = None,
    ) -> torch.Tensor:
        """Return the fixed updates."""
        return self.same[: len(devices)]

    def prepare(self, devices: NDArray[np.int64], round_index: int) -> None:
        """Do nothing."""

    def evaluations(self, devices: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        """Return zeros, since no gradient is evaluated."""
        return np.zeros(len(devices), dtype=np.int64)


def without_training(world: World) -> World:
    """Return the world with fixed updates instead of training."""
    chunk = world.trainer.chunk
    same = 1e-4 * torch.randn(chunk, world.model.dimension, generator=torch.Generator().manual_seed(0))
    return replace(world, trainer=Untrained(chunk, world.trainer.engine, same))


@contextmanager
def cifar10() -> Iterator[tuple[list[Path], str]]:
    """Yield data folders with CIFAR-10 or random bytes of the same format, and a description of which."""
    folders = data_folders()
    if find_dataset("cifar10", folders):
        yield folders, "CIFAR-10"
        return
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"AIRFL_CACHE": f"{folder}/cache"}):
        place = Path(folder) / "cifar10"
        place.mkdir()
        for name in BATCHES:
            records = generator.integers(0, 256, (RECORDS, 1 + PIXELS), dtype=np.uint8)
            records[:, 0] %= CLASSES
            (place / f"{name}.bin").write_bytes(records.tobytes())
        yield [Path(folder)], "random bytes in the place of CIFAR-10"


def main(arguments: list[str]) -> None:
    """Print the table of the fastest round, without the first, which is a warm-up."""
    trained = "--without-training" not in arguments
    overrides = [argument for argument in arguments if argument != "--without-training"]
    before = peak_memory_bytes(CPU)
    settings = airfl.load_settings(PAPER, ["run.evaluate_every=2000", *overrides])
    rounds = []
    with cifar10() as (folders, data), tempfile.TemporaryDirectory() as out:
        world = build_world(settings, CPU, folders)
        world = world if trained else without_training(world)
        writer = open_writer(Path(out) / "trace.h5", world, resolve(world, settings))
        state = State(0, world.model.initial())
        for _ in range(ROUNDS + 1 if trained else 4 * ROUNDS):
            state, stages = profiled_round(world, state, writer.append)
            rounds.append(stages)
        writer.close("complete")
    seconds = min(rounds[1:], key=lambda stages: sum(stages.values()))
    total = sum(seconds.values())
    print(
        f"PFELS, d = {world.model.dimension:,}, k = {world.scenario.bound.entries:,}, r = {settings.run.selected}, "
        f"{data}"
    )
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, engine {world.trainer.engine}, chunk "
        f"{world.trainer.chunk}\n"
    )
    outside = total - seconds["local training"]
    for name, value in [*seconds.items(), ("outside local training", outside), ("the round", total)]:
        print(f"  {name:30s} {value:8.3f} s   {100 * value / total:6.2f} %")
    peak = peak_memory_bytes(CPU)
    print(f"\npeak memory {peak / 1e6:,.0f} MB, {before / 1e6:,.0f} MB of it after importing")


if __name__ == "__main__":
    main(sys.argv[1:])
