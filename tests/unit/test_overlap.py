"""A GPU evaluates a model beside the next round, and no record is read before its evaluation is there.

On the imitated GPU with late streams an operation happens only when somebody waits for it, so that a missing wait gives
wrong numbers.
"""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import airfl
from airfl import simulation
from airfl.callbacks import Callback
from airfl.core.record import OpenRecord, Record
from airfl.core.round import begin_round, run_round
from airfl.core.state import World
from airfl.core.world import world_of
from airfl.errors import DivergedError, RunInterruptedError
from airfl.learning.divergence import check_model
from airfl.learning.evaluation import begin_evaluation, evaluate
from airfl.learning.task import build_task
from airfl.runtime.beside import Reading, beside, side_stream
from airfl.runtime.streams import Streams
from experiments.gpu.imitation import CUDA, imitated_gpu
from experiments.gpu.repeated import trace_differences
from experiments.gpu.worlds import first_state
from tests.conftest import small_settings
from tests.small_data import LITTLE, samples_of

ROUNDS = 4
SHORT = (
    *(*LITTLE, "local.engine=vmap", "run.devices=12", "run.selected=4", "local.steps=1", "run.chunk=4"),
    *("scheme.name=fedavg", f"run.rounds={ROUNDS}"),
)
KEEPING = "scheme.name=soteriafl-saga"
"""A scheme whose devices keep something between rounds, which a later round changes."""


