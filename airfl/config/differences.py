"""Where two settings differ."""

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
"""Settings that a trace has resolved, and what they are before that."""


def differences(before: Settings, now: Settings) -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, value before, value now) of what differs."""
    old, new = before.model_dump(), now.model_dump()
    for section, table in new.items():
        for key in dict.fromkeys([*table, *old[section]]):  # two schemes have different keys
            then, given = old[section].get(key), table.get(key)
            if then != given:
                yield f"{section}.{key}", then, given
