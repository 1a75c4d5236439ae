"""What users may give as a configuration and as overrides, brought into one form: tables, and values by dotted key.

"demo", "mine.toml", Path("mine.toml")                                  a settings file, or the name of a shipped one
{"local": {"steps": 5}, "scheme": airfl.schemes.Pfels(ratio=0.1)}       tables
{"local.steps": 5, "local.clip_norm": 1.0, "scheme": "pfels"}           the same by dotted key
airfl.load_settings("demo")                                             settings
airfl.Experiment(scheme=airfl.schemes.Pfels(), local=..., radio=...)    an experiment

["scheme.ratio=0.1", "run.rounds=50"]                                   overrides as the command line takes them
{"scheme.ratio": 0.1, "run": {"rounds": 50}}                            overrides as Python values
{"radio.fading.k": 5.0, "radio.max_snr_db": 20.0}                       keys as `airfl.Radio` has them
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
    """Settings, with what no settings file can hold: see `airfl.Experiment`."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """All of them."""

    @property
    @abstractmethod
    def own_task(self) -> Any | None:
        """An `airfl.Task`, None where the settings name what is learned."""


Config = str | os.PathLike[str] | Mapping[str, Any] | Settings | Configuration
"""The name or path of a settings file, tables, settings, or an experiment."""
Overrides = Sequence[str] | Mapping[str, Any]
"""Texts "section.key=value", or values by dotted key; the last one of a key wins."""

BESIDE = ("compare", "plugins")
"""What a settings file may hold beside its sections."""
PARTS: dict[str, PartOf[Any]] = {
    section: slot
    for section, field in Settings.model_fields.items()
    for slot in field.metadata
    if isinstance(slot, PartOf)
}
"""The sections that are a part."""
FORMS = "a settings file, the name of one that comes with airfl, a dict of tables, settings, or an experiment"
OF_THE_RADIO = tuple(field.name for field in dataclasses.fields(RadioSections))
"""The sections of which an `airfl.Radio` is made."""
RADIO = "radio."


def source_of(config: object) -> str:
    """What messages call a configuration."""
    return str(config) if isinstance(config, str | os.PathLike) else "settings"


def is_file(config: Config) -> bool:
    """Whether it is the name or path of a settings file; UserError for what is no configuration at all."""
    if not isinstance(config, str | os.PathLike | Mapping | Settings | Configuration):
        raise UserError(f"config must be {FORMS}, got {config!r}")
    return isinstance(config, str | os.PathLike)


def task_of(config: object, task: Any | None, keys: Iterable[str] = ()) -> Any | None:
    """The own task of an experiment, or the one that is given beside a configuration.

    keys: Dotted keys of what is set or swept beside the configuration. UserError for both tasks, and for a key of what
    the task has itself, which would be without effect.
    """
    own = config.own_task if isinstance(config, Configuration) else None
    if task is not None and (type(task).__module__, type(task).__name__) != ("airfl.tasks.own", "Task"):
        raise UserError(f"task must be an airfl.Task, got {str(task)[:80]!r}; put a model and its data into one")
    if own is not None and task is not None:
        raise UserError("task: the experiment has its own; give it there or as task=, not both")
    found = task if own is None else own
    if found is None:
        return None
    for key in keys:
        if any(f"{key}.".startswith(f"{one}.") for one in found.own_keys):
            raise UserError(f"{key}: the task {found.name!r} brings its own; leave it out, or make another task")
    return found


def settings_key(key: str) -> str:
    """The dotted key of settings for one that is said as `airfl.Radio` and parts have it: channel.rician_k for
    radio.fading.k. UserError for a key that the radio does not have."""
    if not key.startswith(RADIO):
        return key
    name, dot, inner = key[len(RADIO) :].partition(".")
    slot = {"fading": "channel.fading", "power": "power.policy"}.get(name)
    if slot is None and name in OF_THE_RADIO:
        return key[len(RADIO) :]
    if slot is None:
        sections = ("channel", "power")
        slot = next((f"{one}.{name}" for one in sections if name in fields_of(one)), None)
    if slot is None:
        known = [*fields_of("channel"), *fields_of("power"), *OF_THE_RADIO]
        raise UserError(f"{key}: the radio has no {name}{nearest(name, known)}; see airfl.Radio")
    return f"{slot}{dot}{inner}"


def fields_of(section: str) -> Collection[str]:
    """The keys of a section that is no part."""
    kind = Settings.model_fields[section].annotation
    assert isinstance(kind, type)
    assert issubclass(kind, BaseModel)
    return kind.model_fields


def tables_from(given: Mapping[Any, Any]) -> Tables:
    """A dict of tables, of dotted keys, or of both, as tables."""
    tables: Tables = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise UserError(f"{key!r}: a section or a dotted key is wanted, for instance {{'run.rounds': 50}}")
        if key == "radio":
            for one, table in _of_the_radio(value).items():
                tables[one] = {**tables.get(one, {}), **table}
            continue
        key = settings_key(key)
        section, dot, name = key.partition(".")
        if key in BESIDE:
            tables[key] = value
        elif dot:
            if section in BESIDE or not (section and name):
                raise UserError(f"{key}: a dotted key section.key is wanted")
            tables[section] = {**tables.get(section, {}), name: as_plain(value)}
        else:
            tables[key] = {**tables.get(key, {}), **_table(key, value)}
    return tables


def _of_the_radio(value: Any) -> Tables:
    """Sections of an `airfl.Radio`, or of a mapping of what it takes."""
    if isinstance(value, Mapping):
        return tables_from({f"{RADIO}{key}": one for key, one in value.items()})
    sections = getattr(value, "sections", value)
    if not isinstance(sections, RadioSections):
        raise UserError(f"radio: an airfl.Radio or a mapping of its arguments is wanted, not {value!r}")
    return {name: dict(getattr(sections, name)) for name in OF_THE_RADIO}


def changes_of(overrides: Overrides) -> dict[str, Any]:
    """What overrides set, by dotted key. UserError for what is no override."""
    if isinstance(overrides, Mapping):
        tables = tables_from(overrides)
        beside = next((name for name in BESIDE if name in tables), None)
        if beside:
            raise UserError(f"override {beside!r}: rows and plugins belong to a configuration; overrides are settings")
        return {f"{section}.{key}": value for section, table in tables.items() for key, value in table.items()}
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        example = "['run.rounds=50'] or {'run.rounds': 50}"
        raise UserError(f"overrides must be a list or a mapping, for instance {example}, got {overrides!r}")
    changes: dict[str, Any] = {}
    for text in overrides:
        key, equals, value = text.partition("=") if isinstance(text, str) else ("", "", "")
        section, dot, name = key.strip().partition(".")
        if not (equals and dot and section and name):
            raise UserError(f"override {text!r}: section.key=value is wanted, for instance run.rounds=50")
        changes[settings_key(f"{section}.{name}")] = read_value(value.strip())
    return changes


def read_value(text: str) -> Any:
    """A value of an override: TOML, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, a number of thousands of digits, or too deep
        return text


