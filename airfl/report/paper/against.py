"""Final test accuracy over a swept number, with one line per combination of the other swept settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from airfl.analysis.results.result import Group, Results, number_of
from airfl.config.json_numbers import to_json
from airfl.report.paper.lines import LABELS, WIDE, Line, draw_panel, is_wide, line_of
from airfl.report.paper.look import check_lines, legend, set_scale
from airfl.report.paper.names import group_names, key_of, missing_data, value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = {"scheme.ratio": "0.1,0.3,1.0", "privacy.epsilon": "0.5,1.5,5.0", "power.max_snr_db": "0:20:5"}


def draw(figure: Figure, results: Results, key: str) -> None:
    """Draw accuracy over the values of a key. Raises UserError if the runs have fewer than two numeric values of it."""
    lines = lines_against(results, key)
    check_lines(len(lines), results)
    axis = figure.subplots()
    draw_panel(axis, lines, key_of(key).axis, LABELS["test_accuracy"])
    xs = np.concatenate([line.x for line in lines])
    if not key_of(key).linear and is_wide(xs, WIDE):
        set_scale(axis, xs.tolist(), "x")
    legend(figure, axis)


def joined(results: Results, key: str) -> list[str]:
    """Return the keys whose values are points of one line."""
    return [key]


def lines_against(results: Results, key: str) -> list[Line]:
    """Return a line per combination of the other settings.

    Runs that do not depend on the key, or have no numeric value of it, are horizontal lines.
    """
    numbers = {number_of(group.values.get(key)) for group in results.groups}
    if sum(map(math.isfinite, numbers)) < 2:
        remedy = f"create them with airfl sweep CONFIG {key}={EXAMPLES.get(key, 'a,b,c')} --out DIR"
        raise missing_data(f"runs swept over {key}, with at least two numbers", results, remedy)
    families = _families(results, key)
    names = group_names([family[0] for family in families], [axis for axis in results.axes if axis != key])
    lines: list[Line] = []
    for name, family in zip(names, families, strict=True):
        points = {x: group for group in family if math.isfinite(x := number_of(group.values.get(key)))}
        if points and in_play(list(points.values()), key):
            xs = sorted(points)
            lines.append(line_of(name, np.array(xs), [_accuracies(points[x]) for x in xs], percent=True))
        elif points:
            lines.append(_level(name, next(iter(points.values()))))
        for group in family:
            if group not in points.values():  # an infinite or missing value
                text = "" if group.values.get(key) is None else f", {value_text(key, group.values)}"
                lines.append(_level(f"{name}{text}", group))
    return lines


def in_play(family: Sequence[Group], key: str) -> bool:
    """Return whether these groups, which differ in the key only, depend on it: otherwise all runs of a seed are equal.

    A single group depends on privacy.epsilon if it has a claim, and on scheme.ratio if its messages are compressed.
    """
    if len(family) > 1:
        seeds = [{run.seed: run.digest.course["train_loss"].tobytes() for run in group.runs} for group in family]
        shared = set.intersection(*(set(of_seed) for of_seed in seeds))
        return not shared or any(of_seed[seed] != seeds[0][seed] for of_seed in seeds for seed in shared)
    (run, *_) = family[0].runs
    if key == "privacy.epsilon":
        return run.digest.summary.claim_scope != "none"
    if key == "scheme.ratio":
        return bool(run.digest.course["entries"][-1] < run.digest.course["rounds"][-1] * run.digest.dimension)
    return True


def _families(results: Results, key: str) -> list[list[Group]]:
    """Return the groups in families, within which they differ in the key only."""
    families: dict[str, list[Group]] = {}
    for group in results.groups:
        others = [group.values.get(axis) for axis in results.axes if axis != key]
        families.setdefault(to_json([group.label, others]), []).append(group)
    return list(families.values())


def _level(name: str, group: Group) -> Line:
    return line_of(name, np.empty(0), [_accuracies(group)], percent=True)


def _accuracies(group: Group) -> list[float]:
    return [run.digest.summary.test_accuracy for run in group.runs]
