"""Runs, models and data for the stages, and measurements of time and memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

import airfl
from airfl.analysis.bench import peak_memory_bytes
from airfl.analysis.profile import settle
from airfl.core.building import build_scenario
from airfl.core.state import State, World
from airfl.core.world import build_world
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.datasets import data_folders, find_dataset, load_dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.models import MODELS
from airfl.learning.tasks.partitions import Partition
from experiments.benchmarks.large_round import Untrained
from experiments.gpu.rows import Given, Row, figure

SHORT = (
    *("run.rounds=4", "run.devices=24", "run.selected=4", "run.evaluate_every=2", "run.threads=1"),
    *("local.steps=2", "local.epochs=0", "local.batch_size=5", "local.engine=layers", "task.public_samples=50"),
)
"""Overrides that make the demo short."""
OWN = ("scheme.ratio=0.3", "scheme.noise_multiplier=0.5")
"""Overrides that are given to the schemes that accept them."""
CHARACTERS = 90
OF_BYTES = ("cnn-cifar10",)
"""Models whose random samples are bytes in three channels, to be normalised as those of a data set are."""
SHAPE, CLASSES = (3, 32, 32), 10
"""Of CIFAR-10."""


def short_settings(scheme: str, *overrides: str) -> airfl.Settings:
    """Return the settings of a short run of the demo under a scheme."""
    accepted = [f"scheme.name={scheme}", *SHORT, *overrides]
    for own in OWN:
        try:
            airfl.load_settings("demo", [*accepted, own])
        except airfl.UserError:
            continue
        accepted.append(own)
    return airfl.load_settings("demo", accepted)


def short_world(scheme: str, device: torch.device, *overrides: str) -> World:
    """Return the fixed objects of a short run of the demo under a scheme."""
    return build_world(short_settings(scheme, *overrides), device)


def first_state(world: World) -> State:
    """Return the state before the first round."""
    return State(0, world.model.initial(), world.scenario.memory)


def untrained_world(settings: airfl.Settings, updates: Tensor, devices: int, samples: int) -> World:
    """Return the fixed objects of a round in which every chunk has these updates, [chunk, d], without training or
    privacy. devices: N, with equal weights; samples: of a device."""
    dimension = updates.shape[1]
    return World(
        scenario=build_scenario(settings, dimension, np.ones(devices), samples),
        task=cast(Any, None),
        model=cast(Any, None),
        trainer=Untrained(len(updates), "layers", updates),
        update_bound=settings.local.update_bound,
        compute=settings.compute,
        ledger=cast(Any, None),
        device=updates.device,
        public_update=cast(Any, None),
    )


def unequal_task(name: str, sizes: Sequence[int], dtype: torch.dtype = torch.float32) -> DividedTask:
    """Return random samples in the shape of a model's inputs, divided among devices of these sizes."""
    entry, count = MODELS[name](), int(sum(sizes))
    generator = torch.Generator().manual_seed(1)
    mean: tuple[float, ...] = ()
    if name == "lstm":
        inputs = torch.randint(CHARACTERS, (count, *entry.input_shape), generator=generator)
    elif name in OF_BYTES:
        inputs = torch.randint(256, (count, *entry.input_shape), generator=generator, dtype=torch.uint8)
        mean = (0.5, 0.4, 0.6)
    else:
        inputs = torch.randn(count, *entry.input_shape, generator=generator).to(dtype)
    targets = torch.randint(entry.classes, (count,), generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = entry.build().to(dtype)
    samples, nobody = Samples(inputs, targets), Samples(inputs[:0], targets[:0])
    order = np.random.default_rng(0).permutation(count)
    partition = Partition(order, np.cumsum([0, *sizes]))
    return DividedTask(samples, nobody, nobody, nobody, partition, mean, tuple(0.5 * one for one in mean), model)


def cifar10() -> tuple[RawData, str]:
    """Return CIFAR-10 where it is found, else random bytes of its shape, and which of them."""
    folders = data_folders()
    if find_dataset("cifar10", folders) is not None:
        return load_dataset("cifar10", folders), "CIFAR-10"
    return random_images(50_000)


def random_images(samples: int) -> tuple[RawData, str]:
    """Return so many random training samples of CIFAR-10's shape, and what they are."""
    generator, tested = np.random.default_rng(0), max(samples // 5, CLASSES)
    inputs = generator.integers(0, 256, (samples + tested, *SHAPE), dtype=np.uint8)
    targets = generator.integers(0, CLASSES, samples + tested)
    parts = inputs[:samples], targets[:samples], inputs[samples:], targets[samples:]
    return RawData(*parts, CLASSES, (0.5,) * 3, (0.25,) * 3), "random bytes in the place of CIFAR-10"


@dataclass(frozen=True)
class Timed:
    """Times of repeated calls.

    Attributes:
        seconds: Of each call.
        peak_bytes: Peak memory: of the GPU during the calls, on a CPU that of the process.
    """

    seconds: tuple[float, ...]
    peak_bytes: int

    @property
    def median(self) -> float:
        """Median in s."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """(max - min)/median."""
        return (max(self.seconds) - min(self.seconds)) / self.median

    def rows(self, what: str, goal: str = "", calls: int = 1) -> Iterator[Row]:
        """Yield rows of a call: seconds, spread and peak memory. calls: how often `what` happens in a timed call."""
        spread = f"{self.median / calls:.4g} s, spread {100 * self.spread:.0f}% over {len(self.seconds)}"
        yield figure(what, spread, goal)
        yield figure(f"{what}: peak memory", f"{self.peak_bytes / 1e6:,.0f} MB")


LONGEST_S = 8.0
"""After so many seconds of calls, no further one is timed."""


def timed(work: Callable[[], object], device: torch.device, least: int = 3, least_s: float = 2.0) -> Timed:
    """Time calls after one that warms up, at least so many and for so many seconds, but not beyond LONGEST_S."""
    work()
    settle(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds: list[float] = []
    while not seconds or (sum(seconds) < LONGEST_S and (len(seconds) < least or sum(seconds) < least_s)):
        begin = time.perf_counter()
        work()
        settle(device)
        seconds.append(time.perf_counter() - begin)
    return Timed(tuple(seconds), peak_memory_bytes(device))


def relative_error(found: Tensor, wanted: Tensor) -> float:
    """Return ||found - wanted||/||wanted|| in double precision, for tensors on any devices."""
    there, here = found.detach().cpu().double(), wanted.detach().cpu().double()
    return float((there - here).norm() / here.norm().clamp_min(torch.finfo(torch.float64).tiny))


def steady(given: Given) -> tuple[int, float]:
    """Return how many calls and seconds `timed` takes at least."""
    return (1, 0.0) if given.small else (3, 1.0)
