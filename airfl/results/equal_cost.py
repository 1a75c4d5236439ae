"""Comparisons at equal cost, and the cost of reaching a target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from airfl.errors import UserError, unknown_name
from airfl.results.averages import NOT_NEGATIVE, SHARE, Average, average
from airfl.results.collect import Group, Result

COSTS = {
    "rounds": "rounds",
    "energy": "energy",
    "resource_elements": "resource elements",
    "air_time_s": "air time s",
    "uplink_bits": "bits",
}
"""What is spent, by its name in a course, and its heading."""


def check_cost(name: str) -> None:
    """UserError for something that is no cost."""
    if name not in COSTS:
        raise UserError(unknown_name("--at", name, COSTS))


def check_units(groups: Sequence[Group], cost: str) -> None:
    """UserError where energies of runs are in different units: equal numbers of them are no equal energies."""
    units = {run.digest.summary.energy_units for group in groups for run in group.runs}
    if cost == "energy" and len(units) > 1:
        raise UserError(
            f"--at energy: the runs' energies are in {' and in '.join(sorted(units))}; compare runs of one unit"
        )


def common_budget(groups: Sequence[Group], cost: str) -> float:
    """What every run has spent by its end: the largest budget at which all of them can be compared. Of analog and
    digital links alone where there are such: the ideal link costs orders of magnitude more."""
    check_cost(cost)
    real = [group for group in groups if group.link != "ideal"] or list(groups)
    courses = [run.digest.course[cost] for group in real for run in group.runs]
    spent = [float(course[-1]) for course in courses if len(course)]
    if not spent:
        raise UserError(f"--at {cost}: no run was evaluated")
    least = min(spent)
    if not least > 0:
        raise UserError(f"--at {cost}: a run has spent nothing of it; name a cost that all of them have")
    return least


def accuracy_at(run: Result, cost: str, budget: float) -> float:
    """Test accuracy of the last evaluation that a run can pay for; nan if not even the first, or if the run ended with
    more than an evaluation's distance left (it might have gone on: it says nothing of that budget)."""
    check_cost(cost)
    course = run.digest.course
    spent = course[cost]
    paid = np.flatnonzero(spent <= budget * (1 + 1e-12))
    if not paid.size:
        return math.nan
    last = int(paid[-1])
    if last == len(spent) - 1 and len(spent) > 1 and budget - float(spent[-1]) > float(spent[-1]) - float(spent[-2]):
        return math.nan
    return float(course["test_accuracy"][last])


def compare_at(groups: Sequence[Group], cost: str, budget: float) -> list[Average]:
    """Accuracy of every group at this budget; nan where a run of it says nothing of that."""
    return [average([accuracy_at(run, cost, budget) for run in group.runs], SHARE) for group in groups]


def cost_to(run: Result, cost: str, accuracy: float) -> float:
    """What a run has spent when an evaluation first shows that test accuracy; inf if none does."""
    check_cost(cost)
    course = run.digest.course
    reached = np.flatnonzero(course["test_accuracy"] >= accuracy)
    return float(course[cost][reached[0]]) if reached.size else math.inf


def costs_to(groups: Sequence[Group], accuracy: float) -> list[dict[str, Average]]:
    """For every group and cost: over its seeds; inf unless all of them reach that accuracy."""
    return [
        {cost: average([cost_to(run, cost, accuracy) for run in group.runs], NOT_NEGATIVE) for cost in COSTS}
        for group in groups
    ]


def reached(group: Group, accuracy: float) -> int:
    """How many of its runs reach that accuracy."""
    return sum(math.isfinite(cost_to(run, "rounds", accuracy)) for run in group.runs)