def as_plain(value: Any) -> Any:
    """A value as a settings file would hold it: numbers of NumPy as Python's, paths as texts, tuples as lists."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, tuple):
        return [as_plain(one) for one in value]
    return value


def part_table(part: Part, slot: PartOf[Any]) -> Tables:
    """A part as a table, named by its class where no name stands for it."""
    kind = type(part)
    return {"name": kind.name if slot.registry.get(kind.name) is kind else kind, **part.values()}


def keys_named(name: str) -> list[str]:
    """The dotted keys of that name, without their sections."""
    sections = {section: field.annotation for section, field in Settings.model_fields.items()}
    of_parts = [f"{section}.{name}" for section, slot in PARTS.items() if slot.registry.having(name)]
    return of_parts + [
        f"{section}.{name}"
        for section, model in sections.items()
        if isinstance(model, type) and issubclass(model, BaseModel) and name in model.model_fields
    ]


def _table(section: str, value: Any) -> Tables:
    """A section as a table; UserError for what is none."""
    slot = PARTS.get(section)
    if slot and isinstance(value, slot.registry.base):
        return part_table(value, slot)
    if slot and (isinstance(value, str) or (isinstance(value, type) and issubclass(value, slot.registry.base))):
        return {"name": value}
    if isinstance(value, BaseModel):
        return dict(value)
    if isinstance(value, Mapping):
        return {key: as_plain(one) for key, one in value.items()}
    if section in Settings.model_fields:
        wanted = f"a {slot.registry.kind}, its name, or a table" if slot else f"a table [{section}]"
        raise UserError(f"{section}: {wanted} is wanted, not {value!r}")
    dotted = keys_named(section)
    close = f"; did you mean {dotted[0]}?" if dotted else nearest(section, Settings.model_fields)
    raise UserError(f"{section}: unknown section{close} (allowed: {', '.join(sorted(Settings.model_fields))})")
