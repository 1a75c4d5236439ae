"""Conversion of configurations and overrides, in every form that users may give, to tables and to dotted keys.

"demo", "mine.toml", Path("mine.toml")                                  a settings file, or the name of a shipped one
{"local": {"steps": 5}, "scheme": airfl.schemes.Pfels(ratio=0.1)}       tables
{"local.steps": 5, "local.clip_norm": 1.0, "scheme": "pfels"}           dotted keys
airfl.load_settings("demo")                                             settings
airfl.Experiment(scheme=airfl.schemes.Pfels(), local=..., radio=...)    an experiment

["scheme.ratio=0.1", "run.rounds=50"]                                   overrides as on the command line
{"scheme.ratio": 0.1, "run": {"rounds": 50}}                            overrides as Python values
{"radio.fading.k": 5.0, "radio.max_snr_db": 20.0}                       keys named as the arguments of `airfl.Radio`
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from airfl.config.parts import PartOf
from airfl.config.radio_sections import RadioSections
from airfl.config.settings import Settings
from airfl.errors import UserError, nearest
from channels.part import Part

Tables = dict[str, Any]


class Configuration(ABC):
    """Settings together with Python objects that no settings file can hold. `airfl.Experiment` implements it."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """All settings."""

    @property
    @abstractmethod
    def own_task(self) -> Any | None:
        """The user-defined `airfl.Task`, or None if the settings name the task."""


Config = str | os.PathLike[str] | Mapping[str, Any] | Settings | Configuration
"""The name or path of a settings file, a dict of tables, settings, or an experiment."""
Overrides = Sequence[str] | Mapping[str, Any]
"""Strings "section.key=value", or a mapping of dotted keys to values. If a key is repeated, the last one wins."""

NON_SECTIONS = ("compare", "plugins")
"""Entries of a settings file that are not sections."""
PARTS: dict[str, PartOf[Any]] = {
    section: slot
    for section, field in Settings.model_fields.items()
    for slot in field.metadata
    if isinstance(slot, PartOf)
}
"""The sections that hold a single part, such as [scheme]."""
FORMS = "a settings file, the name of a shipped one, a dict of tables, settings, or an experiment"
RADIO_SECTIONS = tuple(field.name for field in dataclasses.fields(RadioSections))
"""The sections that make up an `airfl.Radio`."""
RADIO = "radio."


def source_of(config: object) -> str:
    """Return the name of a configuration for error messages."""
    return str(config) if isinstance(config, str | os.PathLike) else "settings"


def is_file(config: Config) -> bool:
    """Return whether the configuration is the name or path of a settings file. Raises UserError for an invalid type."""
    if not isinstance(config, str | os.PathLike | Mapping | Settings | Configuration):
        raise UserError(f"config must be {FORMS}, got {config!r}")
    return isinstance(config, str | os.PathLike)


def task_of(config: object, task: Any | None, keys: Iterable[str] = ()) -> Any | None:
    """Return the user-defined task of an experiment, or the one passed together with a configuration.

    Args:
        config: The configuration.
        task: The task passed as an argument, if any.
        keys: Dotted keys that overrides set or a sweep varies.

    Raises UserError if both give a task, or if a key belongs to what the task itself defines, so that it would have no
    effect.
    """
    own = config.own_task if isinstance(config, Configuration) else None
    if task is not None and (type(task).__module__, type(task).__name__) != ("airfl.learning.own_task", "Task"):
        raise UserError(f"task must be an airfl.Task, got {str(task)[:80]!r}; build one from a model and its data")
    if own is not None and task is not None:
        raise UserError("task: the experiment already has a task; set it in the experiment or pass task=, not both")
    used = task if own is None else own
    if used is None:
        return None
    for key in keys:
        if any(f"{key}.".startswith(f"{defined}.") for defined in used.own_keys):
            raise UserError(f"{key}: the task {used.name!r} defines this itself; remove the key or change the task")
    return used


def settings_key(key: str) -> str:
    """Convert a dotted key named as in `airfl.Radio` to that of the settings: radio.fading.k to channel.fading.k.

    Other keys are returned unchanged. Raises UserError for a key that the radio does not have.
    """
    if not key.startswith(RADIO):
        return key
    name, dot, inner = key[len(RADIO) :].partition(".")
    slot = {"fading": "channel.fading", "power": "power.policy"}.get(name)
    if slot is None and name in RADIO_SECTIONS:
        return key[len(RADIO) :]
    if slot is None:
        sections = ("channel", "power")
        slot = next((f"{section}.{name}" for section in sections if name in fields_of(section)), None)
    if slot is None:
        known = [*fields_of("channel"), *fields_of("power"), *RADIO_SECTIONS]
        raise UserError(f"{key}: unknown argument {name!r} of airfl.Radio{nearest(name, known)}")
    return f"{slot}{dot}{inner}"


def fields_of(section: str) -> Collection[str]:
    """Return the keys of a section that is not a part."""
    kind = Settings.model_fields[section].annotation
    assert isinstance(kind, type)
    assert issubclass(kind, BaseModel)
    return kind.model_fields


def tables_from(config: Mapping[Any, Any]) -> Tables:
    """Convert a dict of tables, of dotted keys, or of both, to tables."""
    tables: Tables = {}
    for key, value in config.items():
        if not isinstance(key, str):
            raise UserError(f"{key!r}: keys must be sections or dotted keys, for instance {{'run.rounds': 50}}")
        if key == "radio":
            for section, table in _radio_tables(value).items():
                tables[section] = {**tables.get(section, {}), **table}
            continue
        key = settings_key(key)
        section, dot, name = key.partition(".")
        if key in NON_SECTIONS:
            tables[key] = value
        elif dot:
            if section in NON_SECTIONS or not (section and name):
                raise UserError(f"{key}: keys must have the form section.key")
            tables[section] = {**tables.get(section, {}), name: as_plain(value)}
        else:
            tables[key] = {**tables.get(key, {}), **_table(key, value)}
    return tables


def _radio_tables(value: Any) -> Tables:
    """Return the sections of an `airfl.Radio`, or of a mapping of its arguments, as tables."""
    if isinstance(value, Mapping):
        return tables_from({f"{RADIO}{key}": argument for key, argument in value.items()})
    sections = getattr(value, "sections", value)
    if not isinstance(sections, RadioSections):
        raise UserError(f"radio must be an airfl.Radio or a mapping of its arguments, got {value!r}")
    return {name: dict(getattr(sections, name)) for name in RADIO_SECTIONS}


def changes_of(overrides: Overrides) -> dict[str, Any]:
    """Return the overrides as dotted key -> value. Raises UserError for an invalid override."""
    if isinstance(overrides, Mapping):
        tables = tables_from(overrides)
        not_setting = next((name for name in NON_SECTIONS if name in tables), None)
        if not_setting:
            raise UserError(f"override {not_setting!r}: only settings can be overridden; put it into the configuration")
        return {f"{section}.{key}": value for section, table in tables.items() for key, value in table.items()}
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        example = "['run.rounds=50'] or {'run.rounds': 50}"
        raise UserError(f"overrides must be a list or a mapping, for instance {example}, got {overrides!r}")
    changes: dict[str, Any] = {}
    for text in overrides:
        key, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
        section, dot, name = key.strip().partition(".")
        if not (equals and dot and section and name):
            raise UserError(f"override {text!r} must have the form section.key=value, for instance run.rounds=50")
        changes[settings_key(f"{section}.{name}")] = read_value(value.strip())
    return changes


def read_value(text: str) -> Any:
    """Parse the value of an override as TOML; text that is not TOML is returned unchanged."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, a number of thousands of digits, or nested too deeply
        return text


