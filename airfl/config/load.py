"""Settings from a TOML file and overrides, with one-line errors that name the key."""

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
from airfl.config.problems import first_line
from airfl.config.radio import COMBINER, FADING, POLICY, RULE
from airfl.config.scheme import SCHEME
from airfl.config.settings import ACCOUNTANT, Settings
from airfl.config.task import DATASET, MODEL, PARTITION
from airfl.errors import UserError, nearest
from airfl.input import SETTINGS_BYTES, read_regular
from airfl.plugins import load_plugins
from airfl.schemes.names import SCHEMES
from airfl.shipped import find_configuration
from channels.part import Part, parameters_of

SCHEME_NAME = "scheme.name"
NAMED: dict[str, NamedPart[Any]] = {
    one.key: one
    for one in (
        *(RULE, PARTITION, MODEL, DATASET, ACCOUNTANT),
        *(FADING, COMBINER, POLICY, ALLOCATION, ERROR_MODEL),
    )
}
"""Keys of sections that hold a part."""


@dataclass(frozen=True)
class Row:
    """One row of a comparison.

    Attributes:
        label: What tables and figures call it.
        settings: Its complete settings.
    """

    label: str
    settings: Settings


@public
def load_settings(config: Config, overrides: Overrides = (), *, plugins: bool = False) -> Settings:
    """Validated settings from a configuration in any of its forms, and overrides.

    Args:
        config: A TOML file; a shipped one by name ("demo", see `airfl configs`); a dict of tables or of dotted keys,
            `{"local.steps": 5, "local.clip_norm": 1.0}`; or settings, which are returned as they are where nothing is
            overridden; or an experiment.
        overrides: `["scheme.ratio=0.1"]`, as the command line takes them, or `{"scheme.ratio": 0.1}`, where a section
            that is a part may also be given as a whole, `{"scheme": airfl.schemes.Pfels(ratio=0.1)}`. The last one of
            a key wins.
        plugins: Whether the plugin files that a settings file names, which are code, may run.

    Raises UserError (one line: file or key, what was found, what is allowed) on anything that cannot be used.
    """
    changes = changes_of(overrides)
    if isinstance(config, Configuration):
        config = config.settings
    if isinstance(config, Settings) and not changes:
        return config
    tables = read_tables(config, plugins)
    given = override_row(without_rows(tables), changes)
    return validate(without_foreign(given, for_rows(tables, changes)), source=source_of(config))


def for_rows(tables: Tables, but: Collection[str]) -> list[str]:
    """The keys of a file's [scheme], but those, if it has [[compare]] rows, whose schemes share them: each takes those
    that it has a use for."""
    return [key for key in scheme_keys(tables) if key not in but] if "compare" in tables else []


def recorded(tables: Tables, like: Settings | None = None) -> Settings:
    """Settings as a trace, a checkpoint or a sweep has them: an earlier version's may name keys that a scheme has no
    use for. like: settings whose scheme may be one that no name stands for, and is meant by it. ValueError for what is
    no settings."""
    scheme = tables.get("scheme")
    if like is not None and isinstance(scheme, dict) and scheme.get("name") == like.scheme.name:
        tables = {**tables, "scheme": {**scheme, "name": type(like.scheme)}}
    return Settings.model_validate(without_foreign(tables, scheme_keys(tables)))


def settings_file(path: Config, overrides: Overrides = (), *, changed: bool = False) -> str:
    """The same as TOML: every setting but those that are none, then the file's [[compare]] rows. changed: of the
    settings those alone that are not at their defaults."""
    import tomli_w

    dumped = load_settings(path, overrides).model_dump(exclude_defaults=changed)
    tables = {name: {key: value for key, value in table.items() if value is not None} for name, table in dumped.items()}
    beside = {key: value for key, value in read_tables(path).items() if key in ("compare", "plugins")}
    head = {"plugins": beside.pop("plugins")} if "plugins" in beside else {}
    return tomli_w.dumps({**head, **tables, **beside})


def load_rows(
    config: Config,
    overrides: Overrides = (),
    schemes: Sequence[str] = (),
    given: Mapping[str, Overrides] | None = None,
    *,
    plugins: bool = False,
) -> list[Row]:
    """The rows of `airfl compare`: those given, label -> overrides; else one for each of `schemes`; else one for each
    [[compare]] of the file.

    Overrides hold for every row; what a row itself sets comes after them.
    """
    tables, source, of_all = read_tables(config, plugins), source_of(config), changes_of(overrides)
    base = override_row(without_rows(tables), of_all)
    rows: list[tuple[str, dict[str, Any], str]]
    if given is not None:
        rows = rows_given(given)
    elif schemes:
        repeated = {name for name in schemes if list(schemes).count(name) > 1}
        if repeated:
            raise UserError(f"--schemes: {sorted(repeated)[0]!r} is given twice")
        rows = [(name, {SCHEME_NAME: name}, source) for name in schemes]
    else:
        rows = read_rows(tables, source)
    wanted = [key for key in of_all if key.startswith("scheme.")]
    found = []
    for label, changes, where in rows:
        shared = [key for key in (*scheme_keys(tables), *wanted) if key not in changes]
        found.append(Row(label, validate(without_foreign(override_row(base, changes), shared), source=where)))
    check_used(wanted, [row.settings for row in found], source)
    return found


