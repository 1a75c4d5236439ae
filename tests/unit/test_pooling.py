"""Which runs are averaged, and at which cost they are compared, for runs made by hand."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from airfl.analysis.results.digest import Digest
from airfl.analysis.results.equal_cost import accuracy_at, common_budget, compare_at, cost_to
from airfl.analysis.results.result import Result, Results
from airfl.core.summary import Summary
from airfl.errors import UserError


def a_run(label: str, seed: int, energy: tuple[float, ...], accuracy: tuple[float, ...], folder: str = "run") -> Result:
    """Evaluated after every round."""
    costs = {"energy": energy[-1], "resource_elements": 1, "air_time_s": 1.0, "uplink_bits": 0}
    privacy = dict.fromkeys(("delta", "epsilon_paper", "epsilon_round", "epsilon", "epsilon_as_poisson"), 1.0)
    learnt = {"rounds": len(energy), "test_accuracy": accuracy[-1], "test_loss": 1.0}
    summary = Summary(scheme="pfels", seed=seed, status="complete", **learnt, **costs, **privacy)
    course = {"rounds": np.arange(len(energy)) + 1.0, "energy": np.array(energy), "test_accuracy": np.array(accuracy)}
    return Result(Path(folder), label, {}, seed, Digest(summary, course, "analog", {}, 10))


ONE = a_run("one", 0, (10, 20, 30), (0.1, 0.5, 0.6))
ONE_MORE = a_run("one", 1, (10, 20, 30), (0.2, 0.3, 0.5))
OTHER = a_run("other", 0, (20, 40, 60), (0.3, 0.7, 0.8))


def test_rows_are_averaged_each_by_itself() -> None:
    groups = Results((ONE, OTHER, ONE_MORE)).groups
    assert [(group.label, [run.seed for run in group.runs]) for group in groups] == [("one", [0, 1]), ("other", [0])]
    assert [cell.mean for cell in compare_at(groups, "energy", 30.0)] == pytest.approx([(0.6 + 0.5) / 2, 0.3])
    assert common_budget(groups, "energy") == 30.0  # what each of them has spent


def test_a_seed_counts_once() -> None:
    again = a_run("one", 0, (10, 20, 30), (0.1, 0.5, 0.6), folder="again")
    (group,) = Results((ONE_MORE, ONE, again)).groups
    assert [run.seed for run in group.runs] == [0, 1]
    assert group.repeats == (again,)


@pytest.mark.parametrize(
    ("budget", "accuracy"), [(9.9, math.nan), (10.0, 0.1), (25.0, 0.5), (30.0, 0.6), (40.0, 0.6), (40.1, math.nan)]
)
def test_a_budget_pays_for_its_last_evaluation(budget: float, accuracy: float) -> None:
    """Beyond one more evaluation's distance the run says nothing."""
    assert accuracy_at(ONE, "energy", budget) == pytest.approx(accuracy, nan_ok=True)


@pytest.mark.parametrize(("budget", "accuracy"), [(9.9, math.nan), (10.0, 0.4), (20.0, 0.4), (20.1, math.nan)])
def test_so_does_a_run_with_one_evaluation(budget: float, accuracy: float) -> None:
    """Whose distance is that from the begin of the run."""
    assert accuracy_at(a_run("one", 0, (10,), (0.4,)), "energy", budget) == pytest.approx(accuracy, nan_ok=True)


def test_runs_without_evaluations_set_no_budget() -> None:
    """Neither the ideal link's, if only runs over it were evaluated, nor that of some seeds of a row."""
    ideal = replace(ONE, digest=replace(ONE.digest, link="ideal"), label="ideal")
    nothing = replace(OTHER, digest=replace(OTHER.digest, course={name: np.zeros(0) for name in OTHER.digest.course}))
    assert common_budget(Results((ideal, nothing)).groups, "energy") == 30.0
    assert [cell.mean for cell in compare_at(Results((ideal, nothing)).groups, "energy", 30.0)] == pytest.approx(
        [0.6, math.nan], nan_ok=True
    )
    assert common_budget(Results((ideal, nothing, replace(OTHER, seed=1))).groups, "energy") == 60.0
    with pytest.raises(UserError, match="no run was evaluated"):
        common_budget(Results((nothing,)).groups, "energy")


def test_a_target_costs_what_was_spent_when_it_was_first_reached() -> None:
    assert cost_to(ONE, "energy", 0.5) == 20.0
    assert cost_to(ONE, "rounds", 0.5) == 2.0
    assert cost_to(ONE, "energy", 0.61) == math.inf
