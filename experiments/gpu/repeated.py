"""Runs that must give the same trace again, bit for bit: resumed from a checkpoint, and simply repeated."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

import airfl
from airfl.core.checkpoint.serialisation import deserialise, serialise
from airfl.core.checkpoint.state import from_arrays, to_arrays
from airfl.core.record import Record
from airfl.core.round import run_round
from airfl.core.state import State, World
from experiments.gpu.rounds import copied, same
from experiments.gpu.rows import CPU, Given, Row, equal, figure, guarded
from experiments.gpu.worlds import first_state, short_settings, short_world

RESUMED = ("pfels", "fed-spa", "soteriafl-saga", "a-dsgd")
"""Schemes whose devices or server keep something between rounds, and the demo's."""
REPEATED = ("pfels", "fedavg-topk", "fed-smp-topk", "fed-spa", "cpsgd", "soteriafl-svrg", "a-dsgd")
FEW = 2
WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def checkpoints(given: Given) -> Iterator[Row]:
    """Yield checks of runs that are resumed on the same device and on another."""
    device, other = given.device, torch.device(CPU)
    for name in given.pick(RESUMED, RESUMED[:FEW]):
        yield from guarded(name, functools.partial(_resumed, given, name))
        for before, after in ((device, other), (other, device)):
            what = f"{name}: saved on {before.type}, resumed on {after.type}"
            yield from guarded(what, functools.partial(_moved, name, before, after, what))
    if given.device.type != CPU:
        yield from guarded("a run of another device", lambda: _refused(given))


def _resumed(given: Given, name: str) -> Iterator[Row]:
    settings = short_settings(name)
    with tempfile.TemporaryDirectory() as folder:
        whole, halved = Path(folder) / "whole", Path(folder) / "halved"
        airfl.run(settings, whole, given.device.type)
        _stopped(settings, halved, given.device.type)
        airfl.run(settings, halved, given.device.type, resume=True)
        different = trace_differences(halved, whole)
    yield equal(f"{name}: stopped and resumed on the device", not different, ", ".join(different))


def _stopped(settings: airfl.Settings, out: Path, device: str) -> None:
    """Run and stop as a user does, after two rounds."""

    def progress(done: int, rounds: int, record: Record) -> None:
        if done == FEW:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        airfl.run(settings, out, device, progress)


def trace_differences(one: Path, other: Path) -> list[str]:
    """Return the variables of two traces that are not equal bit for bit, as experiments/trace_digests.py compares."""
    with airfl.open_trace(one) as first, airfl.open_trace(other) as second:
        found = {str(name): value.values for name, value in first.load().variables.items()}
        wanted = {str(name): value.values for name, value in second.load().variables.items()}
    return sorted(name for name in {*found, *wanted} if not same(found.get(name), wanted.get(name)))


def _moved(name: str, before: torch.device, after: torch.device, what: str) -> Iterator[Row]:
    """Check that the rounds from a saved state are those from the same state handed over in memory.

    A run itself refuses another device than that on which it began, since its numbers would change in the middle.
    """
    saving = short_world(name, before)
    state = first_state(saving)
    for _ in range(FEW):
        state, _ = run_round(saving, state)
    handed = copied(state, after)
    read = _through_a_file(state, after)
    records = [_records(short_world(name, after), start) for start in (handed, read)]
    different = {
        field for one, other in zip(*records, strict=True) for field in one if not same(one[field], other[field])
    }
    yield equal(what, not different, ", ".join(sorted(different)))


def _through_a_file(state: State, device: torch.device) -> State:
    """Return the state as it is read back from a file of the checkpoint's format."""
    with tempfile.TemporaryFile() as file:
        length = serialise(file, state.round_index, to_arrays(state))
        file.seek(0)
        rounds, arrays, _ = deserialise(file, length)
    return from_arrays(rounds, arrays, device)


def _records(world: World, state: State) -> list[Record]:
    records = []
    for _ in range(FEW):
        state, record = run_round(world, state)
        records.append({**record, "parameters": state.parameters.detach().cpu().numpy()})
    return records


def _refused(given: Given) -> Iterator[Row]:
    settings = short_settings("pfels")
    with tempfile.TemporaryDirectory() as folder:
        _stopped(settings, Path(folder) / "run", given.device.type)
        try:
            airfl.run(settings, Path(folder) / "run", CPU, resume=True)
            said = "resumed on the CPU"
        except airfl.UserError as error:
            said = str(error)
    yield Row("a run is resumed on its own kind of device alone", said[-120:], "refused", "was started on" in said)


def determinism(given: Given) -> Iterator[Row]:
    """Yield checks of runs that are repeated, with torch's deterministic algorithms and without."""
    os.environ.setdefault(WORKSPACE, ":4096:8")
    yield figure(WORKSPACE, os.environ[WORKSPACE])
    for name in given.pick(REPEATED, REPEATED[:FEW]):
        for certain in (True, False):
            torch.use_deterministic_algorithms(certain)
            what = f"{name}: twice, {'deterministic' if certain else 'ordinary'} algorithms"
            yield from guarded(what, functools.partial(_twice, given, name, what, certain))
    torch.use_deterministic_algorithms(False)
    model = given.pick("cnn", "mlp")
    yield from guarded(model, lambda: _twice(given, "pfels", f"{model}: twice, ordinary algorithms", False, model))


def _twice(given: Given, name: str, what: str, certain: bool, model: str = "mlp") -> Iterator[Row]:
    settings = short_settings(name, f"task.model={model}")
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / number for number in ("one", "two")]
        for place in places:
            airfl.run(settings, place, given.device.type)
        different = trace_differences(*places)
    listed = ", ".join(different) or "equal"
    yield equal(what, not different, listed) if certain else figure(what, listed, "equal")
