"""Checks of parts of the user's own, as the test suite makes them of those that come with airfl: `airfl check FILE`.

    from airfl.check import check_file, check_part
    for finding in check_part(TernGrad):
        print(finding.check, finding.found or "ok")

Every part takes the checks of `airfl.check.parts`; a kind that has more of its own is a line of `OF_KIND`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from airfl.check.finding import Check, Finding, findings
from airfl.errors import UserError
from airfl.plugins import REGISTRIES, defined_parts, load_plugin
from channels.part import Part, Registry, parameters_of

EVERY_PART = "airfl.check.parts:checks"
OF_KIND: dict[str, str] = {
    "scheme": "airfl.check.scheme:checks",
    "combiner": "airfl.check.combiner:checks",
    "fading law": "airfl.check.fading:checks",
    "allocation": "airfl.check.digital:allocation_checks",
    "error model": "airfl.check.digital:error_model_checks",
    "power policy": "airfl.check.power:checks",
    "selection rule": "airfl.check.selection:checks",
    "partition": "airfl.check.partition:checks",
    "model": "airfl.check.model:checks",
    "dataset": "airfl.check.dataset:checks",
    "accountant": "airfl.check.accountant:checks",
}
"""Kind of a registry -> "module:function" that gives its checks for a part; imported when they are asked for."""


def check_file(path: str | Path, overrides: Sequence[str] = ()) -> list[Finding]:
    """Run a plugin file, which is code, and check every part that it defines.

    Args:
        path: The Python file.
        overrides: "section.key=value" for the short runs, over the demo's settings made small; a key of [scheme] goes
            to the schemes that have it.

    Returns:
        What was found, in the order of the file, a line each.

    Raises UserError for a file that cannot be loaded or defines no part.
    """
    module = load_plugin(Path(path))
    parts = defined_parts(module)
    if not parts:
        bases = ", ".join(one.base.__name__ for one in REGISTRIES)
        raise UserError(f"{path}: defines no part; write a class with a name that derives from one of {bases}")
    _check_used(parts, overrides, path)
    return [finding for part in parts for finding in check_part(part, overrides)]


def check_part(part: Part | type[Part], overrides: Sequence[str] = ()) -> list[Finding]:
    """Check one part of the user's own.

    Args:
        part: Its class, which is then made with its defaults, or an object of it.
        overrides: As in `check_file`.

    Returns:
        What was found, a line each.

    Raises UserError for what is no part, and for overrides that are no settings.
    """
    kind = part if isinstance(part, type) else type(part)
    registry = registry_of(kind)
    made = Check("defaults", "it can be made of its defaults, and of what was given", lambda: None)
    try:
        one = registry.build(part if isinstance(part, Part) else {"name": kind, **_own(kind, registry, overrides)})
    except (ValueError, TypeError) as error:
        return [Finding(kind.name, registry.kind, made.name, made.what, "wrong", str(error))]
    homes = [EVERY_PART, *([OF_KIND[registry.kind]] if registry.kind in OF_KIND else [])]
    rest = [text for text in overrides if not text.startswith(f"{registry.kind}.")]
    listed = [made, *(check for home in homes for check in _load(home)(one, rest))]
    return findings(kind.name, registry.kind, listed, kind)


def registry_of(kind: type[Part]) -> Registry[Any]:
    """The registry that parts of that class belong to; UserError where there is none."""
    for registry in REGISTRIES:
        if isinstance(kind, type) and issubclass(kind, registry.base):
            return registry
    bases = ", ".join(f"{one.base.__module__}.{one.base.__name__}" for one in REGISTRIES)
    raise UserError(f"{kind!r} is no part; derive it from one of {bases}")


def _own(kind: type[Part], registry: Registry[Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Parameters of a part among the overrides: those of "scheme.key=value" that a scheme has."""
    from airfl.config.given import read_value

    known = {one.name for one in parameters_of(kind)}
    pairs = [text.partition("=") for text in overrides if text.startswith(f"{registry.kind}.")]
    given = {key.strip().partition(".")[2]: read_value(value.strip()) for key, _, value in pairs}
    return {key: value for key, value in given.items() if key in known}


def _check_used(parts: Sequence[type[Part]], overrides: Sequence[str], path: str | Path) -> None:
    """UserError for a parameter among the overrides that none of the parts has."""
    for text in overrides:
        section, _, name = text.partition("=")[0].strip().partition(".")
        of_section = [part for part in parts if registry_of(part).kind == section]
        if of_section and not any(name == one.name for part in of_section for one in parameters_of(part)):
            told = ", ".join(part.name for part in of_section)
            raise UserError(f"{section}.{name}: none of the parts of {path} has it ({told})")


def _load(home: str) -> Callable[[Part, Sequence[str]], list[Check]]:
    """The function that stands at "module:name"."""
    module, _, name = home.partition(":")
    found: Callable[[Part, Sequence[str]], list[Check]] = getattr(import_module(module), name)
    return found
