"""Generate the reference pages from the program itself: settings, commands, the trace, and the Python interface.

The pages are kept in git so that they can be read without a build; a test fails when they are out of date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import typer
from sphinx.application import Sphinx

import airfl
from airfl.cli import app
from airfl.config import Settings
from airfl.config.parts import section_of
from airfl.config.plugins import REGISTRIES
from airfl.runtime.callable import CallableModule
from airfl.storage.trace import schema

WIDTH = 100
BUILDING_BLOCKS = ("schemes", "server", "stages", "streams")
"""Modules of `airfl` whose classes and functions user-defined parts are made of."""
LIMITS = {"exclusiveMinimum": "above", "minimum": "from", "exclusiveMaximum": "below", "maximum": "to"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads the source folder."""
    write(Path(app.srcdir) / "reference")
    app.connect("autodoc-process-docstring", as_text)
    app.connect("autodoc-skip-member", is_listed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def as_text(app: Sphinx, what: str, name: str, of: object, options: object, lines: list[str]) -> None:
    """Escape what docstrings and types have as text, and reStructuredText as markup: the bars of |h|, and bool_."""
    lines[:] = [line.replace("|", "\\|").replace("bool_", "bool\\_") for line in lines]


def is_listed(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Skip a property that its class lists under "Attributes:", because the page shows it there; None for other
    members, which leaves the decision to other handlers."""
    getter = getattr(member, "fget", None)
    of = getter and getattr(import_module(getter.__module__), getter.__qualname__.rpartition(".")[0], None)
    listed = (inspect.getdoc(of) or "").partition("Attributes:\n")[2] if of else ""
    return True if re.search(rf"^    {name}: ", listed, re.MULTILINE) else None


def write(folder: Path) -> None:
    """Write the pages that changed."""
    folder.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        file, text = folder / f"{name}.md", make()
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def settings_page() -> str:
    """Return the page of settings: each with its type, default and meaning, in one table per section."""
    described = Settings.model_json_schema()
    lines = [
        "# Settings",
        "",
        "A configuration is a TOML file with these sections; on the command line `section.key=value` replaces a value. "
        "`airfl config CONFIG` prints the settings of a file with their defaults, and `airfl config --schema` prints "
        "the JSON schema from which this page is generated.",
        "",
    ]
    for name in described["properties"]:
        section = section_of(described, name)
        lines += [f"## {name}", "", section.get("description", ""), "", "| key | values | default | description |"]
        lines.append("| :--- | :--- | :--- | :--- |")
        needed = section.get("required", [])
        for key, field in section["properties"].items():
            default = "required" if key in needed else f"`{shown(field.get('default'))}`"
            about = cell(field.get("description", ""))
            lines.append(f"| `{name}.{key}` | {values_of(field)} | {default} | {about} |")
        lines.append("")
    lines += [
        "## compare",
        "",
        "Each `[[compare]]` table is a row of `airfl compare`: a `label`, and any settings as dotted keys, which "
        "replace those of the file.",
        "",
    ]
    return "\n".join(lines)


def shown(value: Any) -> str:
    """Return a default value in TOML notation."""
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def values_of(field: dict[str, Any]) -> str:
    """Describe the allowed values of a setting in words."""
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(values_of(one) for one in field["anyOf"]))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{shown(field['const'])}`"
    if field.get("type") == "array":
        return f"list of {values_of(field.get('items', {}))}"
    kind = {
        **{"integer": "whole number", "number": "number", "string": "text"},
        **{"boolean": "true, false", "null": "none", "object": "a table"},
    }
    limits = [
        f"{sign} {field[name]:g}"
        for name, sign in (
            ("exclusiveMinimum", "above"),
            ("minimum", "from"),
            ("exclusiveMaximum", "below"),
            ("maximum", "to"),
        )
        if name in field
    ]
    return " ".join([kind.get(field.get("type", ""), "text"), *limits])


def commands_page() -> str:
    """Return the page of commands: the help of each, as in the terminal."""
    lines = ["# Commands", "", "This page shows the output of `--help` for each command.", ""]
    for path, text in helps():
        lines += [f"## {path}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def helps() -> Iterator[tuple[str, str]]:
    """Yield the name and the help text of each command."""
    waiting: list[tuple[str, click.Command, Any]] = [("airfl", typer.main.get_command(app), None)]
    while waiting:
        path, command, parent = waiting.pop(0)
        context = command.context_class(command, info_name=path.split()[-1], parent=parent, terminal_width=WIDTH)
        yield path, command.get_help(context)
        below = getattr(command, "commands", {})
        waiting += [(f"{path} {name}", one, context) for name, one in below.items()]


def trace_page() -> str:
    """Return the page of the trace: a table of all variables."""
    tables = {
        name: value
        for name, value in vars(schema).items()
        if isinstance(value, tuple) and value and all(isinstance(one, schema.Variable) for one in value)
    }
    lines = [
        "# The trace",
        "",
        f"The variables of `trace.h5`, schema `{schema.SCHEMA}`. Rounds, slots and devices are counted from 0; a slot "
        "is a place among the devices selected in a round. [Traces and exports](../exports.md) explains how to read a "
        "trace.",
        "",
        "Energies that are not in joules have a second name: a run in normalised units has `energy_j` also as "
        f"`{schema.true_name('energy_j', schema.NORMALISED)}`, and so on. In a run in physical units, energies are in "
        "J and have one name.",
        "",
        "| variable | dimensions | type | unit | description |",
        "| :--- | :--- | :--- | :--- | :--- |",
    ]
    for variable in (schema.ROUND, *dict.fromkeys(one for table in tables.values() for one in table)):
        dimensions = ", ".join(variable.dimensions)
        lines.append(
            f"| `{variable.name}` | {dimensions} | {variable.dtype} | {variable.units} | {cell(variable.long_name)} |"
        )
    own = schema.metric_variable("NAME")
    lines.append(f"| `{own.name}` | round | {own.dtype} | 1 | for an `airfl.Task`: {cell(own.long_name)} |")
    return "\n".join(lines) + "\n"


def python_page() -> str:
    """Return the page of the Python interface: the public names of `airfl`, of `airfl.callbacks`, and of the modules
    that user-defined parts are made of."""
    lines = [
        "# Python",
        "",
        "This page documents the public names of `airfl`.",
        "",
        "```{eval-rst}",
        ".. currentmodule:: airfl",
        "",
    ]
    for name in airfl.__all__:
        if name in ("__version__", "callbacks"):
            continue
        there = getattr(airfl, name)
        if inspect.isclass(there):
            lines += [f".. autoclass:: {name}", ""]
        elif inspect.isfunction(there):
            lines += [f".. autofunction:: {name}", ""]
        elif isinstance(there, CallableModule):  # a callable module: document its function
            function = there.__calls__.replace(":", ".")
            # The listing of its source links to the function under `airfl`, where viewcode expects it.
            anchors = dict.fromkeys((f"airfl.{name}", f"airfl.{function.rpartition('.')[2]}"))
            spans = "".join(f'<span id="{anchor}"></span>' for anchor in anchors)
            lines += [".. raw:: html", "", f"   {spans}", "", f".. autofunction:: {function}", ""]
    lines += ["```", ""]
    for registry in REGISTRIES:
        kinds = f"{registry.kind[:-1]}ies" if registry.kind.endswith("y") else f"{registry.kind}s"
        lines += [
            f"## {kinds.capitalize()}",
            "",
            f"Classes derived from `{where(registry.base)}`.",
            "",
            "```{eval-rst}",
        ]
        for part in (registry[name] for name in registry.classes.values()):
            lines += [f".. autoclass:: {where(part)}", "   :no-members:", ""]
        lines += ["```", ""]
    lines += [
        "## What user-defined parts are made of",
        "",
        "The pages on [parts of your own](../extending/index.md) import these classes and functions.",
        "",
        "```{eval-rst}",
    ]
    for room in BUILDING_BLOCKS:
        lines += [f".. currentmodule:: airfl.{room}", "", *building_blocks(room)]
    lines += ["```", ""]
    lines += [
        "## Callbacks",
        "",
        "Callbacks are notified during a run: see [callbacks](../callbacks.md).",
        "",
    ]
    lines += ["```{eval-rst}", ".. currentmodule:: airfl.callbacks", ""]
    for name in airfl.callbacks.__all__:
        lines += [f".. autoclass:: {name}", *(["   :members:"] if name == "Callback" else []), ""]
    return "\n".join([*lines, "```", ""])


def building_blocks(room: str) -> Iterator[str]:
    """Yield the lines that document the public classes and functions of a module, without the registered parts, which
    have sections of their own."""
    module = getattr(airfl, room)
    registered = {registry[name] for registry in REGISTRIES for name in registry.classes.values()}
    for name in getattr(module, "__all__", dir(module)):
        there = getattr(module, name)
        if inspect.isclass(there) and there not in registered:
            yield from (f".. autoclass:: {name}", "")
        elif inspect.isfunction(there):
            yield from (f".. autofunction:: {name}", "")


def where(part: type[Any]) -> str:
    """Return the shortest path from which a class can be imported."""
    package = part.__module__.rpartition(".")[0]
    there = getattr(import_module(package), part.__name__, None) if package else None
    return f"{package if there is part else part.__module__}.{part.__name__}"


def cell(text: str) -> str:
    """Escape a text for a table cell."""
    return text.replace("|", "\\|").replace("*", "\\*")


PAGES: dict[str, Callable[[], str]] = {
    "settings": settings_page,
    "commands": commands_page,
    "trace": trace_page,
    "python": python_page,
}
