"""The differences between two settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airfl.config.settings import Settings

AUTOMATIC = {
    "run.threads": 0,
    "run.chunk": 0,
    "local.engine": "auto",
    "grid.symbol_duration_s": None,
    "power.alignment": "auto",
    "privacy.delta": None,
}
"""Settings whose values are resolved in a trace -> their values before that."""


def differences(before: Settings, now: Settings) -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted key, value before, value now) for each setting that differs."""
    old_tables, new_tables = before.model_dump(), now.model_dump()
    for section, table in new_tables.items():
        for key in dict.fromkeys([*table, *old_tables[section]]):  # two schemes may have different keys
            old, new = old_tables[section].get(key), table.get(key)
            if old != new:
                yield f"{section}.{key}", old, new