def rows_given(given: object) -> list[tuple[str, dict[str, Any], str]]:
    """Rows as `read_rows` has them, of a mapping of label -> overrides."""
    if not (isinstance(given, Mapping) and given and all(isinstance(label, str) and label.strip() for label in given)):
        example = "{'PFELS, p = 0.3': {'scheme.ratio': 0.3}}"
        raise UserError(f"rows must be a mapping of label to overrides, for instance {example}, got {given!r}")
    return [(label, changes_of(overrides), f"row {label!r}") for label, overrides in given.items()]


def check_used(keys: Iterable[str], found: Sequence[Settings], source: str) -> None:
    """UserError for a key of [scheme] that none of the schemes has."""
    for key in keys:
        name = key.partition(".")[2]
        if not any(name in ("name", *settings.scheme.values()) for settings in found):
            told = ", ".join(dict.fromkeys(settings.scheme.name for settings in found))
            raise UserError(f"{source}: {key}: none of the schemes {told} has it; {_holders(name)}")


def _holders(name: str) -> str:
    having = SCHEMES.having(name)
    return f"it belongs to {', '.join(having)}" if having else f"no scheme has one{nearest(name, _all_parameters())}"


def _all_parameters() -> list[str]:
    return [one.name for part in SCHEMES.values() for one in parameters_of(part)]


def read_tables(path: Config, plugins: bool = False) -> Tables:
    """The TOML file, or shipped configuration of that name, as plain tables; or those that are given. Plugins that a
    file names are run first, where the caller allows them."""
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
        raise UserError(f"{path}: not valid TOML: brackets within brackets, too deep") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise UserError(f"{path}: not valid TOML: {error}") from None
    if "plugins" in tables:
        load_plugins(tables["plugins"], file, plugins)
    return tables


def tables_given(given: Mapping[Any, Any]) -> Tables:
    """A dict of tables or of dotted keys as tables, keys below a part resolved: radio.fading.k beside radio.fading."""
    tables = tables_from(given)
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
    """Settings as plain tables, to be changed and validated again. A part that no name stands for is named by its
    class."""
    tables = settings.model_dump()
    return tables | {section: part_table(getattr(settings, section), slot) for section, slot in PARTS.items()}


def override(tables: Tables, overrides: Overrides) -> Tables:
    """A copy of the tables with overrides applied, the last of a key."""
    return override_row(tables, changes_of(overrides))


def keys_of(overrides: Overrides) -> list[str]:
    """Their dotted keys."""
    return list(changes_of(overrides))


def without_foreign(tables: Tables, keys: Collection[str]) -> Tables:
    """The tables without those of the dotted keys that the scheme has no use for, and another scheme has."""
    table = tables.get("scheme")
    if not isinstance(table, dict):
        return tables
    name = table.get("name", SCHEME.default)
    kind = name if isinstance(name, type) else SCHEMES.get(name)
    if kind is None:
        return tables
    own = {"name", *(one.name for one in parameters_of(kind))}
    foreign = {key for key in table if f"scheme.{key}" in keys and key not in own and SCHEMES.having(key)}
    return {**tables, "scheme": {key: value for key, value in table.items() if key not in foreign}}


def scheme_keys(tables: Tables) -> list[str]:
    """The dotted keys of [scheme]."""
    table = tables.get("scheme")
    return [f"scheme.{key}" for key in table] if isinstance(table, dict) else []


def validate(tables: Tables, source: str) -> Settings:
    """Settings from plain tables, or a UserError that names the first thing that is wrong."""
    try:
        return Settings.model_validate(tables)
    except ValidationError as error:
        raise UserError(f"{source}: {first_line(error, Settings)}") from None


def without_rows(tables: Tables) -> Tables:
    """The tables of the settings alone."""
    return {name: table for name, table in tables.items() if name not in ("compare", "plugins")}


