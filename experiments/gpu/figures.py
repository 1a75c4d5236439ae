"""Times of rounds, sweeps and parts of rounds, with the goals that they are meant to reach on a data centre's GPU."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

import airfl
from airfl.analysis.profile import Stopwatch, profiled_round, settle
from airfl.config import Settings
from airfl.config.load import validate
from airfl.core.round import exchange, run_round
from airfl.core.state import State, World
from airfl.core.world import world_of
from airfl.learning.task import DividedTask, Samples, build_task
from airfl.learning.tasks.models.modules.resnet18 import build as build_resnet18
from airfl.learning.tasks.partitions import Partition
from airfl.runtime.precision import Precision, precision
from airfl.runtime.streams import Streams
from experiments.benchmarks.large_round import PAPER
from experiments.benchmarks.superposition import flat_channel, selective_channel
from experiments.gpu.environment import copy_bandwidth
from experiments.gpu.rows import CPU, IMITATED, Given, Row, figure, guarded
from experiments.gpu.worlds import CLASSES, SHAPE, cifar10, first_state, random_images, steady, timed, untrained_world

PEERS = Path(__file__).resolve().parents[1] / "benchmarks" / "peers"
ENDLESS = 1_000_000
PRECISIONS: tuple[Precision, ...] = ("float32", "tf32", "bf16")
PFELS_GOAL = "0.3 s"
PFL_GOAL = "20 x pfl 0.6"
PUBLISHED = {"ResNet-18": 1.63, "CNN": 3.70}
"""BlazeFL's rounds per minute on an A100, as published."""
BLAZEFL_GOAL = 10
SUPERPOSITION_GOAL = "70% or more"
SENDS = 8
"""Messages that are superposed before the CPU waits for the GPU, which it does once a round."""
SAMPLES = 50
PFL_PATH = "PFL_PATH"
"""Environment variable: a folder with pfl and what it needs, whose versions are not airfl's."""
CODE_OF_PFL = """
import sys
sys.path[:0] = {paths!r}
import workload
from experiments.gpu.figures import workload_of_pfl
workload.WORKLOADS[{name!r}] = workload_of_pfl(workload)
sys.argv[1:] = [{name!r}]
import pfl_peer
pfl_peer.main()
"""
"""Runs pfl's peer on a workload that is not in the table of the other benchmarks."""


def pfels_cifar10(given: Given) -> Iterator[Row]:
    """Yield the time of a round of PFELS at the paper's scale, by stages, precisions and engines."""
    few = ("task.model=cnn-cifar10", "run.devices=10", "run.selected=2", "local.batch_size=2", "local.epochs=1")
    raw, which = random_images(100) if given.small else cifar10()
    yield figure("data", which)
    for engine, kind in (("layers", "float32"), ("layers", "tf32"), ("layers", "bf16"), ("graphed", "tf32"))[
        : given.pick(None, 1)
    ]:
        settings = airfl.load_settings(
            PAPER, [*given.pick((), few), f"local.engine={engine}", "run.evaluate_every=2000"]
        )

        def rows(settings: Settings = settings, what: str = f"{engine}, {kind}", kind: Any = kind) -> Iterator[Row]:
            with precision(kind):
                world = world_of(settings, build_task(settings, raw, Streams(0)), given.device)
                yield from _rounds(given, world, f"PFELS on CIFAR-10, {what}", PFELS_GOAL)

        yield from guarded(f"{engine}, {kind}", rows)


def _rounds(given: Given, world: World, what: str, goal: str) -> Iterator[Row]:
    """Yield the time of whole rounds without evaluation, and that of the stages of one round."""
    state = first_state(world)
    initial = state.parameters

    def one() -> None:
        nonlocal state
        after, _ = run_round(world, state)
        state = replace(after, parameters=initial)  # training that diverges would end the measurement

    found = timed(one, given.device, *steady(given))
    yield from found.rows(what, goal)
    yield figure(f"{what}: engine and chunk", f"{world.trainer.engine}, {world.trainer.chunk}")
    _, seconds = profiled_round(world, state, lambda _: None)
    yield figure(f"{what}: stages", _shares(seconds))


