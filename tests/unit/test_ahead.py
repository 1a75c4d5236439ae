"""Batches and rounds are planned while other devices are trained, and are those that are planned when needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import airfl
from airfl.core import round_plan
from airfl.core.round import prepare_next, run_round
from airfl.core.round_plan import PlanAhead
from airfl.errors import UserError
from airfl.learning.ahead import Ahead
from airfl.learning.dense.library import load_library
from airfl.selection import BlindRule
from airfl.selection.uniform import Uniform
from airfl.uplinks.radio import radio
from experiments.gpu.imitation import CUDA, imitated_gpu
from experiments.gpu.repeated import trace_differences
from experiments.gpu.worlds import first_state
from tests.conftest import small_settings
from tests.small_data import samples_of
from tests.unit.test_overlap import SHORT, small_world

ROUNDS = 4
DENSE = ("task.model=mlp", "local.engine=dense", "run.threads=2")
CHUNKS = ("run.chunk=2", "run.evaluate_every=4")
"""Two chunks a round."""


def ids(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def test_a_plan_that_was_made_ahead_is_used_once_and_for_its_devices_and_round_alone() -> None:
    made: list[tuple[list[int], int]] = []

    def make(devices: Any, round_index: int) -> object:
        made.append((devices.tolist(), round_index))
        return object()

    ahead = Ahead(make)
    ahead.prepare(ids(3, 5), 2)
    plan = ahead.plan(ids(3, 5), 2)
    assert made == [([3, 5], 2)]
    assert ahead.plan(ids(3, 5), 2) is not plan
    for devices, index in ((ids(3, 6), 2), (ids(5, 3), 2), (ids(3), 2), (ids(3, 5), 3)):
        ahead.prepare(ids(3, 5), 2)
        ahead.plan(devices, index)
        assert made[-1] == (devices.tolist(), index)


@pytest.mark.parametrize("scheme", ["fedavg", "fed-spa", "soteriafl-gd", "soteriafl-sgd"])
def test_all_plans_but_the_first_are_made_ahead_and_the_trace_is_the_same(scheme: str, tmp_path: Any) -> None:
    changes = (*CHUNKS, f"scheme.name={scheme}", "run.rounds=3")
    settings = small_settings(*SHORT, *changes)
    found: list[bool] = []

    def plan(self: Ahead[Any], devices: Any, round_index: int, usual: Any = Ahead.plan) -> Any:
        found.append(self._made is not None and self._made[0] == (round_index, devices.tobytes()))
        return usual(self, devices, round_index)

    with imitated_gpu(), mock.patch.object(Ahead, "plan", plan):
        there = airfl.run(settings, tmp_path / "ahead", "cuda", data=samples_of(settings))
    assert found == [False] + [True] * 5
    with imitated_gpu(), mock.patch("airfl.core.round.prepare_next"):
        then = airfl.run(settings, tmp_path / "then", "cuda", data=samples_of(settings))
    assert not trace_differences(there.path, then.path)


def test_plans_are_made_before_the_gpu_is_waited_for_and_none_waits() -> None:
    """A chunk's norms are read after the plan of the next chunk was made, whose copy is from pinned memory."""
    with imitated_gpu() as waits:
        world = small_world(CUDA, *CHUNKS)
        state, _ = run_round(world, first_state(world))
        events: list[str] = []
        train, prepare, note = world.trainer.updates, world.trainer.prepare, waits.note

        def trained(*arguments: Any) -> torch.Tensor:
            events.append("train")
            return train(*arguments)

        def prepared(devices: Any, index: int) -> None:
            before = len(waits.noted)
            prepare(devices, index)
            assert len(waits.noted) == before
            assert "rows" in vars(world.trainer._ahead._made[1])  # type: ignore[attr-defined]  # on their way
            events.append(f"prepare {index}")

        def noted(operation: str) -> None:
            note(operation)
            events.append("wait")

        with (
            mock.patch.multiple(world.trainer, updates=trained, prepare=prepared),
            mock.patch.object(waits, "note", noted),
        ):
            run_round(world, state)
    first = [event for before, event in zip(["", *events], events, strict=False) if event != before]
    assert first[: len(first) - 1] == ["train", "prepare 1", "wait", "train", "prepare 2"]


def test_on_a_cpu_nothing_is_made_ahead_where_all_threads_train() -> None:
    world = small_world(
        torch.device("cpu"),
        *CHUNKS,
        "task.dataset=fashion-mnist-sample",
        "task.model=mlp",
        "local.engine=layers-parallel",
    )
    with mock.patch("airfl.core.round.prepare_next") as prepare:
        run_round(world, first_state(world))
    assert not prepare.called


