"""Selection of runs by their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airfl.analysis.results.result import Result, Results, plain
from airfl.config.given import read_value
from airfl.config.swept_values import split_axes
from airfl.errors import UserError, nearest


def read_conditions(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Parse conditions KEY=VALUE,VALUE or KEY=lo:hi:step; return key -> values to select."""
    fixed, several = split_axes(texts)
    conditions = dict(several)
    for text in fixed:
        key, equals, value = text.partition("=")
        if not (equals and value.strip()):
            raise UserError(f"--where {text!r}: must have the form section.key=value, for instance scheme.ratio=0.3")
        conditions[key.strip()] = [read_value(value.strip())]
    return conditions


def select(results: Results, conditions: Mapping[str, Sequence[Any]]) -> Results:
    """Return the runs whose settings have one of the values of each key.

    Raises UserError for an unknown key, or if no run meets a condition.
    """
    # A scheme has its own settings, so that the runs of a comparison have different ones.
    known = dict.fromkeys(
        f"{section}.{name}" for run in results.runs for section, table in run.digest.settings.items() for name in table
    )
    for key, values in conditions.items():
        if key not in known:
            raise UserError(f"--where: unknown setting {key!r}{nearest(key, known)}")
        runs = tuple(run for run in results.runs if setting(run, key) in values)
        if not runs:
            existing = [value for run in results.runs if (value := setting(run, key)) is not None]
            texts = list(dict.fromkeys(map(plain, existing))) or ["none, since their schemes lack the key"]
            raise UserError(
                f"--where {key}={','.join(map(plain, values))}: no run has this value; available: {', '.join(texts)}"
            )
        results = replace(results, runs=runs)
    return results


def setting(run: Result, key: str) -> Any:
    """Return the swept value of a dotted key, else the value in the settings of the trace."""
    return run.values[key] if key in run.values else run.digest.setting(key)