def _shares(seconds: dict[str, float]) -> str:
    total = sum(seconds.values())
    kept = sorted(seconds.items(), key=lambda one: -one[1])[:5]
    return f"{total:.4g} s: " + ", ".join(f"{name} {100 * part / total:.1f}%" for name, part in kept)


def tables(devices: int, selected: int, engine: str, **local: Any) -> Settings:
    """Return settings of a plain over-the-air scheme for models and data that come as tensors."""
    given: dict[str, Any] = {
        "run": {"rounds": ENDLESS, "evaluate_every": ENDLESS, "devices": devices, "selected": selected},
        "task": {"dataset": "cifar10", "model": "cnn-cifar10"},
        "local": {"learning_rate": 0.05, "momentum": 0.0, "clip_norm": 1.0, "engine": engine, **local},
        "scheme": {"name": "wfl-p"},
        "power": {"max_snr_db": [40.0, 50.0]},
    }
    return validate(given, source="figures of gpu.py")


def task_of(model: nn.Module, devices: int, samples: int) -> DividedTask:
    """Return random images of CIFAR-10's shape, so many on each device."""
    generator, total = torch.Generator().manual_seed(0), devices * samples
    inputs = torch.randn(total, *SHAPE, generator=generator)
    train = Samples(inputs, torch.randint(CLASSES, (total,), generator=generator))
    few = Samples(train.inputs[:samples], train.targets[:samples])
    partition = Partition(np.arange(total), np.arange(0, total + 1, samples))
    return DividedTask(train, few, few, few, partition, (), (), model)


def small_cnn() -> nn.Module:
    """Return pfl's CNN for CIFAR-10 without dropout, 890,410 parameters."""
    first = (nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, CLASSES))


def _pfl_ways(given: Given) -> tuple[tuple[str, Precision], ...]:
    return (("layers", "float32"), ("layers", "tf32"), ("graphed", "tf32"))[: given.pick(3, 1)]


def pfl_cifar10(given: Given) -> Iterator[Row]:
    """Yield rounds per second in pfl's published setting, and those of pfl itself where it is installed."""
    devices, selected = given.pick((1000, 50), (20, 4))
    rates = {}
    for engine, kind in _pfl_ways(given):
        what = f"pfl's CIFAR-10, {engine}, {kind}"

        def rows(engine: str = engine, kind: Any = kind, what: str = what) -> Iterator[Row]:
            settings = tables(devices, selected, engine, epochs=1, batch_size=10)
            with precision(kind):
                world = world_of(settings, task_of(small_cnn(), devices, SAMPLES), given.device)
                found = list(_rounds(given, world, what, PFL_GOAL))
            rates[what] = 1 / float(found[0].value.partition(" ")[0])
            yield from found
            yield figure(f"{what}: 1,500 rounds", f"{1500 / rates[what]:.4g} s, {rates[what]:.4g} rounds/s")

        yield from guarded(what, rows)
    if PFL_PATH not in os.environ and importlib.util.find_spec("pfl") is None:
        yield figure("pfl", f"is not installed, and {PFL_PATH} names no folder with it")
        return
    yield from guarded("pfl", lambda: _beside_pfl(rates))


def workload_of_pfl(workload: Any) -> Any:
    """Return pfl's setting as a workload of the peers, with its data on the GPU where there is one."""

    class OnDevice(workload.Workload):  # type: ignore[misc]  # the module is that of another script
        def data(self) -> tuple[Tensor, Tensor]:
            inputs, labels = super().data()
            return (inputs.cuda(), labels.cuda()) if torch.cuda.is_available() else (inputs, labels)

    size = {"samples": SAMPLES, "epochs": 1, "rounds": 20, "devices": 1000, "selected": 50, "momentum": 0.0}
    return OnDevice("pfl-cifar10", small_cnn, 890_410, SHAPE, **size)


