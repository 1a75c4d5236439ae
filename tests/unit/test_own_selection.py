"""User-defined selection rules: as objects, checked against their contract, with memory, and without amplification."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import airfl
from airfl.config import Settings
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.selection import (
    SELECTIONS,
    BlindRule,
    Candidates,
    ChannelRule,
    Ids,
    Memory,
    SelectionRule,
    Uniform,
    sampling_of,
)
from airfl.selection.rule import Array
from airfl.study.sweeps.job import Job, packed_job, unpacked_job
from channels.part import parameter
from tests.conftest import small_settings
from tests.in_this_process import points_here as points_here
from tests.resuming import interrupted
from tests.small_data import LOGISTIC, run

FEW = (*LOGISTIC, "local.steps=1", "run.devices=12", "run.selected=3", "run.checkpoint_every=1")


class EveryOther(BlindRule):
    start: int = parameter(default=0, ge=0, le=1, description="the first device")

    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        return np.sort(generator.choice(np.arange(self.start, devices, 2), selected, replace=False))


class Rested(ChannelRule):
    """Those who were asked least often."""

    name = "rested"
    needs_csi = False
    remembers = True

    def choose_among(self, candidates: Candidates, selected: int, generator: np.random.Generator) -> Ids:
        return np.sort(np.argsort(candidates.own["times"], kind="stable")[:selected])

    def memory(self, devices: int) -> Memory:
        return Memory(own={"times": np.zeros(devices)})

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        times = memory.own["times"].copy()
        times[devices] += 1
        return replace(memory, own={"times": times})


class Fixed(BlindRule):
    what: tuple[float, ...] = parameter(default=(), description="whom it takes")

    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        return np.array([one if one % 1 else int(one) for one in self.what])


class FixedSize(Fixed):
    sampling = "without_replacement"


class Counted(Fixed):
    def count(self, generator: np.random.Generator, devices: int, selected: int) -> int:
        return 4


class Amplified(Rested):
    name = "amplified"
    sampling = "poisson"


class Forgetful(Rested):
    name = "forgetful"

    def after(self, memory: Memory, devices: Ids, rates: Array, energy: Array) -> Memory:
        return Memory()


def scenario_of(rule: SelectionRule) -> Scenario:
    return build_scenario(with_rule(rule), 20, np.ones(12))


def with_rule(rule: SelectionRule, *more: str) -> Settings:
    return small_settings(*FEW, "scheme.ratio=1.0", "run.rounds=4", *more).resolved(selection={"kind": rule})


@pytest.fixture
def registered() -> Iterator[None]:
    airfl.register(Rested)
    yield
    SELECTIONS.forget(__name__)


def test_an_own_rule_chooses_and_nothing_is_amplified() -> None:
    settings, scenario = with_rule(EveryOther(start=1)), scenario_of(EveryOther(start=1))
    devices = plan_round(scenario, 0, scenario.memory).devices
    assert len(devices) == 3
    assert (devices % 2 == 1).all()
    assert scenario.statement.sampling == "by_channel"
    uniform = settings.resolved(selection={"kind": "uniform"}, privacy={"observer": "third_party"})
    assert airfl.privacy(settings).epsilon > airfl.privacy(uniform).epsilon


def test_a_run_of_it_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    settings = with_rule(Rested())
    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path / "cut", interrupted(2))
    airfl.run(settings, tmp_path / "cut", resume=True)
    whole = run(settings, tmp_path / "whole")
    with airfl.open_trace(tmp_path / "cut") as cut, whole.trace() as trace:
        assert cut.drop_attrs(deep=False).identical(trace.drop_attrs(deep=False))
        assert sorted(trace["device_id"].values.ravel()) == list(range(12))
        assert "Rested()" in trace.attrs["own_parts"]


@pytest.mark.usefixtures("registered")
def test_its_name_is_known_and_goes_to_other_processes(tmp_path: Path) -> None:
    """Where nobody has registered it, the job makes its name known."""
    named = small_settings(*FEW, "selection.kind=rested", "selection.candidates=9")
    assert named.selection.rule == Rested(candidates=9)
    sent = packed_job(Job("point", named))
    SELECTIONS.forget(__name__)
    assert "rested" not in SELECTIONS
    settings = unpacked_job(sent).settings
    assert settings == named
    assert "rested" in SELECTIONS
    with run(settings).trace() as trace:
        assert "Rested(candidates=9)" in trace.attrs["own_parts"]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        *(
            (Fixed(what=what), "distinct integers from 0 to 11")
            for what in ((0, 12), (-1, 2), (2, 2, 3), (2, 1), (0.5,))
        ),
        (Fixed(what=(0.0, 1.0, 2.0, 3.0)), "selected 4 devices in round 0, but must select exactly 3; .* count"),
        (Counted(what=(0.0, 1.0)), "selected 2 devices in round 0, but count.. returned 4"),
        (FixedSize(what=(0.0, 1.0)), "sampling = 'without_replacement' needs 3"),
        (Forgetful(), "after.. must return"),
    ],
)
def test_a_rule_that_breaks_its_promise_is_named(rule: SelectionRule, told: str) -> None:
    scenario = scenario_of(rule)
    with pytest.raises(UserError, match=f"^{type(rule).__name__}.*{told}"):
        plan_round(scenario, 0, scenario.memory)


class Biased(Uniform):
    """Draws otherwise than the rule that it derives from, and does not say what."""

    name = "biased"

    def choose(self, generator: np.random.Generator, devices: int, selected: int) -> Ids:
        return np.arange(selected)


class Same(Uniform):
    """Draws as the rule that it derives from."""

    name = "same"


class Misspelt(EveryOther):
    sampling = "without-replacement"  # type: ignore[assignment]


class Failing(EveryOther):
    def choose(self, *given: object) -> Ids:
        raise ValueError("boom")


class Ragged(EveryOther):
    def choose(self, *given: object) -> Ids:
        return [[1], [2, 3]]  # type: ignore[return-value]


class NoMemory(Rested):
    name = "no-memory"

    def memory(self, devices: int) -> Memory:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("rule", "claimed"),
    [(Biased(), "by_channel"), (Same(), "without_"), (EveryOther(), "by_channel"), (FixedSize(), "without_")],
)
def test_a_claim_holds_for_the_draws_that_it_was_made_of(rule: SelectionRule, claimed: str) -> None:
    assert sampling_of(rule).startswith(claimed)
    assert scenario_of(rule).statement.sampling == sampling_of(rule)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (Misspelt(), "sampling must be one of"),
        (Amplified(), "cannot declare sampling = 'poisson'"),
        (Failing(), "could not choose devices in round 0 .ValueError: boom"),
        (Ragged(), "could not choose devices in round 0"),
        (NoMemory(), "must return a Memory of arrays, got 'None'"),
    ],
)
def test_what_goes_wrong_inside_a_rule_is_told_in_one_line(rule: SelectionRule, told: str) -> None:
    with pytest.raises(UserError, match=f"^{type(rule).__name__}.*{told}"):
        airfl.run(with_rule(rule))


@pytest.mark.usefixtures("points_here")
def test_a_sweep_goes_on_with_the_same_code_and_parameters_alone(tmp_path: Path) -> None:
    def swept(rule: SelectionRule, seeds: int) -> int:
        few = with_rule(rule, "run.rounds=1")
        return len(airfl.sweep(few, {"run.seed": list(range(seeds))}, out=tmp_path / "sweep").runs)

    assert swept(EveryOther(start=1), 1) == 1
    assert swept(EveryOther(start=1), 2) == 2
    other_start = r"contains points with selection\.kind = .*'start': 1.*, here it is .*'start': 0"
    with pytest.raises(UserError, match=other_start):
        swept(EveryOther(), 2)
    other = type("EveryOther", (EveryOther,), {"choose": lambda self, g, n, r: np.arange(r), "__module__": __name__})
    with pytest.raises(UserError, match=r"contains points with other code for selection\.kind"):
        swept(other(start=1), 2)
    with pytest.raises(UserError, match=r"selection\.kind: swept values must be names, numbers or lists"):
        airfl.sweep(with_rule(EveryOther()), {"selection.kind": [EveryOther(start=1)]}, out=tmp_path / "objects")
