"""What a GPU does beside other work: evaluations beside the next round, and plans of batches made while it trains.

Both are compared with runs in which everything is waited for: the traces must be equal bit for bit.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import airfl
from airfl.callbacks import Callback
from airfl.core.record import Record
from airfl.core.round import begin_round, run_round
from airfl.core.state import State, World
from airfl.core.world import world_of
from airfl.learning.batches import BatchRule, independent_batches, plan_batches
from airfl.learning.task import build_task
from airfl.runtime.streams import Streams
from experiments.benchmarks.large_round import PAPER
from experiments.gpu.imitation import imitated_gpu
from experiments.gpu.repeated import trace_differences
from experiments.gpu.rows import IMITATED, Given, Row, equal, figure, guarded
from experiments.gpu.worlds import cifar10, first_state, random_images, short_settings, short_world, steady, timed

TRACED = (
    ("pfels", "local.engine=layers"),
    ("fedavg", "local.engine=graphed"),
    ("fed-spa", "local.engine=layers"),
    ("soteriafl-saga", "local.engine=layers"),
)
"""Schemes and engines whose traces are compared."""
FEW = ("task.model=cnn-cifar10", "run.devices=10", "run.selected=2", "local.batch_size=2", "local.epochs=1")
TIMED_ROUNDS = 4
PLANS = ((32, 50, 5, 50), (1000, 5, 5, 50), (1000, 50, 5, 50))
"""Devices that are planned for, samples of each, epochs and batch size. The first is PFELS on CIFAR-10."""
PLANNED = 15
"""Plans whose median time is taken."""
GOAL_S = 0.3
"""Of a round of the first plan, see figures.py."""


class Reader(Callback):
    """A callback, which reads each record before the next round begins."""


def overlap(given: Given) -> Iterator[Row]:
    """Yield the checks of traces, the times of evaluated rounds with and without overlap, and those of plans."""
    for scheme, engine in given.pick(TRACED, TRACED[:1] if given.place == "cpu" else TRACED[:2]):
        what = f"{scheme}, {engine.partition('=')[2]}"
        yield from guarded(what, functools.partial(_traces, given, scheme, engine, what))
    for name, build in (("the demo", _demo), ("PFELS on CIFAR-10", _paper))[: given.pick(None, 1)]:
        yield from guarded(name, functools.partial(_times, given, name, build))
    for plan in PLANS:
        yield from guarded(str(plan), functools.partial(_planned, *plan))


def _traces(given: Given, scheme: str, engine: str, what: str) -> Iterator[Row]:
    """Compare traces of a run as it is with those of runs in which evaluations, or plans, are waited for."""
    settings = short_settings(scheme, engine, "run.evaluate_every=1", "run.chunk=2", "trace.gradient_norm=true")

    def run(folder: Path, *callbacks: Callback) -> Path:
        # On the imitated GPU, with streams that do nothing before somebody waits for it.
        with imitated_gpu(late=True) if given.place == IMITATED else nullcontext():
            return airfl.run(settings, folder, given.device.type, callbacks=callbacks).path

    with tempfile.TemporaryDirectory() as folder:
        usual, apart = run(Path(folder) / "usual"), run(Path(folder) / "apart", Reader())
        with mock.patch("airfl.core.round.prepare_next"):
            planned = run(Path(folder) / "planned")
        for against, other in (("an evaluation is waited for", apart), ("batches are planned when needed", planned)):
            different = trace_differences(usual, other)
            yield equal(f"{what}: the trace where {against}", not different, ", ".join(different))


def _demo(given: Given) -> World:
    return short_world("pfels", given.device, "run.evaluate_every=1", "run.rounds=1000")


def _paper(given: Given) -> World:
    raw, _ = random_images(100) if given.small else cifar10()
    settings = airfl.load_settings(PAPER, [*given.pick((), FEW), "local.engine=layers", "run.evaluate_every=1"])
    return world_of(settings, build_task(settings, raw, Streams(0)), given.device)


def _times(given: Given, name: str, build: Callable[[Given], World]) -> Iterator[Row]:
    """Yield the time of evaluated rounds as they are, and without what happens beside other work."""
    world = build(given)
    ways: dict[str, tuple[Callable[[World], object], Any]] = {
        "as in a run": (_overlapped, nullcontext()),
        "each evaluation waited for": (_one_after_the_other, nullcontext()),
        "batches planned when needed": (_overlapped, mock.patch("airfl.core.round.prepare_next")),
    }
    medians = {}
    for way, (rounds, patch) in ways.items():
        with ExitStack() as held:
            held.enter_context(patch)
            found = timed(functools.partial(rounds, world), given.device, *steady(given))
        medians[way] = found.median / TIMED_ROUNDS
        yield from found.rows(f"{name}: {TIMED_ROUNDS} evaluated rounds, {way}")
    usual, *others = medians
    for other in others:
        yield figure(f"{name}: time of a round, {usual} over {other}", f"{medians[usual] / medians[other]:.3f}")


def _overlapped(world: World) -> list[Record]:
    """Run rounds as `airfl.run` does; training that diverges is of no importance here."""
    state, records, late = first_state(world), [], None
    for _ in range(TIMED_ROUNDS):
        state, opened = begin_round(world, state)
        if late is not None:
            records.append(late.close())
        late = opened
    assert late is not None
    return [*records, late.close()]


def _one_after_the_other(world: World) -> list[Record]:
    state: State = first_state(world)
    records = []
    for _ in range(TIMED_ROUNDS):
        state, record = run_round(world, state)
        records.append(record)
    return records


def _planned(devices: int, samples: int, epochs: int, batch: int) -> Iterator[Row]:
    """Yield the time that the CPU takes to plan the batches of a round, and its share of a round of the goal."""
    ids, sizes, streams = np.arange(devices), np.full(devices, samples), Streams(0)
    drawn = (streams, 3, ids, sizes, samples)
    ways: dict[str, Callable[[], object]] = {
        "passes over the data": lambda: plan_batches(BatchRule(epochs, 0, batch), *drawn),
        "independent draws": lambda: independent_batches(*drawn, epochs, batch),
    }
    for way, plan in ways.items():
        seconds = timed(plan, torch.device("cpu"), PLANNED, 0.0).median
        what = f"{devices} devices x {samples} samples, {epochs} epochs, batches of {batch}, {way}"
        share = f", {100 * seconds / GOAL_S:.2f}% of {GOAL_S:g} s" if (devices, samples) == PLANS[0][:2] else ""
        yield figure(f"plan of a round: {what}", f"{1e3 * seconds:.3g} ms{share}")
