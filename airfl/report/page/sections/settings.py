"""The settings in which the groups differ, and those that they share."""

from __future__ import annotations

from typing import Any

from airfl.analysis.results.result import Group, plain
from airfl.report.page.tables import Cell, Table, name_of, setting
from airfl.report.page.view import PageView

SEED = "run.seed"
Flat = dict[str, object]


def settings(view: PageView) -> dict[str, Any]:
    """Return a table with a column per key that differs, and the other keys, which are folded."""
    flat = [flattened(group) for group in view.groups]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    apart = [key for key in keys if len({plain(one.get(key)) for one in flat}) > 1]
    lines = [
        [name_of(view, group), *(setting(one[key]) if key in one else Cell("-", "") for key in apart)]
        for group, one in zip(view.groups, flat, strict=True)
    ]
    table = Table("settings-table", "settings that differ", ["group", *apart], lines) if apart else None
    shared = [f"{key} = {plain(next(one[key] for one in flat if key in one))}" for key in keys if key not in apart]
    return {"table": table, "shared": sorted(shared)}


def flattened(group: Group) -> Flat:
    """Return a group's settings by dotted key, without the seed; if its runs differ, all their values as text."""
    found: dict[str, dict[str, object]] = {}
    for run in group.runs:
        for section, table in run.digest.settings.items():
            for key, value in table.items() if isinstance(table, dict) else (("", table),):
                name = f"{section}.{key}".rstrip(".")
                found.setdefault(name, {})[plain(value)] = value
    found.pop(SEED, None)
    return {
        name: next(iter(values.values())) if len(values) == 1 else " / ".join(values) for name, values in found.items()
    }
