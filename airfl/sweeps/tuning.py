"""Tuning: for every scheme by itself, the values with the best validation accuracy, or of a loss of one's own the least
validation loss; that of the test set, once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from airfl.errors import MachineError, UserError
from airfl.output import replace_text
from airfl.own import check_own_file
from airfl.results.averages import SHARE, Average, Bounds, average
from airfl.results.collect import Group
from airfl.shown import brief
from airfl.sweeps.folder import TUNE
from airfl.sweeps.place import Place, check_points
from airfl.sweeps.points import Plan, Point, axes_of, build_points, combinations
from airfl.sweeps.values import Interval, check_different, values_only
from channels.part import Part

TUNED_NAME = "tuned.toml"
MARK = "# Written by `airfl tune`, which replaces this file when it is gone on with; edit a copy."
"""Its first line, by which it is known."""


@dataclass(frozen=True)
class Figure:
    """By what is chosen.

    Attributes:
        name: What it is called: `validation_NAME` of a trace is looked at, and of what is chosen `test_NAME`.
        bounds: Within which it lies.
        lowest: Whether less is better.
    """

    name: str
    bounds: Bounds
    lowest: bool


ACCURACY = Figure("accuracy", SHARE, lowest=False)
LOSS = Figure("loss", (-math.inf, math.inf), lowest=True)
"""Of a task with a loss of its own, under which no accuracy is recorded."""


@dataclass(frozen=True)
class TunedRow:
    """A row to tune.

    Attributes:
        label: What tables call it, "" where there is one alone.
        changes: What it sets, by dotted key.
    """

    label: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class Chosen:
    """What was chosen for a row.

    Attributes:
        row: The row.
        values: What was chosen, by dotted key.
        validation: Accuracy on held-out training data over seeds, a share of 1, or the loss: by this it was chosen.
        test: The same on the test set over seeds, looked at for these values alone.
        tried: How many settings of the row were tried.
        edges: Keys whose chosen number is the least or largest tried: a better one may lie beyond.
        by: What was chosen by: accuracy, or the loss where a task has one of its own.
    """

    row: TunedRow
    values: Mapping[str, Any]
    validation: Average
    test: Average
    tried: int
    edges: tuple[str, ...]
    by: Figure = ACCURACY


@dataclass(frozen=True)
class Tuning:
    """What was chosen for every row.

    Attributes:
        chosen: A choice for each row, in their order.
        file: A settings file with the chosen values, for `airfl.run` or, of several rows, `airfl.compare`.
    """

    chosen: tuple[Chosen, ...]
    file: Path

    def __repr__(self) -> str:
        return brief(self, chosen={one.row.label: dict(one.values) for one in self.chosen}, file=self.file)


def rows_to_tune(
    config: Config, schemes: Sequence[str] = (), given: Mapping[str, Overrides] | None = None
) -> list[TunedRow]:
    """Those given, label -> overrides; else one for each of `schemes`, else for each [[compare]] of the file, else the
    file itself."""
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
) -> list[Point]:
    """The points of every row's tried values, row label -> values by dotted key. UserError where nothing is held out
    to choose on."""
    points: list[Point] = []
    for row in rows:
        listed = [{**row.changes, **values} for values in tried[row.label]]
        for point in build_points(config, overrides, Plan(points=listed, seeds=seeds), all_used=False):
            if not point.settings.task.validation_share:
                raise UserError(
                    "task.validation_share: nothing is held out, and tuning chooses on held-out training data; add for "
                    "instance task.validation_share=0.1"
                )
            foreign = [key for key in tried[row.label][0] if key not in point.values]
            if foreign:
                scheme = point.settings.scheme.name
                raise UserError(f"{foreign[0]}: scheme {scheme!r} has none to choose; tune it without, by itself")
            own = {key: point.values[key] for key in tried[row.label][0]}
            points.append(replace(point, label=row.label, values=own))
    keys = [*keys_of(overrides), *(key for values in tried.values() for key in values[0])]
    several = any("scheme.name" in row.changes for row in rows)
    asked = [key for key in dict.fromkeys(keys) if several and key.startswith("scheme.")]
    check_used(asked, [point.settings for point in points], source_of(config))
    return points


def check_installed() -> None:
    """UserError where Optuna is not there."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UserError('--trials: the package optuna is not installed; pip install "airfl[optuna]"') from None


def checked_axes(given: object, tables: Tables | None = None) -> dict[str, Sequence[Any] | Interval]:
    """Dotted key -> the values to try, or the interval to search; UserError for what is none. tables: of the
    configuration, whose parts a key may be of."""
    if not isinstance(given, Mapping):
        return {**axes_of(given)}
    if not given:
        raise UserError("nothing to tune: give values to try, for instance local.learning_rate=0.01,0.03,0.1")
    given = {settings_key(key) if isinstance(key, str) else key: one for key, one in given.items()}
    lists = axes_of({key: one for key, one in given.items() if not isinstance(one, Interval)})
    found = {key: one if isinstance(one, Interval) else lists[key] for key, one in given.items()}
    return {plain_key(key, tables or {}): one for key, one in found.items()}