def as_plain(value: Any) -> Any:
    """Convert a value to plain TOML types: NumPy numbers to Python ones, paths to strings, tuples to lists."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, tuple):
        return [as_plain(item) for item in value]
    return value


def part_table(part: Part, slot: PartOf[Any]) -> Tables:
    """Convert a part to a table. A part that is not registered under its name is named by its class."""
    kind = type(part)
    return {"name": kind.name if slot.registry.get(kind.name) is kind else kind, **part.values()}


def keys_named(name: str) -> list[str]:
    """Return the dotted keys whose last component is `name`."""
    sections = {section: field.annotation for section, field in Settings.model_fields.items()}
    of_parts = [f"{section}.{name}" for section, slot in PARTS.items() if slot.registry.having(name)]
    return of_parts + [
        f"{section}.{name}"
        for section, model in sections.items()
        if isinstance(model, type) and issubclass(model, BaseModel) and name in model.model_fields
    ]


def _table(section: str, value: Any) -> Tables:
    """Convert a section, in any allowed form, to a table. Raises UserError for an invalid form."""
    slot = PARTS.get(section)
    if slot and isinstance(value, slot.registry.base):
        return part_table(value, slot)
    if slot and (isinstance(value, str) or (isinstance(value, type) and issubclass(value, slot.registry.base))):
        return {"name": value}
    if isinstance(value, BaseModel):
        return dict(value)
    if isinstance(value, Mapping):
        return {key: as_plain(item) for key, item in value.items()}
    if section in Settings.model_fields:
        expected = f"a {slot.registry.kind}, its name, or a table" if slot else f"a table [{section}]"
        raise UserError(f"{section} must be {expected}, got {value!r}")
    dotted = keys_named(section)
    close = f"; did you mean {dotted[0]}?" if dotted else nearest(section, Settings.model_fields)
    raise UserError(f"{section}: unknown section{close} (allowed: {', '.join(sorted(Settings.model_fields))})")
