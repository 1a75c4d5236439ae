"""Every default of the settings, one by one: a default that changes, changes what a short configuration means.

Whoever changes one on purpose changes tests/unit/defaults.json too, and adds a line to CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path

from airfl.config import to_json
from airfl.config.settings import Settings

DEFAULTS = json.loads(Path(__file__).with_name("defaults.json").read_text(encoding="utf-8"))


def found() -> dict[str, object]:
    """By dotted key, as JSON has them."""
    values = {
        f"{section}.{name}": key.get_default(call_default_factory=True)
        for section, table in Settings.model_fields.items()
        if table.annotation is not None
        for name, key in table.annotation.model_fields.items()
    }
    plain: dict[str, object] = json.loads(to_json(values))
    return plain


def test_every_default_is_the_one_that_is_written_down() -> None:
    assert found() == DEFAULTS


def test_delta_is_one_over_all_devices_unless_given() -> None:
    given = {"run": {"devices": 50, "selected": 5}, "local": {"steps": 1, "clip_norm": 1.0}}
    assert Settings.model_validate(given).delta == 1 / 50
    assert Settings.model_validate({**given, "privacy": {"delta": 0.25}}).delta == 0.25
