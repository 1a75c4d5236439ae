"""Tuning: chooses the values with the best validation accuracy for every row separately, and reports its test accuracy.

A task with its own loss is tuned by the validation loss instead. The test set is evaluated for the chosen values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from airfl.analysis.results.averages import Average, average
from airfl.analysis.results.result import Group
from airfl.analysis.results.sweep_folder import TUNE
from airfl.analysis.results.tuned import ACCURACY, Chosen, Figure, TunedRow
from airfl.config import Config, Overrides
from airfl.config.given import Tables, settings_key, source_of
from airfl.config.load import (
    check_used,
    keys_of,
    override,
    override_row,
    plain_key,
    read_rows,
    read_tables,
    rows_given,
    validate,
    without_rows,
)
from airfl.config.swept_values import Interval, check_different, values_only
from airfl.errors import MachineError, UserError
from airfl.storage.output_files import replace_text
from airfl.storage.own_files import check_own_file
from airfl.study.sweeps.place import Place, check_points
from airfl.study.sweeps.points import SweepPlan, SweepPoint, axes_of, build_points, combinations
from airfl.study.sweeps.trials.client import check_own_studies
from airfl.study.sweeps.trials.plan import SearchPlan, check_evaluations
from channels.part import Part

TUNED_NAME = "tuned.toml"
MARK = "# Written by `airfl tune`, which replaces this file when it is gone on with; edit a copy."
"""The first line of tuned.toml, by which airfl recognises the file."""


def rows_to_tune(
    config: Config, schemes: Sequence[str] = (), given: Mapping[str, Overrides] | None = None
) -> list[TunedRow]:
    """Return the rows to tune.

    These are the given ones (label -> overrides), else one row for each of `schemes`, else the [[compare]] rows of the
    file, else a single row for the file itself.
    """
    if given is not None:
        return [TunedRow(label, _row(label, changes)) for label, changes, _ in rows_given(given)]
    if schemes:
        return [TunedRow(name, {"scheme.name": name}) for name in schemes]
    tables = read_tables(config)
    if "compare" not in tables:
        return [TunedRow("", {})]
    return [TunedRow(label, changes) for label, changes, _ in read_rows(tables, source_of(config))]


def points_of(
    config: Config,
    overrides: Overrides,
    rows: Sequence[TunedRow],
    tried: Mapping[str, Sequence[Mapping[str, Any]]],
    seeds: int,
) -> list[SweepPoint]:
    """Return the points for the values to try in every row; UserError if no training data is held out.

    tried: label of the row -> values by dotted key.
    """
    points: list[SweepPoint] = []
    for row in rows:
        listed = [{**row.changes, **values} for values in tried[row.label]]
        for point in build_points(config, overrides, SweepPlan(points=listed, seeds=seeds), all_used=False):
            if not point.settings.task.validation_share:
                raise UserError(
                    "task.validation_share: must be positive, because tuning needs held-out training data; set e.g. "
                    "task.validation_share=0.1"
                )
            foreign = [key for key in tried[row.label][0] if key not in point.values]
            if foreign:
                scheme = point.settings.scheme.name
                raise UserError(f"{foreign[0]}: scheme {scheme!r} does not have this key; tune this scheme separately")
            tuned = {key: point.values[key] for key in tried[row.label][0]}
            points.append(replace(point, label=row.label, values=tuned))
    keys = [*keys_of(overrides), *(key for values in tried.values() for key in values[0])]
    several = any("scheme.name" in row.changes for row in rows)
    scheme_given = [key for key in dict.fromkeys(keys) if several and key.startswith("scheme.")]
    check_used(scheme_given, [point.settings for point in points], source_of(config))
    return points


def check_installed() -> None:
    """Raise UserError if Optuna is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UserError('--trials: the package optuna is not installed; pip install "airfl[optuna]"') from None


def checked_axes(given: object, tables: Tables | None = None) -> dict[str, Sequence[Any] | Interval]:
    """Return dotted key -> the values to try, or the interval to search; UserError if they are invalid.

    tables: the tables of the configuration, with parts that the keys may refer to.
    """
    if not isinstance(given, Mapping):
        return {**axes_of(given)}
    if not given:
        raise UserError("nothing to tune; give values to try, for instance local.learning_rate=0.01,0.03,0.1")
    given = {settings_key(key) if isinstance(key, str) else key: one for key, one in given.items()}
    lists = axes_of({key: one for key, one in given.items() if not isinstance(one, Interval)})
    axes = {key: one if isinstance(one, Interval) else lists[key] for key, one in given.items()}
    return {plain_key(key, tables or {}): one for key, one in axes.items()}


def check_tuning(
    config: Config,
    overrides: Overrides,
    rows: Sequence[TunedRow],
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    out: Path,
    where: Place,
    plan: SearchPlan | None,
) -> list[SweepPoint]:
    """Return the points of every row with the first values; UserError for invalid input, before torch is imported."""
    for key, values in axes.items():
        if not isinstance(values, Interval):
            check_different(key, values)
    ends = [{key: one.low if isinstance(one, Interval) else one[0] for key, one in axes.items()}]
    firsts = points_of(config, overrides, rows, {row.label: ends for row in rows}, seeds)
    check_points(firsts, out, where, TUNE)
    check_tuned(out)
    if plan is None:
        values_only(axes)
    else:
        check_installed()
        check_evaluations(plan, firsts)
        check_own_studies(out)
        highest = {key: one.high if isinstance(one, Interval) else one[0] for key, one in axes.items()}
        points_of(config, overrides, rows, {row.label: [highest] for row in rows}, seeds)
    return firsts