def _beside_pfl(rates: dict[str, float]) -> Iterator[Row]:
    root = PEERS.parents[2]
    apart = [os.environ[PFL_PATH]] if PFL_PATH in os.environ else []
    code = CODE_OF_PFL.format(paths=[*apart, str(PEERS), str(root)], name="pfl-cifar10")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        yield figure("pfl", f"failed: {done.stderr.strip().splitlines()[-1:]}")
        return
    sys.path.insert(0, str(PEERS))
    from workload import Result

    result = Result.read(done.stdout)
    yield figure("pfl", f"{result.rate:.4g} rounds/s, {result.note}")
    for what, rate in rates.items():
        yield figure(f"{what} relative to pfl", f"{rate / result.rate:.1f} x", PFL_GOAL)


def resnet18() -> nn.Module:
    """Return airfl's ResNet-18 for three channels and ten classes."""
    module = cast(nn.Sequential, build_resnet18())
    module[0], module[-1] = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.Linear(512, CLASSES)
    return module


def blazefl(given: Given) -> Iterator[Row]:
    """Yield rounds per minute in BlazeFL's setting: every one of 100 clients with 500 samples trains five epochs."""
    devices, samples, epochs = given.pick((100, 500, 5), (2, 10, 1))
    for name, build in {"CNN": small_cnn, "ResNet-18": resnet18}.items():
        goal = f"{BLAZEFL_GOAL * PUBLISHED[name]:.4g} rounds/min ({BLAZEFL_GOAL} x {PUBLISHED[name]} on an A100)"
        for kind in given.pick(("tf32",), ("float32",)):

            def rows(
                kind: Any = kind, name: str = name, build: Callable[[], nn.Module] = build, goal: str = goal
            ) -> Any:
                settings = tables(devices, devices, "layers", epochs=epochs, batch_size=min(50, samples))
                with precision(kind):
                    world = world_of(settings, task_of(build(), devices, samples), given.device)
                    found = list(_rounds(given, world, f"BlazeFL's {name}, {kind}", goal))
                rate = 60 / float(found[0].value.partition(" ")[0])
                yield replace(found[0], value=f"{rate:.4g} rounds/min, {found[0].value}")
                yield from found[1:]

            yield from guarded(f"{name}, {kind}", rows)


def sweep(given: Given) -> Iterator[Row]:
    """Yield the points a minute of a sweep of the demo: by one process, by several that share one GPU, and by as many
    as its memory is found to allow."""
    if given.place == IMITATED:
        yield figure("a sweep", "its processes are not imitated")
        return
    ratios, rounds = given.pick(10, 2), given.pick(20, 2)
    axes = {
        "scheme.ratio": [round(0.1 * (number + 1), 1) for number in range(ratios)],
        "power.max_snr_db": [float(10 + 2 * number) for number in range(ratios)],
    }
    at_once = given.pick((1, 4, 0), (1, 2))
    rates: dict[int, float] = {}
    for jobs in at_once:
        name = f"{jobs} at a time" if jobs else "as many as fit"
        yield from guarded(name, functools.partial(_swept, given, axes, rounds, jobs, name, rates))


