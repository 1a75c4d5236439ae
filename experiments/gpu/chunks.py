"""The number of devices that are trained at once by the GPU's memory: which, how much it takes, what it changes."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

import airfl
from airfl.core.state import World
from airfl.core.world import world_of
from airfl.learning.gpu_memory import SHARE_OF_FREE, GpuMemory
from airfl.learning.task import build_task
from airfl.runtime.precision import precision
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from experiments.benchmarks.large_round import PAPER
from experiments.gpu.repeated import trace_differences
from experiments.gpu.rows import CPU, Given, Row, equal, figure, guarded, within
from experiments.gpu.worlds import random_images, relative_error, short_settings

SMALL_MODEL = ("task.model=cnn-cifar10",)
SMALL = ("task.model=cnn-cifar10", "run.devices=10", "local.batch_size=2", "local.epochs=1")
SCHEMES = {"pfels": (), "fed-spa": SMALL_MODEL}
"""With their overrides: the gradients of single samples of a large model take minutes."""
TOLERANCE = 1e-3
"""Of an update in float32, whose sums are in another order."""
SLACK = 1.1
"""By which a further call may exceed what was measured: libraries choose their workspace anew."""


def chunks(given: Given) -> Iterator[Row]:
    """Yield checks of the chosen number of devices, and of runs on a further GPU."""
    with precision("float32"):
        for scheme, own in SCHEMES.items():
            yield from guarded(scheme, functools.partial(_chosen, given, scheme, own))
    yield from guarded("a further GPU", lambda: _elsewhere(given))


def _chosen(given: Given, scheme: str, own: tuple[str, ...]) -> Iterator[Row]:
    """Yield the number of devices at once, its memory, and the error against devices that are trained one by one."""
    selected = given.pick(1000, 4)
    settings = airfl.load_settings(
        PAPER,
        [
            *(f"scheme.name={scheme}", f"run.selected={selected}", "local.engine=layers"),
            *given.pick(("run.devices=1000", *own), SMALL),
        ],
    )
    raw = random_images(given.pick(50_000, 100))[0]

    def world(chunk: int) -> World:
        mine = settings.resolved(run={"chunk": chunk}) if chunk else settings
        return world_of(mine, build_task(mine, raw, Streams(0)), given.device)

    free = GpuMemory(given.device).free_and_all()[0] if given.device.type != CPU else 0
    found = world(0)
    several = found.trainer.chunk
    yield figure(f"{scheme}: devices at once, of {selected}", several)
    if given.on_gpu:
        peak = GpuMemory(given.device).peak_of(lambda: _updates(found, several, several))
        text = f", {peak / 1e9:.2f} GB of {free / 1e9:.2f} GB free"
        yield within(f"{scheme}: share of the free memory", peak / free, SLACK * SHARE_OF_FREE, text)
    few = min(several, 8)
    settings = settings.resolved(local={"epochs": 1})  # later steps of a large model multiply what rounding changes
    error = relative_error(_updates(world(few), few, few), _updates(world(1), few, 1))
    yield within(f"{scheme}: {few} devices at once against one by one", error, TOLERANCE)


def _updates(world: World, devices: int, at_once: int) -> Tensor:
    """Return the updates of the first devices in the first round, [devices, d]."""
    ids = np.arange(devices)
    parts = np.array_split(ids, -(-devices // at_once))
    return torch.cat([world.trainer.updates(world.model.initial(), part, 0, Store()) for part in parts])


def _elsewhere(given: Given) -> Iterator[Row]:
    """Yield whether the last GPU gives the trace of the first, bit for bit."""
    count = torch.cuda.device_count() if given.on_gpu else 0
    if count < 2:
        yield figure("a further GPU", "none here")
        return
    settings = short_settings("pfels")
    first, last = (airfl.run(settings, device=f"cuda:{number}") for number in (0, count - 1))
    different = trace_differences(last.path, first.path)
    yield equal(f"a run on cuda:{count - 1} against cuda:0", not different, ", ".join(different))
