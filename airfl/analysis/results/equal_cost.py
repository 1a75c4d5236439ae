"""Comparisons at equal cost, and the cost of reaching a target accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from airfl.analysis.results.averages import NOT_NEGATIVE, SHARE, Average, average
from airfl.analysis.results.result import Group, Result
from airfl.analysis.results.units import check_one_unit
from airfl.errors import UserError, unknown_name

COSTS = {
    "rounds": "rounds",
    "energy": "energy",
    "resource_elements": "resource elements",
    "air_time_s": "air time s",
    "uplink_bits": "bits",
}
"""Costs: their names in a course and their headings."""


def check_cost(name: str) -> None:
    """Raise UserError for an unknown cost."""
    if name not in COSTS:
        raise UserError(unknown_name("--at", name, COSTS))


def check_units(groups: Sequence[Group], cost: str) -> None:
    """Raise UserError where the energies of runs are in different units and cannot be compared."""
    if cost == "energy":
        check_one_unit("--at energy", (run.digest.summary.energy_units for group in groups for run in group.runs))


def common_budget(groups: Sequence[Group], cost: str) -> float:
    """Return the largest budget at which all evaluated runs can be compared: the smallest total cost of a run.

    The ideal link counts only where no evaluated run has another, as it costs orders of magnitude more.
    """
    check_cost(cost)
    evaluated = [group for group in groups if any(len(run.digest.course[cost]) for run in group.runs)]
    real = [group for group in evaluated if group.link != "ideal"] or evaluated
    courses = [run.digest.course[cost] for group in real for run in group.runs]
    spent = [float(course[-1]) for course in courses if len(course)]
    if not spent:
        raise UserError(f"--at {cost}: no run was evaluated; complete a run first")
    least = min(spent)
    if not least > 0:
        raise UserError(f"--at {cost}: a run has a cost of zero; choose a cost that all runs have")
    return least


def accuracy_at(run: Result, cost: str, budget: float) -> float:
    """Return the test accuracy of the last evaluation within the budget.

    It is nan where the first evaluation exceeds the budget, and where the run ended with more left than it spent up to
    its last evaluation from the one before or from its begin, so that its accuracy at the budget is unknown.
    """
    check_cost(cost)
    course = run.digest.course
    spent = course[cost]
    within = np.flatnonzero(spent <= budget * (1 + 1e-12))
    if not within.size:
        return math.nan
    last = int(within[-1])
    before = float(spent[-2]) if len(spent) > 1 else 0.0
    if last == len(spent) - 1 and budget - float(spent[-1]) > float(spent[-1]) - before:
        return math.nan
    return float(course["test_accuracy"][last])


def compare_at(groups: Sequence[Group], cost: str, budget: float) -> list[Average]:
    """Return the accuracy of every group at this budget; nan where that of one of its runs is unknown."""
    return [average([accuracy_at(run, cost, budget) for run in group.runs], SHARE) for group in groups]


def cost_to(run: Result, cost: str, accuracy: float) -> float:
    """Return the cost of a run up to the first evaluation with that test accuracy; inf if it is not reached."""
    check_cost(cost)
    course = run.digest.course
    reached = np.flatnonzero(course["test_accuracy"] >= accuracy)
    return float(course[cost][reached[0]]) if reached.size else math.inf


def costs_to(groups: Sequence[Group], accuracy: float) -> list[dict[str, Average]]:
    """Return, for every group and cost, the average cost over its seeds; inf unless all reach that accuracy."""
    return [
        {cost: average([cost_to(run, cost, accuracy) for run in group.runs], NOT_NEGATIVE) for cost in COSTS}
        for group in groups
    ]


def reached(group: Group, accuracy: float) -> int:
    """Return how many runs of the group reach that accuracy."""
    return sum(math.isfinite(cost_to(run, "rounds", accuracy)) for run in group.runs)