def _swept(
    given: Given, axes: dict[str, list[float]], rounds: int, jobs: int, name: str, rates: dict[int, float]
) -> Iterator[Row]:
    """Sweep over these axes with so many jobs. rates: points a second by jobs, to which this one is added."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        done = airfl.sweep(
            "demo",
            axes,
            out=folder,
            overrides=[f"run.rounds={rounds}"],
            jobs=jobs,
            device="cuda:0" if given.on_gpu else CPU,
        )
        seconds = time.perf_counter() - begin
    points = math.prod(map(len, axes.values()))
    rates[jobs] = points / seconds
    yield Row(f"points that failed, {name}", str(len(done.failed)), "none", not done.failed, str(done.failed)[:2000])
    what = f"a sweep of the demo, {points} points of {rounds} rounds, {name}"
    times = f", {rates[jobs] / rates[1]:.2f} x one at a time" if 1 in rates else ""
    yield figure(what, f"{60 * rates[jobs]:.1f} points a minute, {seconds / points:.3g} s a point{times}")


def superposition(given: Given) -> Iterator[Row]:
    """Yield the bytes of messages that are superposed per second, relative to what a copy reads and writes."""
    bandwidth = copy_bandwidth(given)
    yield figure("copy", f"{bandwidth / 1e9:,.1f} GB/s read and written")
    shapes = ((32, 10_000_000), (8, 10_000_000), (32, 1_000_000), (32, 100_000))
    for devices, entries in given.pick(shapes, ((8, 10_000),)):
        yield from guarded(
            f"{devices} x {entries:,}", functools.partial(_superposed, given, devices, entries, bandwidth)
        )


def _superposed(given: Given, devices: int, entries: int, bandwidth: float) -> Iterator[Row]:
    """Yield the rates of SENDS chunks one after another.

    With norms that the CPU knows, as in a round, nothing is waited for over a flat channel; the other two ways return
    energies that are computed on the GPU, so that every send waits.
    """
    messages = torch.randn(devices, entries, device=given.device)
    norms, scale, everyone = messages.norm(dim=1).double().cpu().numpy(), np.ones(devices), slice(0, devices)
    flat, selective = flat_channel(devices), selective_channel(devices, entries)
    ways: dict[str, Callable[[], object]] = {
        "flat channel": lambda: flat.send(messages, scale, everyone, norms),
        "flat channel, energies measured": lambda: flat.send(messages, scale, everyone),
        "selective channel": lambda: selective.send(messages, scale, everyone),
    }
    for name, send in ways.items():

        def often(send: Callable[[], object] = send) -> None:
            for _ in range(SENDS):
                send()

        found = timed(often, given.device, given.pick(5, 1), given.pick(0.5, 0.0))
        rate = 4 * devices * entries * SENDS / found.median
        goal = SUPERPOSITION_GOAL if name == "flat channel" else ""
        share = f"{100 * rate / bandwidth:.0f}% of copying, {rate / 1e9:,.0f} GB/s of messages"
        yield figure(f"{devices} x {entries:,}, {name}", share, goal)


def large_round(given: Given) -> Iterator[Row]:
    """Yield the time of PFELS' round without training at d = 10^8 and r = 128, by stages."""
    dimension, selected = given.pick((100_000_000, 128), (100_000, 8))
    device = given.device
    settings = airfl.load_settings(PAPER, [f"run.selected={selected}", "run.devices=1000"])
    chunk = given.pick(None, 4) or _fitting(device, dimension, selected)
    same = 1e-4 * torch.randn(chunk, dimension, device=device)
    world = untrained_world(settings, same, 1000, SAMPLES)
    parameters = torch.zeros(dimension, device=device)
    seconds: list[dict[str, float]] = []

    def one() -> None:
        watch = Stopwatch(lambda: settle(device))
        with watch.under("rest"):
            exchange(replace(world, step=watch.under), State(0, parameters, world.scenario.memory))
        seconds.append(defaultdict(float, watch.seconds))

    found = timed(one, device, given.pick(2, 1), 0.0)
    what = f"PFELS without training, d = {dimension:,}, r = {selected}, chunks of {chunk}"
    yield from found.rows(what)
    yield figure(f"{what}: stages", _shares(seconds[-1]))


def _fitting(device: torch.device, dimension: int, selected: int) -> int:
    """Return how many devices fit: their updates, what of these is sent and its copies, in half of the free memory."""
    from airfl.runtime.memory import machine_bytes

    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else machine_bytes() // 4
    return max(1, min(selected, free // 2 // (4 * dimension * 2)))