@pytest.mark.skipif(load_library() is None, reason="no C compiler")
@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("run.chunk=2",),
        ("selection.kind=best-k",),
        ("selection.kind=proportional-fair",),
        ("run.non_finite=drop",),
        ("channel.fading=rayleigh", "channel.variation=jakes", "channel.speed_m_s=1", "scheme.name=pfels"),
    ],
    ids=" ".join,
)
def test_the_next_round_is_planned_while_other_threads_train(changes: tuple[str, ...], tmp_path: Any) -> None:
    """Batches and the plan of the round, but with a rule that has a memory, or where plans log what they leave out; the
    trace is the same."""
    settings = small_settings(*DENSE, "run.rounds=4", *changes)
    planned: list[tuple[int, bool]] = []

    def plan(self: PlanAhead, scenario: Any, round_index: int, *given: Any, usual: Any = PlanAhead.plan) -> Any:
        planned.append((round_index, self._made is not None))
        return usual(self, scenario, round_index, *given)

    with mock.patch.object(PlanAhead, "plan", plan):
        ahead = airfl.run(settings, tmp_path / "ahead", data=samples_of(settings))
    expected = not {"selection.kind=proportional-fair", "run.non_finite=drop"} & {*changes}
    assert planned == [(0, False), *((t, expected) for t in range(1, 4))]
    with mock.patch("airfl.core.round.prepare_next"):
        then = airfl.run(settings, tmp_path / "then", data=samples_of(settings))
    assert not trace_differences(ahead.path, then.path)


def test_no_round_is_planned_beside_one_with_large_channels() -> None:
    world = small_world(torch.device("cpu"))
    plan = round_plan.plan_round(world.scenario, 0, world.scenario.memory)
    size = plan.channel.response.nbytes
    for most, calls in ((size - 1, 0), (size, 1)):
        with (
            mock.patch("airfl.core.round.MOST_CHANNEL_BYTES", most),
            mock.patch.object(world.plans, "prepare", wraps=world.plans.prepare) as prepare,
        ):
            prepare_next(world, ids(), 0, plan)
        assert prepare.call_count == calls


@pytest.mark.skipif(load_library() is None, reason="no C compiler")
def test_places_of_moving_devices_are_computed_once_a_round(tmp_path: Any) -> None:
    """Also where the next round is planned before this one is recorded; those of the start come first."""
    moving = ("channel.units=physical", "topology.kind=disc", "topology.radius_m=150", "topology.motion=straight")
    settings = small_settings(*DENSE, *moving, "channel.speed_m_s=30", "channel.round_s=1.0", "run.rounds=4")
    with mock.patch.object(radio, "of_places", wraps=radio.of_places) as placed:
        airfl.run(settings, tmp_path, data=samples_of(settings))
    assert placed.call_count == 1 + 4


def test_a_plan_of_a_round_is_used_once_and_for_its_scenario_round_and_memory_alone() -> None:
    scenario = small_world(torch.device("cpu")).scenario
    plans, memory = PlanAhead(), scenario.memory
    made = plans.prepare(scenario, 1, memory)
    assert plans.plan(scenario, 1, memory) is made
    assert plans.plan(scenario, 1, memory) is not made
    for other in ((scenario, 2, memory), (scenario, 1, replace(memory)), (replace(scenario), 1, memory)):
        made = plans.prepare(scenario, 1, memory)
        assert plans.plan(*other) is not made


@pytest.mark.skipif(load_library() is None, reason="no C compiler")
def test_a_round_that_cannot_be_planned_says_so_itself(tmp_path: Any) -> None:
    """The rounds before it are in the trace."""
    settings = small_settings(*DENSE, "run.rounds=4", "run.checkpoint_every=1")
    usual = round_plan.plan_round

    def plan(scenario: Any, round_index: int, *given: Any) -> Any:
        if round_index == 2:
            raise UserError("round 2")
        return usual(scenario, round_index, *given)

    told: list[int] = []
    with mock.patch.object(round_plan, "plan_round", plan), pytest.raises(UserError, match="round 2"):
        airfl.run(
            settings, tmp_path, data=samples_of(settings), progress=lambda done, rounds, record: told.append(done)
        )
    assert told == [1, 2]


class Failing(BlindRule):
    """A rule that fails in the second round."""

    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Any:
        raise ValueError("no")

    def count(self, generator: np.random.Generator, devices: int, selected: int) -> int:
        return selected


def test_what_is_not_known_yet_is_not_prepared() -> None:
    """After the last round, where channels decide, and where a user's own rule fails, which its round says."""
    world = small_world(torch.device("cpu"), "run.rounds=3")
    scenario, on_a_gpu = world.scenario, replace(world, device=torch.device("cuda"))
    plan, asked = round_plan.plan_round(scenario, 0, scenario.memory), list[tuple[int, int]]()

    def prepare(rule: object, left: Any, index: int) -> None:
        object.__setattr__(scenario, "rule", rule)
        with mock.patch.object(world.trainer, "prepare", lambda devices, index: asked.append((len(devices), index))):
            prepare_next(on_a_gpu, left, index, plan)

    prepare(Uniform(), ids(), 1)
    prepare(Uniform(), ids(4), 2)
    assert asked == [(4, 2), (1, 2)]
    for rule, index in ((Uniform(), 2), (airfl.selection.BestK(), 0), (Failing(), 0)):
        prepare(rule, ids(), index)
    assert len(asked) == 2
    with pytest.raises(UserError):
        airfl.selection.select(Failing(), scenario.streams, 1, 12, 4)
