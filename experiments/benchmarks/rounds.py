"""Benchmark rounds per second: local training with every engine and with a plain loop, and whole rounds of schemes.

    make bench        (or: python experiments/benchmarks/rounds.py)

Repetitions of the engines are interleaved, so that other load on the machine slows all of them. Results are medians,
and ratios to the plain loop.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

import airfl
from airfl.config import Settings
from airfl.config.learning import LocalSettings
from airfl.core.round import run_round
from airfl.core.state import State, World
from airfl.core.world import build_world
from airfl.learning.batches import BatchRule, plan_batches
from airfl.learning.sgd import normalise
from airfl.runtime.store import Store

DEMO = Path(__file__).resolve().parents[1] / "configs" / "demo.toml"
TURNS = 7
ENGINES = ("vmap", "compiled", "layers", "layers-parallel", "loop")
MODELS = {"mlp": 10, "cnn": 1, "cnn-fashion": 1}
"""Repetitions of a round's training in a turn, by model."""
ROUNDS, ENGINE = 30, "compiled"
"""Whole rounds of a turn, and their engine."""
CPU = torch.device("cpu")


def plain_loop(world: World, local: LocalSettings) -> None:
    """Run a round's local training as in a research script: a loop over clients with torch.optim and autograd."""
    task = world.task
    devices = torch.arange(world.scenario.run.selected).numpy()
    sizes = task.partition.sizes[devices]
    rule = BatchRule(local.epochs, local.steps, local.batch_size)
    plan = plan_batches(rule, world.scenario.streams, 0, devices, sizes, int(task.partition.sizes.max()))
    start = world.model.initial()
    for row, device in enumerate(devices):
        torch.nn.utils.vector_to_parameters(start.clone(), task.model.parameters())
        optimiser = torch.optim.SGD(task.model.parameters(), lr=local.learning_rate, momentum=local.momentum)
        for positions in plan[row]:
            rows = task.partition.indices[task.partition.offsets[device] + positions[positions >= 0]]
            optimiser.zero_grad()
            logits = task.model(normalise(task.train.inputs[rows], task.mean, task.std))
            F.cross_entropy(logits, task.train.targets[rows]).backward()
            optimiser.step()
    torch.nn.utils.vector_to_parameters(start, task.model.parameters())


def train_selected(world: World) -> None:
    """Run the same local training with the engine of the world."""
    devices = torch.arange(world.scenario.run.selected).numpy()
    chunk = world.trainer.chunk
    for begin in range(0, len(devices), chunk):
        world.trainer.updates(world.model.initial(), devices[begin : begin + chunk], 0, Store())


def seconds(work: Callable[[], None], repeats: int) -> float:
    """Return the mean time of a call."""
    begin = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - begin) / repeats


def compare_engines(model: str, repeats: int) -> None:
    """Compare local training of 32 devices x 5 steps of 10 samples; prints one line per engine."""
    base = airfl.load_settings(DEMO, [f"task.model={model}"])
    worlds = {engine: build_world(base.resolved(local={"engine": engine}), CPU) for engine in ENGINES}
    loop_world = worlds["loop"]
    works: dict[str, Callable[[], None]] = {"plain loop over clients": lambda: plain_loop(loop_world, base.local)}
    for world in worlds.values():
        works[f"engine {world.trainer.engine}"] = lambda world=world: train_selected(world)
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(TURNS):
        for name, work in works.items():
            times[name].append(seconds(work, repeats))
    slowest = statistics.median(times["plain loop over clients"])
    print(f"\nlocal training, {model} ({worlds['loop'].model.dimension:,} parameters), 32 devices x 5 steps of 10")
    for name, values in times.items():
        median = statistics.median(values)
        spread = (max(values) - min(values)) / median
        print(f"  {name:26s} {1 / median:8.1f} rounds/s   {slowest / median:6.1f} x   (spread {100 * spread:.0f}%)")


def whole_rounds(settings: Settings, rounds: int) -> float:
    """Return rounds per second without evaluation: selection, fading, training, uplink, server and ledger."""
    world = build_world(settings, CPU)
    state, _ = run_round(world, State(0, world.model.initial()))
    begin = time.perf_counter()
    for _ in range(rounds):
        state, _ = run_round(world, state)
    return rounds / (time.perf_counter() - begin)


def main() -> None:
    """Print all figures."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for model, repeats in MODELS.items():
        compare_engines(model, repeats)
    print("\nwhole rounds of the demo (mlp, compiled where possible), without evaluation")
    energies = ("fsk-mv", "reed", "ncairfl", "affine-oac", "balanced-digits")
    for name in ("fedavg", "pfels", "wfl-p", "wfl-pdp", *energies, "md-aircomp"):
        settings = airfl.load_settings(
            DEMO, [f"scheme.name={name}", f"local.engine={ENGINE}", "run.rounds=1000", "run.evaluate_every=1000"]
        )
        print(f"  {name:26s} {statistics.median(whole_rounds(settings, ROUNDS) for _ in range(TURNS)):8.1f} rounds/s")


if __name__ == "__main__":
    main()
