"""Operations for which the CPU waits until the GPU has finished: none may happen in local steps.

The waits of a chunk's training are counted at two numbers of steps; what grows with the steps happens within them. On a
CPU, they are counted on the imitated GPU, and on a GPU by a dispatch mode and by CUDA's own warnings.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from airfl.core.round import run_round
from airfl.learning.engines.engine import Work
from airfl.learning.engines.spec import EngineSpec
from airfl.learning.engines.table import ENGINES
from airfl.learning.flat import FlatModel
from airfl.schemes.names import SCHEMES
from experiments.gpu.engines import MOMENTUM, SIZES, supports, work_of
from experiments.gpu.imitation import CUDA, Waits, imitated_gpu, is_queued
from experiments.gpu.recording import BETWEEN_DEVICES, INDEXING, OF_DATA, READING
from experiments.gpu.rows import Given, Row, figure, guarded
from experiments.gpu.worlds import first_state, short_world, unequal_task

NAMES = ("mlp", "cnn-cifar10", "lstm", "resnet18")
ENGINES_WITHOUT_WAITS = ("layers", "vmap")
REFERENCE = "loop"
"""The reference engine selects a batch by a mask in every step; it is a figure, not a check."""
NOISY_STEPS = ("dp-fed", "fed-spa")
FEW, MORE = 2, 4
"""Numbers of steps, so few that the layers engine normalises the samples of each step anew."""
SAID_BY_CUDA = "called a synchronizing CUDA operation"


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operations on tensors of a real GPU for which the CPU waits."""

    def __init__(self, waits: Waits) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._waits = waits

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name, bare = operation.name(), operation.name().partition(".")[0]
        tensors = [part for part in tree_flatten((args, kwargs))[0] if isinstance(part, Tensor)]
        of_gpu = [part.is_cuda for part in tensors]
        asked = kwargs.get("device")
        if bare in BETWEEN_DEVICES:
            moved = asked is not None and any(part.device.type != torch.device(asked).type for part in tensors)
            pinned = is_queued(args, kwargs) and all(part.is_cuda or part.is_pinned() for part in tensors)
            if not pinned and (moved or (any(of_gpu) and not all(of_gpu))):
                self._waits.note(f"{name} between CPU and GPU")
        elif any(of_gpu):
            by_mask = bare in INDEXING and any(part.dtype in (torch.bool, torch.uint8) for part in _indices(args))
            by_cpu = bare in INDEXING and not all(part.is_cuda for part in _indices(args))
            if name in OF_DATA or bare in OF_DATA or name == READING or by_mask or by_cpu:
                self._waits.note(name)
        return operation(*args, **kwargs)


def _indices(args: Sequence[Any]) -> list[Tensor]:
    return [part for part in tree_flatten(args[1])[0] if isinstance(part, Tensor)]


@contextmanager
def counted(given: Given) -> Iterator[tuple[Waits, list[str]]]:
    """Count waits for the time of the block. Yields them, and CUDA's own warnings of the same."""
    if not given.on_gpu:
        with imitated_gpu() as waits:
            yield waits, []
        return
    waits, said = Waits(), list[str]()
    with warnings.catch_warnings(record=True) as caught, _Counting(waits):
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits, said
        finally:
            torch.cuda.set_sync_debug_mode("default")
            said += [f"{one.filename}:{one.lineno}" for one in caught if SAID_BY_CUDA in str(one.message)]


def waits(given: Given) -> Iterator[Row]:
    """Yield the waits within local steps, which must be none, and those of whole rounds."""
    for name in given.pick(NAMES, NAMES[:2]):
        for engine in (*ENGINES_WITHOUT_WAITS, REFERENCE):
            if supports(engine, name):
                yield from guarded(f"{name}: {engine}", functools.partial(_steps, given, name, engine))
    for scheme in NOISY_STEPS:
        yield from guarded(scheme, functools.partial(_noisy_steps, given, scheme))
    for scheme in given.pick(tuple(SCHEMES), ("pfels",)):
        yield from guarded(f"a round of {scheme}", functools.partial(_round, given, scheme))


def _steps(given: Given, name: str, engine: str) -> Iterator[Row]:
    by_steps = {}
    for steps in (FEW, MORE):
        with counted(given) as (_, _):
            train = _training(name, engine, steps)
            train()
        with counted(given) as (noted, said):
            train()
        by_steps[steps] = Counter(_line(wait.operation, wait.where) for wait in noted.noted), Counter(said)
    (few, few_said), (more, more_said) = by_steps[FEW], by_steps[MORE]
    grown, grown_said = more - few, more_said - few_said
    what = f"{name}: {engine}, waits in {MORE - FEW} further local steps"
    if engine == REFERENCE:
        yield figure(what, grown.total())
    else:
        yield Row(what, str(grown.total()), "none", not grown, _listed(grown))
        if given.on_gpu:
            yield Row(f"{what}, as CUDA says", str(grown_said.total()), "none", not grown_said, _listed(grown_said))
    yield figure(f"{name}: {engine}, waits of a chunk", f"{few.total()}: {_listed(few)}")


def _noisy_steps(given: Given, scheme: str) -> Iterator[Row]:
    """Count the waits in the training of schemes whose devices clip samples and add noise in every local step."""
    by_steps = []
    for steps in (FEW, MORE):
        with counted(given) as (noted, _):
            world = short_world(scheme, CUDA, f"local.steps={steps}", "run.evaluate_every=4")
            state, _ = run_round(world, first_state(world))
            noted.noted.clear()
            run_round(world, state)
        by_steps.append(Counter(_line(wait.operation, wait.where) for wait in noted.within("updates")))
    grown = by_steps[1] - by_steps[0]
    what = f"{scheme}: waits in {MORE - FEW} further local steps"
    yield Row(what, str(grown.total()), "none", not grown, _listed(grown))


def _training(name: str, engine: str, steps: int) -> Callable[[], None]:
    """Return the training of a chunk on the GPU, built and with its data in place."""
    task = unequal_task(name, SIZES).to(CUDA)
    model, work = FlatModel(task.model), work_of(task, steps, 2, 2)
    devices, steps, batch = work.plan.shape
    built = ENGINES[engine](EngineSpec(model, task, MOMENTUM, devices, steps, batch))
    assert built is not None
    start = model.initial()
    found = start.new_empty(devices, len(start))

    def train() -> None:
        built.train(start, Work(task, work.devices, work.plan, work.learning_rate), found)

    return train


def _round(given: Given, scheme: str) -> Iterator[Row]:
    with counted(given) as (noted, _):
        world = short_world(scheme, CUDA, "run.evaluate_every=4")
        state, _ = run_round(world, first_state(world))
        built = len(noted.noted)
        run_round(world, state)
        lines = Counter(_line(wait.operation, wait.where) for wait in noted.noted[built:])
    yield Row(f"a round of {scheme}: waits", f"{lines.total()}: {_listed(lines, 4)}", "", None, _listed(lines))


def _line(operation: str, where: tuple[str, ...]) -> str:
    return f"{operation} {where[0] if where else ''}"


def _listed(counter: Counter[str], most: int | None = None) -> str:
    return "; ".join(f"{count} x {line}" for line, count in counter.most_common(most))
