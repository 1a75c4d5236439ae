"""Selection of the engine that computes a run's local SGD, and of the number of devices in a chunk.

A setting decides, otherwise a measurement on this machine, which is cached on disk. Short runs take the engine that is
usually the fastest, since a measurement would not pay. All engines agree up to rounding, and the trace of a run names
the engine that it used.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from airfl.config.learning import LocalSettings
from airfl.config.run import RunSettings
from airfl.errors import UserError
from airfl.learning.batches import plan_batches
from airfl.learning.engines import cache
from airfl.learning.engines.engine import Engine, Work
from airfl.learning.engines.own_model import OF_ONE_SIZE, EngineVerifier, first_line, rule_of
from airfl.learning.engines.spec import EngineSpec, Workload
from airfl.learning.engines.table import ENGINES
from airfl.learning.flat import FlatModel
from airfl.learning.gpu_memory import measured_chunk
from airfl.learning.layers import as_layers
from airfl.learning.sample_layers import numbers_in
from airfl.learning.samples import Samples
from airfl.learning.sgd import normalise
from airfl.learning.task import DividedTask
from airfl.runtime.streams import Streams

# Number of parameters times samples processed in a run: from here on, a measurement of some seconds pays.
WORK_WORTH_MEASURING = 2e10
# Compiling takes about 15 s the first time; with fewer steps of a chunk than this, the run is faster without.
STEPS_WORTH_COMPILING = 400
CHUNK_MEMORY_BYTES = 512 << 20
# Memory of a chunk if nothing was measured: caches are small.
USUAL_CHUNK_BYTES = 128 << 20
SECONDS_PER_CANDIDATE = 0.5
# Local steps that are measured of a device with more, if they take longer than that.
LEAST_STEPS = 16
# Compiling the step of a small model saves up to a third of its time, and takes 10 s or more.
SECONDS_WORTH_COMPILING = 60.0
COMPILED_GAIN = 0.85
# Most parameters of such a model: larger ones spend their time in products and convolutions.
SMALL = 100_000
# Most parameters of a model that, with their velocities, stay in a core's cache (2 MB).
IN_CACHE = 1 << 18
# An engine that is slower than the best by this factor is not tried with larger chunks.
TOO_SLOW = 2.0


@dataclass(frozen=True)
class EngineChoice:
    """The engine that a run uses.

    Attributes:
        name: Its name in the settings.
        chunk: Devices in a chunk.
        engine: The engine itself.
        spec: What it was built for, but for the chunk.
    """

    name: str
    chunk: int
    engine: Engine
    spec: EngineSpec

    def smaller(self, chunk: int) -> EngineChoice:
        """Return the same engine for a smaller chunk. Only those that pad chunks to one size depend on it."""
        engine = ENGINES[self.name](replace(self.spec, chunk=chunk)) if self.name.startswith(OF_ONE_SIZE) else None
        return replace(self, chunk=chunk, engine=engine or self.engine)


def workload_of(local: LocalSettings, run: RunSettings, sizes: np.ndarray) -> Workload:
    """Return the workload of local SGD on devices with `sizes` samples."""
    batch = min(local.batch_size, int(sizes.max()))
    return Workload(batch, int(rule_of(local).steps_of(sizes).max()), run.selected, run.rounds)


def choose(
    local: LocalSettings, run: RunSettings, model: FlatModel, task: DividedTask, streams: Streams
) -> EngineChoice:
    """Return the engine and chunk that the settings name, or, where they leave them open, those that suit the run."""
    workload = workload_of(local, run, task.partition.sizes)
    limit = math.inf if local.gradient_clip_norm is None else local.gradient_clip_norm
    spec = EngineSpec(model, task, local.momentum, 1, workload.steps, workload.batch, limit)
    if task.own is not None:
        return _choose_for_own(local, run.chunk, spec, workload, streams)
    name: str = local.engine
    chunk = run.chunk
    work = model.dimension * workload.batch * workload.steps * workload.selected * workload.rounds
    # Samples that are generated when needed are few at a time, and the largest devices may have very many.
    stored = isinstance(task.train, Samples)
    left_open = stored and local.measure and (name == "auto" or not chunk)
    if left_open and work >= WORK_WORTH_MEASURING:
        name, chunk = _measured(local, chunk, spec, workload, streams)
    if name == "auto":
        name = usual_engine(spec, workload)
    chunk = _chunk_for(name, run.chunk, chunk, local, spec, workload, streams)
    engine = ENGINES[name](replace(spec, chunk=chunk))
    if engine is None:  # no compiler, or a module that this engine does not support
        name = usual_engine(spec, replace(workload, rounds=0))
        engine = ENGINES[name](replace(spec, chunk=chunk))
    assert engine is not None
    return EngineChoice(name, chunk, engine, spec)


def _choose_for_own(
    local: LocalSettings, chunk: int, spec: EngineSpec, workload: Workload, streams: Streams
) -> EngineChoice:
    """Choose for a user-defined model: the engine's updates must agree with the loop's, and the choice is logged."""
    verifier = EngineVerifier(local, spec, streams)
    name: str = local.engine
    usual, measured, given = _usual_for_own(spec, workload, verifier), False, chunk
    work = spec.model.dimension * workload.batch * workload.steps * workload.selected * workload.rounds
    stored = isinstance(spec.task.train, Samples)
    if stored and local.measure and (name == "auto" or not chunk) and work >= WORK_WORTH_MEASURING:
        measured = True
        name, chunk = _measured(local, chunk, spec, workload, streams, usual, verifier)
    if name == "auto":
        name = usual
    chunk = _chunk_for(name, given, chunk, local, spec, workload, streams)
    engine = verifier.build(name, chunk)
    if engine is None and local.engine != "auto":
        raise UserError(
            f"local.engine: {local.engine!r} does not support the model of task {verifier.name!r}: "
            f"{verifier.why_not[name]}; use 'auto'"
        )
    if engine is None:  # "compiled": there is no compiler, or it fails on the model
        name = _usual_for_own(spec, replace(workload, rounds=0), verifier)
        engine = verifier.build(name, chunk)
    assert engine is not None  # the loop supports every model
    verifier.log_choice(name, measured)
    return EngineChoice(name, chunk, engine, spec)


def _usual_for_own(spec: EngineSpec, workload: Workload, verifier: EngineVerifier) -> str:
    """Return `usual_engine`, restricted to engines whose updates agree with the loop's."""
    name = usual_engine(spec, workload, verifier.why_not)
    if name == "compiled" and verifier.build("vmap", 1) is None:
        return "loop"
    while verifier.build(name, 1) is None and name != "compiled":
        slower = "layers" if name == "dense" else "vmap" if name == "layers" else "loop"
        name = slower if slower != "vmap" or _can_vmap(spec, verifier.why_not) else "loop"
    return name


