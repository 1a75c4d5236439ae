"""The profile of a round, and the results of `bench`. No test depends on timing."""

import time
from dataclasses import replace
from typing import Any

import pytest
import torch

import airfl.analysis.profile
from airfl.analysis.bench import Bench, bench
from airfl.analysis.profile import STAGES, Stopwatch, profiled_round
from airfl.core.round import run_round
from airfl.core.state import State
from airfl.core.world import build_world
from airfl.errors import UserError
from tests.conftest import small_settings

CPU = torch.device("cpu")


class Clock:
    """Time that passes when told to."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


def test_inner_time_is_not_the_outer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor after an error; a device is waited for at every turn."""
    clock = Clock()
    monkeypatch.setattr("airfl.analysis.profile.time.perf_counter", clock.perf_counter)

    def passes(seconds: float) -> None:
        clock.now += seconds
        if seconds == 8.0:
            raise ValueError("no")

    settled: list[int] = []
    watch = Stopwatch(lambda: settled.append(1))

    def inner(seconds: float) -> None:
        with watch.under("inner"):
            passes(seconds)

    with watch.under("outer"):
        passes(1.0)
        inner(2.0)
        passes(4.0)
        with pytest.raises(ValueError, match="no"):
            inner(8.0)
        with watch.under("outer"):
            passes(16.0)
    passes(32.0)  # under nobody
    assert watch.seconds == {"outer": 21.0, "inner": 10.0}
    assert len(settled) == 8


@pytest.mark.parametrize("scheme", ["pfels", "fedavg", "soteriafl-svrg", "fed-smp-randk"])
def test_stages_add_up_to_the_round_and_change_nothing(scheme: str) -> None:
    settings = small_settings(f"scheme.name={scheme}", "run.evaluate_every=1")
    worlds = [build_world(settings, CPU) for _ in range(2)]
    first, again = (State(0, world.model.initial(), world.scenario.memory) for world in worlds)
    plain, record = run_round(worlds[0], first)
    appended: list[Any] = []
    begin = time.perf_counter()
    state, stages = profiled_round(worlds[1], again, appended.append)
    within = time.perf_counter() - begin
    assert tuple(stages) == STAGES
    assert all(seconds >= 0 for seconds in stages.values())
    assert 0 < sum(stages.values()) <= within
    always = ("select and open", "local training", "superposition", "server", "ledger", "evaluation")
    assert all(stages[name] > 0 for name in always)
    assert torch.equal(state.parameters, plain.parameters)
    assert appended[0]["test_accuracy"] == record["test_accuracy"]


def test_a_failed_round_leaves_no_stopwatch_behind() -> None:
    world = build_world(small_settings(), CPU)
    diverged = State(0, world.model.initial() * torch.nan)
    with pytest.raises(UserError, match="not finite"):
        profiled_round(world, diverged, lambda record: None)


def test_figures_of_known_times() -> None:
    stages = {"local training": 3.0, "rest": 1.0}
    known = Bench(small_settings(), "cpu", 25450, (0.5, 0.2, 0.25), stages, 2_000_000)
    assert known.rounds_per_second == pytest.approx(4.0)
    assert known.spread == pytest.approx(1.2)
    figures = known.figures()
    assert figures["peak_memory_mb"] == 2.0
    assert figures["profile"]["share"] == {"local training": 0.75, "rest": 0.25}
    assert figures["profile"]["round_s"] == 4.0
    assert "profile" not in replace(known, stages=None).figures()


@pytest.mark.parametrize("rounds", [1, 4])
def test_more_rounds_than_the_run_has_begin_anew(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warming up and two profiled rounds included; the settings that decide on the engine stay."""
    seen: list[tuple[int, int]] = []

    def watched(world: Any, state: State) -> Any:
        seen.append((state.round_index, world.scenario.run.rounds))
        return run_round(world, state)

    monkeypatch.setattr(airfl.analysis.bench, "run_round", watched)
    monkeypatch.setattr(airfl.analysis.profile, "run_round", watched)
    timed = bench(small_settings(), rounds, profile=True)
    assert len(timed.seconds) == rounds
    assert seen == [(turn % 2, 2) for turn in range(rounds + 1)] + [(0, 2), (1, 2)]
    assert timed.settings.run.chunk
    assert timed.settings.local.engine != "auto"
    assert timed.peak_memory_bytes > 1e6


def test_no_rounds_are_refused() -> None:
    with pytest.raises(UserError, match="--rounds must be at least 1, got 0"):
        bench(small_settings(), 0)
