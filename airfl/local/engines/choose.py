"""Which engine computes a run's local SGD, for how many devices at once.

A setting decides, else a measurement on this machine, kept on disk; a short run takes what is usually good, since it
would be over before a measurement pays. All engines give the same numbers to rounding, and a run's trace names its own.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from airfl.config.settings import LocalSettings, RunSettings
from airfl.errors import UserError
from airfl.local.batches import plan_batches
from airfl.local.engines import kept
from airfl.local.engines.engine import Engine, Work
from airfl.local.engines.own_model import Trial, first_line, rule_of
from airfl.local.engines.table import ENGINES, Bench
from airfl.local.flat import FlatModel
from airfl.local.layers import as_layers
from airfl.local.sample_layers import numbers_in
from airfl.local.sgd import normalise
from airfl.streams import Streams
from airfl.tasks.task import DividedTask

# Parameters times samples that all devices go through in a run: from here on a measurement of some seconds pays.
WORK_WORTH_MEASURING = 2e10
# Compiling takes some 15 s the first time; below this many steps of a chunk the run is done sooner without.
STEPS_WORTH_COMPILING = 400
CHUNK_MEMORY_BYTES = 512 << 20
# What a chunk takes where nothing was measured: caches are small.
USUAL_CHUNK_BYTES = 128 << 20
SECONDS_A_CANDIDATE = 0.5
# Compiling a small model's step saves up to a third of its time, and takes 10 s or more.
SECONDS_WORTH_COMPILING = 60.0
COMPILED_GAIN = 0.85
# Parameters up to which it can: the time of larger models is in products and convolutions.
SMALL = 100_000
# An engine that takes so many times the best is not tried in larger chunks.
HOPELESS = 2.0


@dataclass(frozen=True)
class Chosen:
    """The engine that a run takes.

    Attributes:
        name: Its name in settings.
        chunk: Devices in a chunk.
        engine: The engine itself.
    """

    name: str
    chunk: int
    engine: Engine


@dataclass(frozen=True)
class Load:
    """What a run computes.

    Attributes:
        batch: Samples in a batch.
        steps: Most steps of a device in a round.
        selected: Devices in a round.
        rounds: Rounds of the run.
    """

    batch: int
    steps: int
    selected: int
    rounds: int

    @classmethod
    def of(cls, local: LocalSettings, run: RunSettings, sizes: np.ndarray) -> Load:
        """Of local SGD on devices with that many samples."""
        batch = min(local.batch_size, int(sizes.max()))
        return cls(batch, int(rule_of(local).steps_of(sizes).max()), run.selected, run.rounds)


def choose(local: LocalSettings, run: RunSettings, model: FlatModel, task: DividedTask, streams: Streams) -> Chosen:
    """The engine and chunk of these settings, or those that suit the run where they are left open."""
    load = Load.of(local, run, task.partition.sizes)
    bench = Bench(model, task, local.momentum, 1, load.steps, load.batch)
    if task.own is not None:
        return _choose_for_own(local, run.chunk, bench, load, streams)
    name: str = local.engine
    chunk = run.chunk
    work = model.dimension * load.batch * load.steps * load.selected * load.rounds
    left_open = local.measure and (name == "auto" or not chunk)
    if left_open and work >= WORK_WORTH_MEASURING:
        name, chunk = _measured(local, chunk, bench, load, streams)
    if name == "auto":
        name = usual_engine(bench, load)
    chunk = chunk or usual_chunk(name, bench, load, USUAL_CHUNK_BYTES)
    engine = ENGINES[name](replace(bench, chunk=chunk))
    if engine is None:  # no compiler, or a module of the caller's own that this engine does not know
        name = usual_engine(bench, replace(load, rounds=0))
        engine = ENGINES[name](replace(bench, chunk=chunk))
    assert engine is not None
    return Chosen(name, chunk, engine)


def _choose_for_own(local: LocalSettings, chunk: int, bench: Bench, load: Load, streams: Streams) -> Chosen:
    """The same for a user's own model: an engine has to give what the loop gives, and one line says which it is."""
    trial = Trial(local, bench, streams)
    name: str = local.engine
    usual, measured = _usual_for_own(bench, load, trial), False
    work = bench.model.dimension * load.batch * load.steps * load.selected * load.rounds
    if local.measure and (name == "auto" or not chunk) and work >= WORK_WORTH_MEASURING:
        measured = True
        name, chunk = _measured(local, chunk, bench, load, streams, usual, trial)
    if name == "auto":
        name = usual
    chunk = chunk or usual_chunk(name, bench, load, USUAL_CHUNK_BYTES)
    engine = trial.build(name, chunk)
    if engine is None and local.engine != "auto":
        raise UserError(
            f"local.engine: {local.engine!r} is not for the model of task {trial.name!r}: "
            f"{trial.why_not[name]}; take 'auto'"
        )
    if engine is None:  # compiled: no compiler, or none that takes the model
        name = _usual_for_own(bench, replace(load, rounds=0), trial)
        engine = trial.build(name, chunk)
    assert engine is not None  # the loop is for every model
    trial.tell(name, measured)
    return Chosen(name, chunk, engine)


