"""What all clients of a study must have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from airfl.analysis.results.sweep_folder import code_of
from airfl.analysis.results.tuned import Figure
from airfl.config.json_numbers import to_json
from airfl.config.swept_values import Interval
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.trials.plan import SearchPlan
from airfl.version import __version__


def identity_of(
    point: SweepPoint,
    axes: Mapping[str, Sequence[Any] | Interval],
    seeds: int,
    plan: SearchPlan,
    by: Figure,
) -> dict[str, Any]:
    """Return what all clients of a study must have in common, by name; point: one of the row."""
    tables: dict[str, Any] = json.loads(to_json(point.settings.model_dump()))
    settings = {
        f"{section}.{key}": value
        for section, table in tables.items()
        for key, value in _items(table)
        if value is not None
    }
    tuned = {key: value for key, value in settings.items() if key not in axes}
    space = {
        f"values of {key}": f"{one.low:g}:{one.high:g}:{'log' if one.log else 'linear'}"
        if isinstance(one, Interval)
        else json.loads(to_json(list(one)))
        for key, one in axes.items()
    }
    return {
        "airfl": __version__,
        "objective": f"mean validation {by.name} of the last evaluation",
        "seeds": seeds,
        "prune": plan.prune,
        "prune-after": plan.prune_after,
        "random-trials": plan.random_trials,
        **space,
        **({"task": point.task.fingerprint} if point.task else {}),
        **{f"code of {key}": code for key, code in code_of(point.settings).items()},
        **tuned,
    }


def _items(table: Any) -> list[tuple[str, Any]]:
    return list(table.items()) if isinstance(table, Mapping) else [("name", table)]