class Reader(Callback):
    """A callback that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[float] = []

    def on_round(self, record: Any) -> None:
        """Keep the loss."""
        self.told.append(record["test_loss"])


def run(out: Path, *overrides: str, late: bool = True, **given: Any) -> Path:
    """A run on the imitated GPU; its trace."""
    settings = small_settings(*SHORT, *overrides)
    with imitated_gpu(late=late):
        return airfl.run(settings, out, "cuda", data=samples_of(settings), **given).path


def small_world(device: torch.device, *overrides: str) -> World:
    settings = small_settings(*SHORT, *overrides)
    samples = samples_of(settings)
    assert samples is not None
    return world_of(settings, build_task(settings, samples, Streams(settings.run.seed)), device)


def losses(path: Path) -> list[float]:
    with airfl.open_trace(path) as trace:
        found: list[float] = trace["test_loss"].values.tolist()
    return found


def some(path: Path) -> list[float | None]:
    """The losses, None where there is none."""
    return [None if np.isnan(loss) else loss for loss in losses(path)]


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The beginnings of rounds and the ends of records, in their order."""
    told: list[str] = []

    def begin(world: Any, state: Any) -> Any:
        told.append(f"begin {state.round_index}")
        return begin_round(world, state)

    def close(self: OpenRecord, original: Callable[[OpenRecord], Record] = OpenRecord.close) -> Record:
        told.append(f"close {self.round_index}")
        return original(self)

    monkeypatch.setattr(simulation, "begin_round", begin)
    monkeypatch.setattr(OpenRecord, "close", close)
    return told


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a run whose operations happen at once and whose records are read at once."""
    return run(tmp_path_factory.mktemp("whole") / "run", "run.evaluate_every=2", late=False, callbacks=[Reader()])


def test_a_stream_waits_for_what_it_is_told_to_wait_for_and_for_nothing_else() -> None:
    """The imitation: numbers are wrong where a wait is missing, either way, and where memory is given back early."""
    with imitated_gpu(late=True):
        first = torch.arange(3.0).to(CUDA) + 1
        with torch.cuda.stream(side_stream(CUDA)):
            early = Reading.of(first * 2)
        assert early.numbers().isnan().all()  # `first` is not there yet
        with beside(CUDA, first):
            found = Reading.of(first * 2)
            overtaken = Reading.of(first + 1)
        assert not found._place.any()
        first.zero_()
        assert found.numbers().tolist() == [2.0, 4.0, 6.0]
        assert overtaken.numbers().tolist() == [2.0, 3.0, 4.0]  # the usual stream may go on later
        with beside(CUDA, first):
            overtaken = Reading.of(first + 1)
        first.fill_(7)
        torch.cuda.current_stream().synchronize()
        assert overtaken.numbers().tolist() == [8.0] * 3  # it did go on earlier
        for read in (False, True):
            second = first + 1
            with beside(CUDA, *[second] * read):
                reading = Reading.of(second + 1)
            del second
            torch.cuda.current_stream().synchronize()
            assert bool(reading.numbers().isnan().all()) is not read


def test_an_evaluation_has_parameters_of_its_own() -> None:
    """What the next round does to the parameters, or to their memory, does not reach it."""
    world = small_world(torch.device("cpu"))
    parameters = first_state(world).parameters
    wanted = evaluate(world.model, parameters, world.task)
    with imitated_gpu(late=True):
        world = small_world(CUDA)
        given = first_state(world).parameters
        begun = begin_evaluation(world.model, given, world.task)
        given.fill_(7.0)
        gone = weakref.ref(given)
        del given
        torch.cuda.current_stream().synchronize()
        assert gone() is None
        assert begun.under_way
        found = begun.result()
    assert found.test_accuracy == wanted.test_accuracy
    assert found.test_loss == pytest.approx(wanted.test_loss, rel=1e-5)


def test_the_next_round_is_given_to_the_gpu_before_an_evaluation_is_read() -> None:
    """The CPU waits no more often for a round that is evaluated, until its record is closed, when it waits once."""
    counts = []
    for every in (3, 2):
        with imitated_gpu() as waits:
            world = small_world(CUDA, f"run.evaluate_every={every}", "trace.gradient_norm=true")
            state, _ = run_round(world, first_state(world))
            before = len(waits.noted)
            state, opened = begin_round(world, state)
            counts.append(len(waits.noted) - before)
            assert opened.under_way is (every == 2)
            del waits.noted[:]
            record = opened.close()
            assert [wait.operation for wait in waits.noted] == ["Event.synchronize"] * (every == 2)
            assert np.isfinite(record["gradient_norm_squared"]) == (every == 2)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("scheme", ["pfels", pytest.param("fed-spa", marks=pytest.mark.full)])
def test_a_trace_has_the_numbers_of_a_run_without_overlap(scheme: str, tmp_path: Path) -> None:
    changes = (f"scheme.name={scheme}", "run.evaluate_every=1", "trace.gradient_norm=true", "run.rounds=3")
    apart = run(tmp_path / "apart", *changes, late=False, callbacks=[Reader()])
    assert not trace_differences(run(tmp_path / "overlapped", *changes), apart)


def test_a_graph_is_recorded_and_replayed_beside_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is recorded in the middle of a run, after the GPU's memory was exhausted."""
    from airfl.learning.trainer import LocalTrainer

    changes = ("run.evaluate_every=1", "local.engine=graphed", "run.chunk=4")
    apart = run(tmp_path / "apart", *changes, late=False, callbacks=[Reader()])
    train = LocalTrainer.updates

    def again(self: LocalTrainer, parameters: torch.Tensor, devices: Any, index: int, *given: Any) -> torch.Tensor:
        if index == 2:
            self._chosen = self._chosen.smaller(4)
        return train(self, parameters, devices, index, *given)

    monkeypatch.setattr(LocalTrainer, "updates", again)
    assert not trace_differences(run(tmp_path / "overlapped", *changes), apart)


def test_a_record_is_closed_after_the_next_round(happened: list[str], whole: Path, tmp_path: Path) -> None:
    """Records are written in order, and progress is told of them in order, with all figures."""
    shown: list[tuple[int, float]] = []

    def progress(done: int, rounds: int, record: Record) -> None:
        shown.append((done, float(record["test_loss"])))

    path = run(tmp_path / "run", "run.evaluate_every=2", progress=progress)
    assert happened == [
        *("begin 0", "close 0", "begin 1", "begin 2", "close 1", "close 2", "begin 3", "close 3"),
    ]
    assert not trace_differences(path, whole)
    assert [done for done, _ in shown] == [1, 2, 3, 4]
    np.testing.assert_array_equal([loss for _, loss in shown], losses(path))


