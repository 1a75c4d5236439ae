"""One PFELS round at the paper's scale, split into its stages: d = 9,750,922, p = 0.3, 32 devices; and peak memory.

    python experiments/benchmarks/large_round.py

CIFAR-10 is used where it is found (AIRFL_DATA, ./data), else random bytes in the same files, which take as long.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import airfl
import airfl.round
from airfl.round import State, World, run_round
from airfl.simulation import build_world, open_writer, resolve
from airfl.tasks.datasets import data_folders, find_dataset
from airfl.tasks.datasets.cifar10 import BATCHES, CLASSES, PIXELS, RECORDS

PAPER = Path(__file__).resolve().parents[1] / "configs" / "papers" / "pfels-cifar10.toml"
ROUNDS = 3
STAGES = ("training", "encoding", "superposition", "decoding", "server", "ledger", "trace")


class Stopwatch:
    """Seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time added up under the name."""

        def call(*arguments: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds[name] += time.perf_counter() - begin

        return call


class Timed:
    """An object of which some methods are timed: Timed(watch, thing, method="stage", ...)."""

    def __init__(self, watch: Stopwatch, thing: Any, **stages: str) -> None:
        self._thing = thing
        for method, stage in stages.items():
            setattr(self, method, watch.timed(stage, getattr(thing, method)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thing, name)


def instrumented(world: World, watch: Stopwatch) -> World:
    """The world with every part of a round under the stopwatch."""

    class Stage:
        def __init__(self, stage: Any) -> None:
            self.bound, self._open = stage.bound, watch.timed("encoding", stage.open)

        def open(self, *arguments: Any) -> Any:
            coder = self._open(*arguments)
            encode, decode = watch.timed("encoding", coder.encode), watch.timed("decoding", coder.decode)
            return replace(coder, encode=encode, decode=decode)

    class Uplink:
        def __init__(self, uplink: Any) -> None:
            self._open = watch.timed("superposition", uplink.open)

        def open(self, terms: Any) -> Any:
            return Timed(watch, self._open(terms), send="superposition", close="superposition")

    recipe = world.cell.recipe
    recipe = replace(
        recipe,
        stages=tuple(Stage(stage) for stage in recipe.stages),
        uplink=Uplink(recipe.uplink),
        server=Timed(watch, recipe.server, step="server"),
    )
    return replace(
        world,
        cell=replace(world.cell, recipe=recipe),
        trainer=Timed(watch, world.trainer, updates="training"),
        ledger=Timed(watch, world.ledger, record="ledger"),
    )


@contextmanager
def cifar10() -> Iterator[tuple[list[Path], str]]:
    """Data folders that have CIFAR-10, or as many random bytes, and which of the two."""
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


def peak_memory_mb() -> float:
    """The most this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table of the last round."""
    before = peak_memory_mb()
    settings = airfl.load_settings(PAPER, ["run.evaluate_every=2000"])
    with cifar10() as (folders, data), tempfile.TemporaryDirectory() as out:
        world = build_world(settings, torch.device("cpu"), folders)
        watch = Stopwatch()
        timed = instrumented(world, watch)
        writer = Timed(watch, open_writer(Path(out) / "trace.h5", world, resolve(world)), append="trace", flush="trace")
        state = State(0, world.model.initial())
        for _ in range(ROUNDS):
            watch.seconds.clear()
            begin = time.perf_counter()
            state, record = run_round(timed, state)
            writer.append(record)
            writer.flush()
            total = time.perf_counter() - begin
        writer.close("complete")
    seconds = {name: watch.seconds[name] for name in STAGES}
    seconds["norms, reference mean, record"] = total - sum(seconds.values())
    print(
        f"PFELS, d = {world.model.dimension:,}, k = {world.cell.bound.entries:,}, r = {settings.run.selected}, {data}"
    )
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, engine {world.trainer.engine}\n")
    for name, value in seconds.items():
        print(f"  {name:30s} {value:8.3f} s   {100 * value / total:6.2f} %")
    outside = total - seconds["training"]
    print(f"  {'outside local training':30s} {outside:8.3f} s   {100 * outside / total:6.2f} %")
    print(f"  {'the round':30s} {total:8.3f} s")
    print(f"\npeak memory {peak_memory_mb():,.0f} MB, {before:,.0f} MB of it after importing")


if __name__ == "__main__":
    main()