def usual_engine(spec: EngineSpec, workload: Workload, why_not: dict[str, str] | None = None) -> str:
    """Return the engine that is usually the fastest: dense if it supports the model and a device's parameters fit into
    a processor's cache, else layers if they do, else vmap (compiled for long runs), else the loop.

    why_not: receives the reasons why engines cannot compute the model.
    """
    layered = as_layers(spec.model.module, spec.model.loss)
    if not isinstance(layered, str):
        return "dense" if spec.model.dimension <= IN_CACHE and ENGINES["dense"](spec) is not None else "layers"
    why_not = {} if why_not is None else why_not
    why_not["layers"] = layered
    if not _can_vmap(spec, why_not):
        return "loop"
    chunk = usual_chunk("vmap", spec, workload, CHUNK_MEMORY_BYTES)
    steps = workload.rounds * -(-workload.selected // chunk) * workload.steps
    if steps >= STEPS_WORTH_COMPILING:
        return "compiled"
    why_not["compiled"] = "the run is too short for compiling to pay"
    return "vmap"


def usual_chunk(name: str, spec: EngineSpec, workload: Workload, memory_bytes: int) -> int:
    """Return how many of the r devices fit into this much memory; 1 for the loop."""
    if name == "loop":
        return 1
    if spec.device.type == "cuda":
        memory_bytes = max(memory_bytes, torch.cuda.mem_get_info(spec.device)[1] // 8)
    # Parameters, velocities, gradients and update; activations and their gradients for a batch.
    task = spec.task
    activations = _activations(task.model, normalise(task.train.inputs[:1], task.mean, task.std))
    floats = 4 * spec.model.dimension + 3 * workload.batch * activations
    chunk = max(1, min(workload.selected, memory_bytes // (4 * floats)))
    return max(chunk, min(torch.get_num_threads(), workload.selected)) if name.endswith("parallel") else chunk


def _chunk_for(
    name: str,
    given: int,
    fastest: int,
    local: LocalSettings,
    spec: EngineSpec,
    workload: Workload,
    streams: Streams,
) -> int:
    """Return the number of devices in a chunk for this engine.

    On a GPU it is what fits, by measured memory, unless a smaller chunk was faster.

    Args:
        name: The engine.
        given: run.chunk, 0 for none.
        fastest: The chunk that was measured to be the fastest, 0 if none was measured.
        local: The section of local training.
        spec: What the engine is built for.
        workload: The size of the training.
        streams: Random streams of the run.
    """
    if given or spec.device.type != "cuda" or name == "loop":
        return given or fastest or usual_chunk(name, spec, workload, USUAL_CHUNK_BYTES)
    # A compiled step pads every chunk to one size; it takes no more memory than the engine that it is compiled from.
    eager = usual_engine(spec, replace(workload, rounds=0)) if name.startswith(OF_ONE_SIZE) else name
    engine = ENGINES[eager](spec)
    if engine is None or eager == "loop":
        return fastest or usual_chunk(name, spec, workload, USUAL_CHUNK_BYTES)

    def train(devices: int) -> None:
        start, work, updates = _one_chunk(local, spec, devices, streams)
        engine.train(start, work, updates)

    fitting = measured_chunk(train, workload.selected, spec.device, local.measure)
    return min(fastest, fitting) if 0 < fastest < usual_chunk(name, spec, workload, CHUNK_MEMORY_BYTES) else fitting


def _can_vmap(spec: EngineSpec, why_not: dict[str, str]) -> bool:
    """Whether vmap supports the model; otherwise the reason is added to `why_not`."""
    reason = cannot_vmap(spec.model, spec.task)
    if reason is not None:
        why_not["vmap"] = reason
    return reason is None


def cannot_vmap(model: FlatModel, task: DividedTask) -> str | None:
    """Return why torch.func.vmap cannot compute many devices' copies of the model without a loop; None if it can."""

    def loss(parameters: tuple[Tensor, ...], inputs: Tensor, targets: Tensor) -> Tensor:
        return model.losses(parameters, inputs, targets).sum()

    rows = torch.from_numpy(task.partition.indices[:1]).to(task.train.targets.device)
    inputs = normalise(task.train.inputs[rows], task.mean, task.std)
    parts = tuple(part[None] for part in model.split(model.initial()))
    try:
        with warnings.catch_warnings(action="error"):  # vmap warns if it falls back to a loop
            torch.func.vmap(torch.func.grad(loss))(parts, inputs[None], task.train.targets[rows][None])
    except Exception as error:  # whatever the reason is, the loop computes the same
        return first_line(error)
    return None


def _measured(
    local: LocalSettings,
    chunk: int,
    spec: EngineSpec,
    workload: Workload,
    streams: Streams,
    usual: str | None = None,
    verifier: EngineVerifier | None = None,
) -> tuple[str, int]:
    """Return the fastest candidate that the settings allow, as measured now or earlier on this machine.

    usual, verifier: given for a user-defined model.
    """
    key = cache.key_of(spec, workload, local.engine, chunk)
    fastest = cache.read(key, ENGINES)
    if fastest is None:
        fastest = _fastest(local, chunk, spec, workload, streams, usual, verifier)
        cache.write(key, fastest)
    return fastest


def _fastest(
    local: LocalSettings,
    fixed_chunk: int,
    spec: EngineSpec,
    workload: Workload,
    streams: Streams,
    usual: str | None = None,
    verifier: EngineVerifier | None = None,
) -> tuple[str, int]:
    """Return the candidate with the least time per device, measured on one chunk each.

    fixed_chunk: the chunk that the settings ask for, 0 for none.
    """
    usual = usual or usual_engine(spec, workload)

    def build(name: str, chunk: int) -> Engine | None:
        return verifier.build(name, chunk) if verifier else ENGINES[name](replace(spec, chunk=chunk))

    engines = (build(*one) for one in candidates(local.engine, fixed_chunk, spec, workload, usual))
    steps = _steps_worth_measuring((engine for engine in engines if engine is not None), local, spec, streams)
    best, least = (usual, 0), math.inf
    too_slow: set[str] = set()
    for name, chunk in candidates(local.engine, fixed_chunk, spec, workload, usual):
        engine = None if name in too_slow else build(name, chunk)
        if engine is None:
            continue
        seconds = _seconds(engine, local, spec, chunk, streams, least, steps)
        if seconds > TOO_SLOW * least and chunk > 1:
            too_slow.add(name)  # larger chunks are not tried
        if seconds < least:
            best, least = (name, chunk), seconds
    long_run = least * workload.selected * workload.rounds > SECONDS_WORTH_COMPILING
    if local.engine == "auto" and best[0] != "dense" and long_run and spec.model.dimension <= SMALL:
        limit = COMPILED_GAIN * least
        chunk = fixed_chunk or usual_chunk("compiled", spec, workload, CHUNK_MEMORY_BYTES)
        for name in ("compiled", "compiled-serial"):
            engine = build(name, chunk)
            seconds = math.inf if engine is None else _seconds(engine, local, spec, chunk, streams, least, steps)
            if seconds < min(limit, least):
                best, least = (name, chunk), seconds
    return best[0], best[1] or usual_chunk(best[0], spec, workload, USUAL_CHUNK_BYTES)


def candidates(
    engine: str, chunk: int, spec: EngineSpec, workload: Workload, usual: str = ""
) -> Iterator[tuple[str, int]]:
    """Yield the engines and chunks that may be the fastest and that the settings allow, small chunks first.

    usual: the usual engine, if it is known.
    """
    threads, usual = torch.get_num_threads(), usual or usual_engine(spec, workload)
    if engine != "auto":
        names: list[str] = [engine]
    elif usual in ("dense", "layers"):
        names = ["dense", "layers-parallel", "layers-serial", "layers", "loop"]
    else:
        names = [usual, "loop"]
    if spec.device.type == "cuda" or threads == 1:
        names = [name for name in names if "-" not in name] or names
    for name in names:
        if chunk:
            yield name, chunk
            continue
        largest = usual_chunk(name, spec, workload, CHUNK_MEMORY_BYTES)
        if not name.startswith("layers"):
            yield name, largest
            continue
        smaller = min(threads if name.endswith("parallel") else 1, largest)
        while smaller < largest:
            yield name, smaller
            smaller *= 4
        yield name, largest


def _steps_worth_measuring(engines: Iterator[Engine], local: LocalSettings, spec: EngineSpec, streams: Streams) -> int:
    """Return the number of local steps that tell the engines apart: all of them, or as many as a device makes in
    `SECONDS_PER_CANDIDATE`, but at least `LEAST_STEPS`.

    engines: the candidates, of which the first tells how long a step takes.
    """
    start, work, updates = _one_chunk(local, spec, 1, streams)
    steps = int(work.plan.shape[1])
    engine = next(engines, None) if steps > LEAST_STEPS else None
    if engine is None:
        return steps
    few = replace(work, plan=work.plan[:, :LEAST_STEPS])
    try:
        engine.train(start, few, updates)  # memory is allocated, and kernels are built
        seconds = _least_seconds(lambda: engine.train(start, few, updates), 1, spec, 0.0)
    except torch.cuda.OutOfMemoryError:
        return steps
    return min(steps, max(LEAST_STEPS, math.ceil(LEAST_STEPS * SECONDS_PER_CANDIDATE / seconds)))


def _seconds(
    engine: Engine, local: LocalSettings, spec: EngineSpec, chunk: int, streams: Streams, least: float, steps: int
) -> float:
    """Return the seconds per device of a chunk with this engine, the least of several measurements of the first steps;
    inf if a GPU has not enough memory for it."""
    try:
        start, work, updates = _one_chunk(local, spec, chunk, streams)
        part = replace(work, plan=work.plan[:, :steps])
        share = float(part.plan.shape[1] / work.plan.shape[1])
        return _least_seconds(lambda: engine.train(start, part, updates), len(updates), spec, least * share) / share
    except torch.cuda.OutOfMemoryError:
        return math.inf


def _one_chunk(local: LocalSettings, spec: EngineSpec, chunk: int, streams: Streams) -> tuple[Tensor, Work, Tensor]:
    """Return parameters [d], the work of the first round for the devices with most samples, and room for updates."""
    sizes = spec.task.partition.sizes
    devices = np.argsort(-sizes, kind="stable")[:chunk].astype(np.int64)
    plan = plan_batches(rule_of(local), streams, 0, devices, sizes[devices], int(sizes.max()))
    work = Work(spec.task, devices, plan, local.learning_rate)
    updates = torch.empty(len(devices), spec.model.dimension, device=spec.device)
    return spec.model.initial(), work, updates


def _least_seconds(train: Callable[[], None], devices: int, spec: EngineSpec, least: float) -> float:
    """Return the seconds per device, the least of several calls."""
    timings: list[float] = []
    while not timings or (sum(timings) < SECONDS_PER_CANDIDATE and min(timings) < TOO_SLOW * least * devices):
        begin = time.perf_counter()
        train()
        if spec.device.type == "cuda":
            torch.cuda.synchronize(spec.device)
        timings.append(time.perf_counter() - begin)
    return min(timings) / devices


def _activations(module: nn.Module, inputs: Tensor) -> int:
    """Count the numbers that a forward pass of one sample produces; inputs: [1, *shape]."""
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
