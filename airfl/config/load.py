"""Loading of settings from TOML files and overrides. Errors are one line that names the file or key."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airfl.config.arguments import public
from airfl.config.digital import ALLOCATION, ERROR_MODEL
from airfl.config.given import (
    PARTS,
    Config,
    Configuration,
    Overrides,
    Tables,
    changes_of,
    is_file,
    part_table,
    source_of,
    tables_from,
)
from airfl.config.part_keys import NamedPart, PartTable
from airfl.config.plugins import load_plugins
from airfl.config.privacy import ACCOUNTANT
from airfl.config.problems import first_line
from airfl.config.radio import COMBINER, FADING, INTERFERENCE, POLICY, RULE
from airfl.config.scheme import SCHEME
from airfl.config.settings import Settings
from airfl.config.task import DATASET, MODEL, PARTITION
from airfl.errors import UserError, nearest, shown_value
from airfl.schemes.names import SCHEMES
from airfl.storage.input_files import SETTINGS_BYTES, read_regular
from airfl.storage.resources import find_configuration
from channels.part import Part, parameters_of

SCHEME_NAME = "scheme.name"
NAMED: dict[str, NamedPart[Any]] = {
    one.key: one
    for one in (
        *(RULE, PARTITION, MODEL, DATASET, ACCOUNTANT),
        *(FADING, INTERFERENCE, COMBINER, POLICY, ALLOCATION, ERROR_MODEL),
    )
}
"""Dotted keys that hold a part, with their declarations."""


@dataclass(frozen=True)
class Row:
    """One row of a comparison.

    Attributes:
        label: Its name in tables and figures.
        settings: Its complete settings.
    """

    label: str
    settings: Settings


@public
def load_settings(config: Config, overrides: Overrides = (), *, plugins: bool = False) -> Settings:
    """Load and validate settings from a configuration, in any of its forms, and overrides.

    Args:
        config: A TOML file; the name of a shipped one ("demo", see `airfl configs`); a dict of tables or of dotted
            keys, `{"local.steps": 5, "local.clip_norm": 1.0}`; an experiment; or settings, which are returned unchanged
            if there are no overrides.
        overrides: `["scheme.ratio=0.1"]`, as on the command line, or `{"scheme.ratio": 0.1}`. In a mapping, a section
            that is a part may also be given as a whole, `{"scheme": airfl.schemes.Pfels(ratio=0.1)}`. If a key is
            repeated, the last value wins.
        plugins: Whether the plugin files that a settings file names, which are code, may be executed.

    Raises UserError (one line: the file or key, what was given, what is allowed) for invalid settings.
    """
    changes = changes_of(overrides)
    if isinstance(config, Configuration):
        config = config.settings
    if isinstance(config, Settings) and not changes:
        return config
    tables = read_tables(config, plugins)
    overridden = override_row(without_rows(tables), changes)
    return validate(without_foreign(overridden, for_rows(tables, changes)), source=source_of(config))


def for_rows(tables: Tables, but: Collection[str]) -> list[str]:
    """Return the dotted keys of [scheme], except those in `but`, if the file has [[compare]] rows; else an empty list.

    The schemes of the rows share these keys: each row takes those that its scheme has.
    """
    return [key for key in scheme_keys(tables) if key not in but] if "compare" in tables else []


def recorded(tables: Tables, like: Settings | None = None) -> Settings:
    """Validate the settings recorded in a trace, a checkpoint or a sweep.

    Keys that the scheme does not have are dropped, since earlier versions recorded them.

    Args:
        tables: The recorded settings.
        like: Settings whose scheme class is used if the recorded scheme has the same name, for schemes that are not
            registered.

    Raises ValueError for invalid settings.
    """
    scheme = tables.get("scheme")
    if like is not None and isinstance(scheme, dict) and scheme.get("name") == like.scheme.name:
        tables = {**tables, "scheme": {**scheme, "name": type(like.scheme)}}
    return Settings.model_validate(without_foreign(tables, scheme_keys(tables)))


def settings_file(path: Config, overrides: Overrides = (), *, changed: bool = False) -> str:
    """Return the settings of a configuration as TOML: its plugins, every setting that is not None, and its rows.

    With `changed`, only settings that differ from their defaults are written.
    """
    import tomli_w

    dumped = load_settings(path, overrides).model_dump(exclude_defaults=changed)
    tables = {name: {key: value for key, value in table.items() if value is not None} for name, table in dumped.items()}
    other = {key: value for key, value in read_tables(path).items() if key in ("compare", "plugins")}
    head = {"plugins": other.pop("plugins")} if "plugins" in other else {}
    return tomli_w.dumps({**head, **tables, **other})


def load_rows(
    config: Config,
    overrides: Overrides = (),
    schemes: Sequence[str] = (),
    given: Mapping[str, Overrides] | None = None,
    *,
    plugins: bool = False,
) -> list[Row]:
    """Return the rows of `airfl compare`: those in `given`, else one per scheme in `schemes`, else those of the file.

    Args:
        config: The configuration, in any of its forms.
        overrides: Overrides for every row; the row's own values take precedence over them.
        schemes: Names of schemes to compare.
        given: Label -> overrides of each row.
        plugins: Whether the plugin files that a settings file names may be executed.
    """
    tables, source, common = read_tables(config, plugins), source_of(config), changes_of(overrides)
    base = override_row(without_rows(tables), common)
    rows: list[tuple[str, dict[str, Any], str]]
    if given is not None:
        rows = rows_given(given)
    elif schemes:
        repeated = {name for name in schemes if list(schemes).count(name) > 1}
        if repeated:
            raise UserError(f"--schemes: {sorted(repeated)[0]!r} is listed more than once; list each scheme once")
        rows = [(name, {SCHEME_NAME: name}, source) for name in schemes]
    else:
        rows = read_rows(tables, source)
    overridden = [key for key in common if key.startswith("scheme.")]
    validated = []
    for label, changes, where in rows:
        shared = [key for key in (*scheme_keys(tables), *overridden) if key not in changes]
        try:
            overridden_row = override_row(base, changes)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        validated.append(Row(label, validate(without_foreign(overridden_row, shared), source=where)))
    check_used(overridden, [row.settings for row in validated], source)
    return validated


def rows_given(given: object) -> list[tuple[str, dict[str, Any], str]]:
    """Convert a mapping of label -> overrides to rows as returned by `read_rows`."""
    if not (isinstance(given, Mapping) and given and all(isinstance(label, str) and label.strip() for label in given)):
        example = "{'PFELS, p = 0.3': {'scheme.ratio': 0.3}}"
        raise UserError(f"rows must be a mapping of labels to overrides, for instance {example}, got {given!r}")
    return [(label, changes_of(overrides), f"row {label!r}") for label, overrides in given.items()]


def check_used(keys: Iterable[str], rows: Sequence[Settings], source: str) -> None:
    """Raise UserError for a key of [scheme] that the scheme of none of the rows has."""
    for key in keys:
        name = key.partition(".")[2]
        if not any(name in ("name", *settings.scheme.values()) for settings in rows):
            schemes = ", ".join(dict.fromkeys(settings.scheme.name for settings in rows))
            raise UserError(f"{source}: {key}: unknown key of the schemes compared here ({schemes}); {_holders(name)}")


def _holders(name: str) -> str:
    holders = SCHEMES.having(name)
    if holders:
        return f"it is a key of {', '.join(holders)}"
    return f"no scheme has such a key{nearest(name, _all_parameters())}"


def _all_parameters() -> list[str]:
    return [parameter.name for scheme in SCHEMES.values() for parameter in parameters_of(scheme)]


def read_tables(path: Config, plugins: bool = False) -> Tables:
    """Read a configuration, in any of its forms, as plain tables.

    Plugin files that a settings file names are executed first, if `plugins` allows it.
    """
    if isinstance(path, Configuration):
        path = path.settings
    if isinstance(path, Settings):
        return tables_of(path)
    if not is_file(path):
        assert isinstance(path, Mapping)
        return tables_given(path)
    assert not isinstance(path, Mapping)
    try:
        file = find_configuration(path if isinstance(path, str) else Path(path))
        tables = tomllib.loads(read_regular(file, SETTINGS_BYTES).decode())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except RecursionError:
        raise UserError(f"{path}: not valid TOML: brackets are nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise UserError(f"{path}: not valid TOML: {error}") from None
    if "plugins" in tables:
        load_plugins(tables["plugins"], file, plugins)
    return tables


def tables_given(config: Mapping[Any, Any]) -> Tables:
    """Convert a dict of tables or of dotted keys to tables, and apply keys of a part's parameters to the part.

    For instance, radio.fading.k is set in the part that radio.fading gives.
    """
    tables = tables_from(config)
    below = {
        f"{section}.{key}": value
        for section, table in tables.items()
        if isinstance(table, dict)
        for key, value in table.items()
        if "." in key and f"{section}.{key.partition('.')[0]}" in NAMED
    }
    kept = {
        section: {key: value for key, value in table.items() if f"{section}.{key}" not in below}
        if isinstance(table, dict)
        else table
        for section, table in tables.items()
    }
    return override_row(kept, below) if below else tables


def tables_of(settings: Settings) -> Tables:
    """Convert settings to plain tables, which can be changed and validated again.

    A part that is not registered under its name is named by its class.
    """
    tables = settings.model_dump()
    return tables | {section: part_table(getattr(settings, section), slot) for section, slot in PARTS.items()}


def override(tables: Tables, overrides: Overrides) -> Tables:
    """Return a copy of the tables with overrides applied; if a key is repeated, the last value wins."""
    return override_row(tables, changes_of(overrides))


def keys_of(overrides: Overrides) -> list[str]:
    """Return the dotted keys of overrides."""
    return list(changes_of(overrides))


def without_foreign(tables: Tables, keys: Collection[str]) -> Tables:
    """Return the tables without those of the given dotted keys that only other schemes have."""
    table = tables.get("scheme")
    if not isinstance(table, dict):
        return tables
    name = table.get("name", SCHEME.default)
    kind = name if isinstance(name, type) else SCHEMES.get(name)
    if kind is None:
        return tables
    own = {"name", *(parameter.name for parameter in parameters_of(kind))}
    foreign = {key for key in table if f"scheme.{key}" in keys and key not in own and SCHEMES.having(key)}
    return {**tables, "scheme": {key: value for key, value in table.items() if key not in foreign}}


def scheme_keys(tables: Tables) -> list[str]:
    """Return the dotted keys of [scheme]."""
    table = tables.get("scheme")
    return [f"scheme.{key}" for key in table] if isinstance(table, dict) else []


def validate(tables: Tables, source: str) -> Settings:
    """Validate plain tables as settings. Raises a UserError that names the first invalid entry."""
    try:
        return Settings.model_validate(tables)
    except ValidationError as error:
        raise UserError(f"{source}: {first_line(error, Settings)}") from None


def without_rows(tables: Tables) -> Tables:
    """Return the tables of settings only, without rows and plugins."""
    return {name: table for name, table in tables.items() if name not in ("compare", "plugins")}


def _with(tables: Tables, section: str, name: str, value: Any) -> Tables:
    table = tables.get(section, {})
    if not isinstance(table, dict):
        raise UserError(f"{section} must be a table [{section}], got {shown_value(table)}")
    name = plain_key(f"{section}.{name}", tables).partition(".")[2]
    slot, dot, inner = name.partition(".")
    if not dot:
        return {**tables, section: {**table, name: value}}
    return {**tables, section: {**table, slot: _part_with(f"{section}.{slot}", table.get(slot), inner, value)}}


def plain_key(key: str, tables: Tables) -> str:
    """Return the section's key for a parameter of a part, if there is one: channel.rician_k for channel.fading.k.

    Other keys are returned unchanged. The tables determine which part it is.
    """
    section, _, rest = key.partition(".")
    slot, dot, name = rest.partition(".")
    named = NAMED.get(f"{section}.{slot}")
    if named is None or not dot:
        return key
    table = tables.get(section)
    value = table.get(slot) if isinstance(table, dict) else None
    value = value.part if isinstance(value, PartTable) else value
    kind = type(value) if isinstance(value, Part) else value.get("name") if isinstance(value, Mapping) else value
    part = kind if isinstance(kind, type) else named.registry.get(kind or named.default)
    section_key = (
        next((parameter.key for parameter in parameters_of(part) if parameter.name == name), "") if part else ""
    )
    return f"{section}.{section_key}" if section_key else key


def _part_with(slot: str, current: Any, name: str, value: Any) -> Any:
    """Return the part that a key holds as a table with one parameter set, for instance channel.fading.share=0.3."""
    named = NAMED.get(slot)
    if named is None:
        raise UserError(f"{slot}.{name}: {slot} has no parameters; keys must have the form section.key")
    part = current.part if isinstance(current, PartTable) else current
    if isinstance(part, Part):
        return {"name": type(part), **part.values(), name: value}
    table = {"name": current or named.default} if current is None or isinstance(current, str) else current
    if not isinstance(table, dict):
        raise UserError(f"{slot} must be a name or a table, got {shown_value(current)}")
    return {**table, name: value}


def read_rows(tables: Tables, source: str) -> list[tuple[str, dict[str, Any], str]]:
    """Return (label, dotted key -> value, location for messages) for each [[compare]] row.

    Raises UserError if there are no rows.
    """
    rows = tables.get("compare")
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{source}: no [[compare]] rows to compare; add some or pass --schemes a,b")
    return [_read_row(row, f"{source}: [[compare]] row {number}") for number, row in enumerate(rows, start=1)]


def override_row(tables: Tables, changes: Mapping[str, Any]) -> Tables:
    """Return a copy of the tables with values set by dotted key.

    If the scheme changes, keys that the new scheme does not have are dropped.
    """
    if SCHEME_NAME in changes:
        inherited = [key for key in scheme_keys(tables) if key not in changes]
        before = tables.get("scheme")
        if isinstance(before, dict) and before.get("name", SCHEME.default) != changes[SCHEME_NAME]:
            tables = without_foreign(_with(tables, "scheme", "name", changes[SCHEME_NAME]), inherited)
    # Parts are set before their parameters.
    for key, value in sorted(changes.items(), key=lambda change: change[0] not in NAMED):
        section, dot, name = key.partition(".")
        if not (dot and section and name):
            raise UserError(f"{key}: keys must have the form section.key")
        tables = _with(_without_keys_of(tables, key, value), section, name, value)
    return tables


def _without_keys_of(tables: Tables, key: str, value: Any) -> Tables:
    """Return the tables without the section's keys for parameters of the part, if it is set as an object or a table."""
    named = NAMED.get(key)
    section = key.partition(".")[0]
    if named is None or not isinstance(value, Part | Mapping) or not isinstance(tables.get(section), dict):
        return tables
    kind = type(value) if isinstance(value, Part) else named.registry.get(value.get("name", named.default))
    own = {parameter.key for parameter in parameters_of(kind) if parameter.key} if kind else set()
    return {**tables, section: {name: entry for name, entry in tables[section].items() if name not in own}}


def _read_row(row: Any, where: str) -> tuple[str, dict[str, Any], str]:
    if not isinstance(row, dict) or not isinstance(row.get("label"), str) or not row["label"].strip():
        raise UserError(f'{where}: needs a label, for instance label = "PFELS, p = 0.3"')
    changes: dict[str, Any] = {}
    for key, value in row.items():
        if key == "label":
            continue
        # TOML parses "scheme.ratio" = 0.3 (quoted) as one key, and scheme.ratio = 0.3 (bare) as a nested table.
        section, _, name = key.partition(".")
        entries = {name: value} if name else value
        if not section or not isinstance(entries, dict) or "" in entries:
            raise UserError(f"{where}: {key}: keys must have the form section.key")
        changes |= {f"{section}.{entry}": item for entry, item in entries.items()}
    return row["label"], changes, f"{where} ({row['label']})"