def _usual_for_own(bench: Bench, load: Load, trial: Trial) -> str:
    """`usual_engine` of those that give what the loop gives."""
    name = usual_engine(bench, load, trial.why_not)
    if name == "compiled" and trial.build("vmap", 1) is None:
        return "loop"
    while trial.build(name, 1) is None and name != "compiled":
        name = "vmap" if name == "layers" and _can_vmap(bench, trial.why_not) else "loop"
    return name


def usual_engine(bench: Bench, load: Load, why_not: dict[str, str] | None = None) -> str:
    """What is good on most machines: hand-batched layers, else vmap where torch knows how, compiled for long runs.

    why_not: is told of engines that cannot compute the model.
    """
    found = as_layers(bench.model.module, bench.model.loss)
    if not isinstance(found, str):
        return "layers"
    why_not = {} if why_not is None else why_not
    why_not["layers"] = found
    if not _can_vmap(bench, why_not):
        return "loop"
    chunk = usual_chunk("vmap", bench, load, CHUNK_MEMORY_BYTES)
    steps = load.rounds * -(-load.selected // chunk) * load.steps
    if steps >= STEPS_WORTH_COMPILING:
        return "compiled"
    why_not["compiled"] = "so short a run is over before compiling pays"
    return "vmap"


def usual_chunk(name: str, bench: Bench, load: Load, memory_bytes: int) -> int:
    """As many of the r devices as fit into that memory, 1 in a loop."""
    if name == "loop":
        return 1
    if bench.device.type == "cuda":
        memory_bytes = max(memory_bytes, torch.cuda.mem_get_info(bench.device)[0] // 4)
    # Parameters, velocities, gradients, update; activations and their slopes for a batch.
    task = bench.task
    activations = _activations(task.model, normalise(task.train.inputs[:1], task.mean, task.std))
    floats = 4 * bench.model.dimension + 3 * load.batch * activations
    chunk = max(1, min(load.selected, memory_bytes // (4 * floats)))
    return max(chunk, min(torch.get_num_threads(), load.selected)) if name.endswith("parallel") else chunk


def _can_vmap(bench: Bench, why_not: dict[str, str]) -> bool:
    """Whether torch computes many devices' copies of the model at once; why not is told."""
    found = cannot_vmap(bench.model, bench.task)
    if found is not None:
        why_not["vmap"] = found
    return found is None


def cannot_vmap(model: FlatModel, task: DividedTask) -> str | None:
    """Why torch does not compute many devices' copies of the model at once without a loop; None where it does."""

    def loss(parameters: tuple[Tensor, ...], inputs: Tensor, targets: Tensor) -> Tensor:
        return model.losses(parameters, inputs, targets).sum()

    rows = torch.from_numpy(task.partition.indices[:1]).to(task.train.targets.device)
    inputs = normalise(task.train.inputs[rows], task.mean, task.std)
    parts = tuple(part[None] for part in model.split(model.initial()))
    try:
        with warnings.catch_warnings(action="error"):  # which is how vmap says that it loops
            torch.func.vmap(torch.func.grad(loss))(parts, inputs[None], task.train.targets[rows][None])
    except Exception as error:  # whatever vmap does not like, the loop gives the same numbers
        return first_line(error)
    return None


def _measured(
    local: LocalSettings,
    chunk: int,
    bench: Bench,
    load: Load,
    streams: Streams,
    usual: str | None = None,
    trial: Trial | None = None,
) -> tuple[str, int]:
    """The fastest of the candidates that the settings leave, as measured now or before on this machine. usual, trial:
    of a user's own model."""
    address = kept.address(bench, load, local.engine, chunk)
    found = kept.read(address)
    if found is None:
        found = _fastest(local, chunk, bench, load, streams, usual, trial)
        kept.write(address, found)
    return found


def _fastest(
    local: LocalSettings,
    given: int,
    bench: Bench,
    load: Load,
    streams: Streams,
    usual: str | None = None,
    trial: Trial | None = None,
) -> tuple[str, int]:
    """Least seconds a device over one chunk each. given: the chunk that the settings ask for, 0 for none."""
    usual = usual or usual_engine(bench, load)

    def build(name: str, chunk: int) -> Engine | None:
        return trial.build(name, chunk) if trial else ENGINES[name](replace(bench, chunk=chunk))

    best, least = (usual, 0), math.inf
    hopeless: set[str] = set()
    for name, chunk in candidates(local.engine, given, bench, load, usual):
        engine = None if name in hopeless else build(name, chunk)
        if engine is None:
            continue
        seconds = _seconds(engine, local, bench, chunk, streams, least)
        if seconds > HOPELESS * least and chunk > 1:
            hopeless.add(name)  # nor in larger chunks
        if seconds < least:
            best, least = (name, chunk), seconds
    long_run = least * load.selected * load.rounds > SECONDS_WORTH_COMPILING
    if local.engine == "auto" and long_run and bench.model.dimension <= SMALL:
        limit = COMPILED_GAIN * least
        chunk = given or usual_chunk("compiled", bench, load, CHUNK_MEMORY_BYTES)
        for name in ("compiled", "compiled-serial"):
            engine = build(name, chunk)
            seconds = math.inf if engine is None else _seconds(engine, local, bench, chunk, streams, least)
            if seconds < min(limit, least):
                best, least = (name, chunk), seconds
    return best[0], best[1] or usual_chunk(best[0], bench, load, USUAL_CHUNK_BYTES)


def candidates(engine: str, chunk: int, bench: Bench, load: Load, usual: str = "") -> Iterator[tuple[str, int]]:
    """Engines and chunks that might be the fastest and that the settings allow; of an engine small chunks first.

    usual: the usual engine, where that is known.
    """
    threads, usual = torch.get_num_threads(), usual or usual_engine(bench, load)
    if engine != "auto":
        names: list[str] = [engine]
    elif usual == "layers":
        names = ["layers-parallel", "layers-serial", "layers", "loop"]
    else:
        names = [usual, "loop"]
    if bench.device.type == "cuda" or threads == 1:
        names = [name for name in names if "-" not in name] or names
    for name in names:
        if chunk:
            yield name, chunk
            continue
        largest = usual_chunk(name, bench, load, CHUNK_MEMORY_BYTES)
        if not name.startswith("layers"):
            yield name, largest
            continue
        smaller = min(threads if name.endswith("parallel") else 1, largest)
        while smaller < largest:
            yield name, smaller
            smaller *= 4
        yield name, largest


def _seconds(engine: Engine, local: LocalSettings, bench: Bench, chunk: int, streams: Streams, least: float) -> float:
    """Of a device in a chunk of this engine, the least of some turns."""
    sizes = bench.task.partition.sizes
    devices = np.argsort(-sizes, kind="stable")[:chunk].astype(np.int64)
    plan = plan_batches(rule_of(local), streams, 0, devices, sizes[devices], int(sizes.max()))
    work = Work(bench.task, devices, plan, local.learning_rate)
    updates = torch.empty(len(devices), bench.model.dimension, device=bench.device)
    start = bench.model.initial()
    turns: list[float] = []
    while not turns or (sum(turns) < SECONDS_A_CANDIDATE and min(turns) < HOPELESS * least * len(devices)):
        begin = time.perf_counter()
        engine.train(start, work, updates)
        if bench.device.type == "cuda":
            torch.cuda.synchronize(bench.device)
        turns.append(time.perf_counter() - begin)
    return min(turns) / len(devices)


def _activations(module: nn.Module, inputs: Tensor) -> int:
    """Numbers that a forward pass of one sample produces; inputs: [1, *shape]."""
    total = 0

    def count(_module: nn.Module, _inputs: object, output: object) -> None:
        nonlocal total
        total += numbers_in(output)

    hooks = [part.register_forward_hook(count) for part in module.modules()]
    with torch.no_grad():
        module(inputs)
    for hook in hooks:
        hook.remove()
    return total
