"""Default and bounds of every setting, since a changed default changes the meaning of a short configuration.

An intended change must be made in tests/unit/defaults.json, too, with a line in CHANGELOG.md.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from airfl.config import to_json
from airfl.config.parts import section_of
from airfl.config.settings import Settings
from airfl.errors import UserError
from airfl.schemes.names import SCHEMES
from tests.conftest import small_settings
from tests.refusals import one_line

DEFAULTS = json.loads(Path(__file__).with_name("defaults.json").read_text(encoding="utf-8"))
SCHEMA = Settings.model_json_schema()
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "greater than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
# Without a clip or a deadline, without privacy, and with equally likely labels.
MAY_BE_INFINITE = {
    *("scheme.coordinate_clip", "scheme.gradient_clip", "digital.deadline_s", "privacy.epsilon"),
    "task.label_concentration",
}


def schema_of(key: str) -> dict[str, Any]:
    """Of a setting, or of the first of its alternatives: null, a name or a list comes after the number."""
    section, name = key.split(".")
    schema = section_of(SCHEMA, section)["properties"][name]
    first: dict[str, Any] = schema.get("anyOf", [schema])[0]
    return first


def bounds(key: str) -> dict[str, Any]:
    """By the words of JSON Schema."""
    schema = schema_of(key)
    words = ("type", *BOUNDS) if schema["type"] in ("integer", "number") else ()
    return {word: schema[word] for word in words if word in schema}


def chosen(key: str) -> tuple[str, ...]:
    """A scheme that has the key, where it is one of a scheme's own."""
    section, _, name = key.partition(".")
    return (f"scheme.name={SCHEMES.having(name)[0]}",) if section == "scheme" and name != "name" else ()


def outside(key: str, bound: str) -> float:
    """The nearest number that the bound keeps out."""
    limit, sign = DEFAULTS[key][bound], 1 if bound.endswith("aximum") else -1
    if bound.startswith("exclusive"):
        return limit
    return limit + sign if DEFAULTS[key]["type"] == "integer" else math.nextafter(limit, sign * math.inf)


def test_every_default_and_bound_is_the_one_that_is_written_down() -> None:
    found = {
        (key := f"{section}.{name}"): {"default": one.get("default"), **bounds(key)}
        for section in SCHEMA["properties"]
        for name, one in section_of(SCHEMA, section)["properties"].items()
    }
    assert json.loads(to_json(found)) == DEFAULTS


@pytest.mark.parametrize(("key", "bound"), [(k, bound) for k in DEFAULTS for bound in BOUNDS if bound in DEFAULTS[k]])
def test_what_is_just_outside_a_bound_is_refused_with_it(key: str, bound: str) -> None:
    value = outside(key, bound)
    with pytest.raises(UserError, match=one_line(f"{key} must be ", f"got {value}")) as refused:
        small_settings(*chosen(key), f"{key}={value}")
    if key.startswith("scheme."):
        return
    if bound == "exclusiveMinimum" and DEFAULTS[key][bound] == 0:
        assert "positive" in str(refused.value)
        return
    assert float(str(refused.value).split(BOUNDS[bound])[1].split()[0].rstrip(",")) == DEFAULTS[key][bound]


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_what_is_no_finite_number_is_refused(value: str) -> None:
    for key in (key for key, entry in DEFAULTS.items() if entry.get("type") == "number"):
        if value == "inf" and key in MAY_BE_INFINITE:
            dumped = small_settings(*chosen(key), f"{key}=inf").model_dump()
            assert dumped[key.split(".")[0]][key.split(".")[1]] == math.inf
        else:
            with pytest.raises(UserError, match=one_line(f"{key} must be ", f"got {value}")):
                small_settings(*chosen(key), f"{key}={value}")


def test_a_name_that_there_is_not_is_refused_with_those_there_are() -> None:
    for key, names in ((key, schema_of(key).get("enum", [0])) for key in DEFAULTS):
        if isinstance(names[0], str):
            with pytest.raises(UserError, match=one_line(key, f"'{names[-1]}x'", *names)):
                small_settings(*chosen(key), f"{key}={names[-1]}x")


def test_delta_is_one_over_all_devices_unless_given() -> None:
    given = {"run": {"devices": 50, "selected": 5}, "local": {"steps": 1, "clip_norm": 1.0}}
    assert Settings.model_validate(given).delta == 1 / 50
    assert Settings.model_validate({**given, "privacy": {"delta": 0.25}}).delta == 0.25