def test_a_record_that_somebody_reads_is_closed_at_once(happened: list[str], whole: Path, tmp_path: Path) -> None:
    """A callback may end the run with the round; a state is saved before a later round changes it."""
    in_turn = [f"{what} {index}" for index in range(ROUNDS) for what in ("begin", "close")]
    reader = Reader()
    path = run(tmp_path / "told", "run.evaluate_every=2", callbacks=[reader])
    assert happened == in_turn
    np.testing.assert_array_equal(reader.told, losses(whole))
    assert not trace_differences(path, whole)
    happened.clear()
    run(tmp_path / "saved", "run.evaluate_every=2", "run.checkpoint_every=2")
    assert happened == in_turn


def test_a_cpu_closes_every_record_at_once(happened: list[str], tmp_path: Path) -> None:
    settings = small_settings(*SHORT, "run.evaluate_every=1")
    airfl.run(settings, tmp_path / "run", data=samples_of(settings))
    assert happened == [f"{what} {index}" for index in range(ROUNDS) for what in ("begin", "close")]


def test_an_interrupted_run_goes_on_with_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a round, while the round before it is evaluated. That round's record is complete."""
    at, keeping = 3, run(tmp_path / "whole", KEEPING, "run.evaluate_every=1", late=False, callbacks=[Reader()])
    changes = (KEEPING, "run.evaluate_every=1", "run.checkpoint_every=2", "run.checkpoint_s=0")

    def check(parameters: torch.Tensor, round_index: int) -> None:
        if round_index == at:
            raise KeyboardInterrupt
        check_model(parameters, round_index)

    with monkeypatch.context() as patch:
        patch.setattr("airfl.core.round.check_model", check)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", *changes)
    assert losses(tmp_path / "run") == losses(keeping)[:at]
    path = run(tmp_path / "run", *changes, resume=True)
    assert not trace_differences(path, keeping)


def test_a_stop_by_progress_leaves_the_rounds_that_were_shown(whole: Path, tmp_path: Path) -> None:
    def progress(done: int, rounds: int, record: Record) -> None:
        if done == 2:
            raise KeyboardInterrupt

    changes = ("run.evaluate_every=2",)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", *changes, progress=progress)
    assert some(tmp_path / "run") == some(whole)[:2]
    assert not trace_differences(run(tmp_path / "run", *changes, resume=True), whole)


def test_a_run_is_saved_when_it_is_asked_to_stop_after_a_round(whole: Path, tmp_path: Path) -> None:
    """The signal comes while a record is still open. The round under way is the last one, and its state is saved."""

    def progress(done: int, rounds: int, record: Record) -> None:
        if done == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    changes = ("run.evaluate_every=2",)
    with pytest.raises(RunInterruptedError, match="after round 3 of 4, saved"):
        run(tmp_path / "run", *changes, progress=progress, finish_rounds=True)
    assert some(tmp_path / "run") == some(whole)[:3]
    assert not trace_differences(run(tmp_path / "run", *changes, resume=True), whole)


@pytest.mark.parametrize("overlapped", [True, False])
def test_a_loss_that_is_not_finite_ends_the_run_in_its_round(
    overlapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the next one, which has begun, and which fails as well."""
    from airfl.learning import evaluation

    originally, calls = evaluation._means, []

    def means(count: int, correct: float, loss: float, *others: float, **named: Any) -> Any:
        calls.append(count)
        return originally(count, correct, float("inf") if len(calls) > 3 else loss, *others, **named)

    def check(parameters: torch.Tensor, round_index: int) -> None:
        if round_index == 2:
            raise DivergedError("round 2: the model is not finite")

    monkeypatch.setattr(evaluation, "_means", means)
    monkeypatch.setattr("airfl.core.round.check_model", check)
    with pytest.raises(DivergedError, match=r"^round 1: the model's training loss is inf"):
        run(tmp_path / "run", "run.evaluate_every=1", callbacks=[] if overlapped else [Reader()])
    assert len(losses(tmp_path / "run")) == 1