def _with(tables: Tables, section: str, name: str, value: Any) -> Tables:
    table = tables.get(section, {})
    if not isinstance(table, dict):
        raise UserError(f"{section}: a table [{section}] is wanted, not {table!r}")
    name = plain_key(f"{section}.{name}", tables).partition(".")[2]
    slot, dot, inner = name.partition(".")
    if not dot:
        return {**tables, section: {**table, name: value}}
    return {**tables, section: {**table, slot: _part_with(f"{section}.{slot}", table.get(slot), inner, value)}}


def plain_key(key: str, tables: Tables) -> str:
    """The section's own key of a part's parameter, where it has one: channel.rician_k for channel.fading.k. tables: say
    which part it is."""
    section, _, rest = key.partition(".")
    slot, dot, name = rest.partition(".")
    named = NAMED.get(f"{section}.{slot}")
    if named is None or not dot:
        return key
    table = tables.get(section)
    given = table.get(slot) if isinstance(table, dict) else None
    own = given.part if isinstance(given, PartTable) else given
    chosen = type(own) if isinstance(own, Part) else own.get("name") if isinstance(own, Mapping) else own
    part = chosen if isinstance(chosen, type) else named.registry.get(chosen or named.default)
    flat = next((one.key for one in parameters_of(part) if one.name == name), "") if part else ""
    return f"{section}.{flat}" if flat else key


def _part_with(slot: str, given: Any, name: str, value: Any) -> Any:
    """The part that a key holds, a name or a table, as a table with one parameter set: channel.fading.share=0.3."""
    named = NAMED.get(slot)
    if named is None:
        raise UserError(f"{slot}.{name}: {slot} holds no part; a dotted key section.key is wanted")
    part = given.part if isinstance(given, PartTable) else given
    if isinstance(part, Part):
        return {"name": type(part), **part.values(), name: value}
    table = {"name": given or named.default} if given is None or isinstance(given, str) else given
    if not isinstance(table, dict):
        raise UserError(f"{slot}: a name or a table is wanted, not {given!r}")
    return {**table, name: value}


def read_rows(tables: Tables, source: str) -> list[tuple[str, dict[str, Any], str]]:
    """The [[compare]] rows: label, what the row sets by dotted key, where it stands. UserError without any."""
    rows = tables.get("compare")
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{source}: no [[compare]] rows to compare; add some, or give --schemes a,b")
    return [_read_row(row, f"{source}: [[compare]] row {number}") for number, row in enumerate(rows, start=1)]


def override_row(tables: Tables, changes: Mapping[str, Any]) -> Tables:
    """A copy of the tables with values set by dotted key. Another scheme drops the keys that it does not have."""
    if SCHEME_NAME in changes:
        inherited = [key for key in scheme_keys(tables) if key not in changes]
        before = tables.get("scheme")
        if isinstance(before, dict) and before.get("name", SCHEME.default) != changes[SCHEME_NAME]:
            tables = without_foreign(_with(tables, "scheme", "name", changes[SCHEME_NAME]), inherited)
    # A part first, then what is said of its parameters.
    for key, value in sorted(changes.items(), key=lambda change: change[0] not in NAMED):
        section, dot, name = key.partition(".")
        if not (dot and section and name):
            raise UserError(f"{key}: a dotted key section.key is wanted")
        tables = _with(_without_keys_of(tables, key, value), section, name, value)
    return tables


def _without_keys_of(tables: Tables, key: str, value: Any) -> Tables:
    """The tables without the section's keys that a part, given as an object or a table, says itself."""
    named = NAMED.get(key)
    section = key.partition(".")[0]
    if named is None or not isinstance(value, Part | Mapping) or not isinstance(tables.get(section), dict):
        return tables
    kind = type(value) if isinstance(value, Part) else named.registry.get(value.get("name", named.default))
    own = {one.key for one in parameters_of(kind) if one.key} if kind else set()
    return {**tables, section: {one: kept for one, kept in tables[section].items() if one not in own}}


def _read_row(row: Any, where: str) -> tuple[str, dict[str, Any], str]:
    if not isinstance(row, dict) or not isinstance(row.get("label"), str) or not row["label"].strip():
        raise UserError(f'{where}: a label is wanted, for instance label = "PFELS, p = 0.3"')
    changes: dict[str, Any] = {}
    for key, value in row.items():
        if key == "label":
            continue
        # "scheme.ratio" = 0.3 (quoted) arrives as one key, scheme.ratio = 0.3 (bare) as a nested table.
        section, _, name = key.partition(".")
        entries = {name: value} if name else value
        if not section or not isinstance(entries, dict) or "" in entries:
            raise UserError(f"{where}: {key}: a dotted key section.key is wanted")
        changes |= {f"{section}.{entry}": item for entry, item in entries.items()}
    return row["label"], changes, f"{where} ({row['label']})"
