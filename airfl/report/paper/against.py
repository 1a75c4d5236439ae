"""Test accuracy at the end against a swept number: a line for each remaining group of settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from airfl.config.json_numbers import to_json
from airfl.report.paper.lines import LABELS, WIDE, Line, draw_panel, is_wide, line_of
from airfl.report.paper.look import check_lines, legend, set_scale
from airfl.report.paper.names import group_names, key_of, lacking, value_text
from airfl.results.collect import Group, Results, number_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = {"scheme.ratio": "0.1,0.3,1.0", "privacy.epsilon": "0.5,1.5,5.0", "power.max_snr_db": "0:20:5"}


def draw(figure: Figure, results: Results, key: str) -> None:
    """One panel: accuracy against the key's values; UserError unless the runs have two numbers of it."""
    lines = lines_against(results, key)
    check_lines(len(lines), results)
    axis = figure.subplots()
    draw_panel(axis, lines, key_of(key).axis, LABELS["test_accuracy"])
    xs = np.concatenate([line.x for line in lines])
    if not key_of(key).linear and is_wide(xs, WIDE):
        set_scale(axis, xs.tolist(), "x")
    legend(figure, axis)


def joined(results: Results, key: str) -> list[str]:
    """The keys whose values are points of one line."""
    return [key]


def lines_against(results: Results, key: str) -> list[Line]:
    """A line for each remaining group; a level for runs that the key says nothing to, or that have no number of it."""
    numbers = {number_of(group.values.get(key)) for group in results.groups}
    if sum(map(math.isfinite, numbers)) < 2:
        how = f"make them by airfl sweep CONFIG {key}={EXAMPLES.get(key, 'a,b,c')} --out DIR"
        raise lacking(f"runs swept over {key}, two numbers or more", results, how)
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
            if group not in points.values():  # no bound, no number
                text = "" if group.values.get(key) is None else f", {value_text(key, group.values)}"
                lines.append(_level(f"{name}{text}", group))
    return lines


def in_play(family: Sequence[Group], key: str) -> bool:
    """Whether these groups, which differ in the key alone, depend on it: else the runs of a seed are all the same. Of
    one group by itself: a claim for an epsilon, a shortened message for a ratio."""
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
    """Groups that differ in the key alone, together."""
    found: dict[str, list[Group]] = {}
    for group in results.groups:
        others = [group.values.get(axis) for axis in results.axes if axis != key]
        found.setdefault(to_json([group.label, others]), []).append(group)
    return list(found.values())


def _level(name: str, group: Group) -> Line:
    return line_of(name, np.empty(0), [_accuracies(group)], percent=True)


def _accuracies(group: Group) -> list[float]:
    return [run.digest.summary.test_accuracy for run in group.runs]