def validation_of(group: Group, by: Figure = ACCURACY) -> Average:
    """Return the metric of the last evaluation on validation data, averaged over seeds; tuning uses nothing else."""
    return average([float(run.digest.course[f"validation_{by.name}"][-1]) for run in group.runs], by.bounds)


def best(groups: Sequence[Group], seeds: int, by: Figure = ACCURACY) -> Group | None:
    """Return the group with the best mean on validation data, the first one of equals; None if there is none.

    Only groups with runs for all seeds count.
    """
    complete = [group for group in groups if len(group.runs) >= seeds]
    scores = [validation_of(group, by).mean for group in complete]
    known = [index for index, score in enumerate(scores) if not math.isnan(score)]
    pick = min if by.lowest else max
    return complete[pick(known, key=lambda index: scores[index])] if known else None


def chosen(
    row: TunedRow,
    groups: Sequence[Group],
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    by: Figure = ACCURACY,
) -> Chosen:
    """Return the result for a row; MachineError if all its points have failed."""
    group = best(groups, seeds, by)
    if group is None:
        raise MachineError(f"{row.label or 'tuning'}: all points have failed; `airfl results DIR` shows the errors")
    test = average([getattr(run.digest.summary, f"test_{by.name}") for run in group.runs], by.bounds)
    values = {key: group.values[key] for key in axes}
    return Chosen(row, values, validation_of(group, by), test, len(groups), edges_of(values, axes), by)


def edges_of(values: Mapping[str, Any], axes: Mapping[str, Sequence[Any] | Interval]) -> tuple[str, ...]:
    """Return the keys with at least three values whose chosen value is the smallest or largest tried."""
    edges = []
    for key, tried in axes.items():
        if isinstance(tried, Interval) or len(tried) < 3 or not all(isinstance(v, int | float) for v in tried):
            continue
        if values[key] in (min(tried), max(tried)):
            edges.append(key)
    return tuple(edges)


Try = Callable[[Sequence[SweepPoint]], Sequence[Group]]
"""Runs points, and returns the groups of all points that have been run."""


def tune_on_grid(
    config: Config,
    overrides: Overrides,
    rows: Sequence[TunedRow],
    axes: Mapping[str, Sequence[Any]],
    seeds: int,
    run: Try,
    by: Figure = ACCURACY,
) -> list[Chosen]:
    """Tune every row on the grid of all combinations of values."""
    tried = {row.label: combinations(axes, SweepPlan()) for row in rows}
    points = points_of(config, overrides, rows, tried, seeds)
    groups = run(points)
    return [chosen(row, of_row(groups, row, points), axes, seeds, by) for row in rows]


def of_row(groups: Sequence[Group], row: TunedRow, points: Sequence[SweepPoint]) -> list[Group]:
    """Return the groups of a row with the runs of these points alone, in their order.

    The folder may contain others: runs of more seeds, or of other values of keys that are not tried here.
    """
    places = {point.folder: place for place, point in enumerate(points) if point.label == row.label}
    found = [replace(group, runs=tuple(run for run in group.runs if run.folder.name in places)) for group in groups]
    return sorted((group for group in found if group.runs), key=lambda group: places[group.runs[0].folder.name])


def write_tuned(config: Config, overrides: Overrides, choices: Sequence[Chosen], out: Path) -> Path:
    """Write a settings file for `airfl run` and `airfl compare`: the given one with the chosen values of each row."""
    import tomli_w

    tables = _written(override(without_rows(read_tables(config)), overrides))
    tables = override_row(tables, {"run.tuned": True})
    rows = [{**one.row.changes, **one.values} for one in choices]
    if len(rows) == 1 and not choices[0].row.label:
        tables = override_row(tables, rows[0])
    else:
        tables["compare"] = [{"label": one.row.label, **row} for one, row in zip(choices, rows, strict=True)]
    for row in rows:
        validate(override_row(without_rows(tables), row), source=TUNED_NAME)
    file = out / TUNED_NAME
    check_tuned(out)
    replace_text(file, f"{MARK}\n{tomli_w.dumps(tables)}")
    return file


def _written(tables: Tables) -> Tables:
    """Return tables that TOML can represent, without settings of None; UserError for a class without a name."""
    for section, table in tables.items():
        name = table.get("name") if isinstance(table, Mapping) else None
        if isinstance(name, type):
            raise UserError(f"{section}: {name.__qualname__} has no name for a settings file; register it")
    return {
        section: {key: value for key, value in table.items() if value is not None}
        if isinstance(table, Mapping)
        else table
        for section, table in tables.items()
    }


def _row(label: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of a row that TOML can represent; UserError for an object or a class."""
    row = {key: value for key, value in changes.items() if value is not None}
    for key, value in row.items():
        if isinstance(value, Part | type):
            raise UserError(
                f"row {label!r}: {key}: must be a name for the settings file that tuning writes, got {value!r}"
            )
    return row


def check_tuned(out: Path) -> None:
    """Raise UserError if another file is in the place of tuned.toml."""
    check_own_file(out / TUNED_NAME, (MARK.encode(),))