def check_tuning(
    config: Config,
    overrides: Overrides,
    rows: Sequence[TunedRow],
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    out: Path,
    where: Place,
    trials: int | None,
) -> list[Point]:
    """Every row with the first of the values; UserError for what cannot be used, said before torch is imported."""
    for key, values in axes.items():
        if not isinstance(values, Interval):
            check_different(key, values)
    ends = [{key: one.low if isinstance(one, Interval) else one[0] for key, one in axes.items()}]
    firsts = points_of(config, overrides, rows, {row.label: ends for row in rows}, seeds)
    check_points(firsts, out, where, TUNE)
    check_tuned(out)
    if trials is None:
        values_only(axes)
    else:
        check_installed()
    return firsts


def validation_of(group: Group, by: Figure = ACCURACY) -> Average:
    """The last evaluated figure on validation data over seeds; nothing else of a run is looked at to choose."""
    return average([float(run.digest.course[f"validation_{by.name}"][-1]) for run in group.runs], by.bounds)


def best(groups: Sequence[Group], seeds: int, by: Figure = ACCURACY) -> Group | None:
    """The group of best mean on validation data, the first of equals; of those whose seeds are all there."""
    whole = [group for group in groups if len(group.runs) >= seeds]
    scores = [validation_of(group, by).mean for group in whole]
    known = [place for place, score in enumerate(scores) if not math.isnan(score)]
    pick = min if by.lowest else max
    return whole[pick(known, key=lambda place: scores[place])] if known else None


def chosen(
    row: TunedRow,
    groups: Sequence[Group],
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    by: Figure = ACCURACY,
) -> Chosen:
    """The choice for a row; MachineError if no point of it has come through."""
    group = best(groups, seeds, by)
    if group is None:
        raise MachineError(f"{row.label or 'tuning'}: no point has come through; `airfl results DIR` says why")
    test = average([getattr(run.digest.summary, f"test_{by.name}") for run in group.runs], by.bounds)
    values = {key: group.values[key] for key in axes}
    return Chosen(row, values, validation_of(group, by), test, len(groups), _edges(values, axes), by)


def _edges(values: Mapping[str, Any], axes: Mapping[str, Sequence[Any] | Interval]) -> tuple[str, ...]:
    """Keys of three values or more whose chosen number is the least or largest tried."""
    found = []
    for key, tried in axes.items():
        if isinstance(tried, Interval) or len(tried) < 3 or not all(isinstance(v, int | float) for v in tried):
            continue
        if values[key] in (min(tried), max(tried)):
            found.append(key)
    return tuple(found)


Try = Callable[[Sequence[Point]], Sequence[Group]]
"""Runs points, gives the groups of all that have been run."""


def tune_on_grid(
    config: Config,
    overrides: Overrides,
    rows: Sequence[TunedRow],
    axes: Mapping[str, Sequence[Any]],
    seeds: int,
    run: Try,
    by: Figure = ACCURACY,
) -> list[Chosen]:
    """Every value with every other, for every row."""
    tried = {row.label: combinations(axes, Plan()) for row in rows}
    points = points_of(config, overrides, rows, tried, seeds)
    groups = run(points)
    return [chosen(row, of_row(groups, row, tried[row.label]), axes, seeds, by) for row in rows]


def of_row(groups: Sequence[Group], row: TunedRow, tried: Sequence[Mapping[str, Any]]) -> list[Group]:
    """The groups of this row at these values, which need not be all that the folder holds."""
    return [
        group
        for group in groups
        if group.label == row.label
        and any(all(group.values[key] == value for key, value in values.items()) for values in tried)
    ]


def write_tuned(config: Config, overrides: Overrides, found: Sequence[Chosen], out: Path) -> Path:
    """A settings file for `airfl run` and `airfl compare`: the given one with the chosen values, a row each."""
    import tomli_w

    tables = _written(override(without_rows(read_tables(config)), overrides))
    tables = override_row(tables, {"run.tuned": True})
    rows = [{**one.row.changes, **one.values} for one in found]
    if len(rows) == 1 and not found[0].row.label:
        tables = override_row(tables, rows[0])
    else:
        tables["compare"] = [{"label": one.row.label, **row} for one, row in zip(found, rows, strict=True)]
    for row in rows:
        validate(override_row(without_rows(tables), row), source=TUNED_NAME)
    file = out / TUNED_NAME
    check_tuned(out)
    replace_text(file, f"{MARK}\n{tomli_w.dumps(tables)}")
    return file


def _written(tables: Tables) -> Tables:
    """What TOML can hold: settings that are none are left out. UserError for a part that no name stands for."""
    for section, table in tables.items():
        name = table.get("name") if isinstance(table, Mapping) else None
        if isinstance(name, type):
            raise UserError(f"{section}: {name.__qualname__} has no name that a settings file could hold; register it")
    return {
        section: {key: value for key, value in table.items() if value is not None}
        if isinstance(table, Mapping)
        else table
        for section, table in tables.items()
    }


def _row(label: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a row sets, as TOML can hold it; UserError for an object or a class, which it cannot."""
    found = {key: value for key, value in changes.items() if value is not None}
    for key, value in found.items():
        if isinstance(value, Part | type):
            raise UserError(
                f"row {label!r}: {key}: tuning writes its choice to a settings file; give a name, not {value!r}"
            )
    return found


def check_tuned(out: Path) -> None:
    """UserError where something else stands in the place of tuned.toml."""
    check_own_file(out / TUNED_NAME, (MARK.encode(),))
