"""Some of the runs, by their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airfl.config.given import read_value
from airfl.errors import UserError, nearest
from airfl.results.collect import Result, Results, plain
from airfl.sweeps.values import split_axes


def read_conditions(texts: Sequence[str]) -> dict[str, list[Any]]:
    """KEY=VALUE,VALUE or KEY=lo:hi:step each -> the values that are wanted of a key."""
    fixed, several = split_axes(texts)
    wanted = dict(several)
    for text in fixed:
        key, equals, value = text.partition("=")
        if not (equals and value.strip()):
            raise UserError(f"--where {text!r}: section.key=value is wanted, for instance scheme.ratio=0.3")
        wanted[key.strip()] = [read_value(value.strip())]
    return wanted


def select(results: Results, conditions: Mapping[str, Sequence[Any]]) -> Results:
    """The runs whose settings have one of the values of every key; UserError if there is none, or no such key."""
    known = [
        f"{section}.{name}"
        for run in results.runs[:1]
        for section, table in run.digest.settings.items()
        for name in table
    ]
    for key, values in conditions.items():
        if key not in known:
            raise UserError(f"--where: there is no setting {key!r}{nearest(key, known)}")
        runs = tuple(run for run in results.runs if setting(run, key) in values)
        if not runs:
            there = [value for run in results.runs if (value := setting(run, key)) is not None]
            found = list(dict.fromkeys(map(plain, there))) or ["none: their schemes do not have it"]
            raise UserError(
                f"--where {key}={','.join(map(plain, values))}: no run has that; there are {', '.join(found)}"
            )
        results = replace(results, runs=runs)
    return results


def setting(run: Result, key: str) -> Any:
    """A run's swept value of a dotted key, else what its trace says."""
    return run.values[key] if key in run.values else run.digest.setting(key)
