"""Checks user-defined parts as the test suite checks built-in ones: `airfl check FILE`.

    from airfl.study.check import check_file, check_part
    for finding in check_part(TernGrad):
        print(finding.check, finding.found or "ok")

The checks of `airfl.study.check.parts` apply to every part; `OF_KIND` lists those of each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from airfl.config.plugins import REGISTRIES, defined_parts, load_plugin
from airfl.errors import UserError
from airfl.study.check.finding import Check, Finding, findings
from channels.part import Part, Registry, parameters_of

EVERY_PART = "airfl.study.check.parts:checks"
OF_KIND: dict[str, str] = {
    "scheme": "airfl.study.check.scheme:checks",
    "combiner": "airfl.study.check.combiner:checks",
    "interference model": "airfl.study.check.interference:checks",
    "fading law": "airfl.study.check.fading:checks",
    "allocation": "airfl.study.check.digital:allocation_checks",
    "error model": "airfl.study.check.digital:error_model_checks",
    "power policy": "airfl.study.check.power:checks",
    "selection rule": "airfl.study.check.selection:checks",
    "partition": "airfl.study.check.partition:checks",
    "model": "airfl.study.check.model:checks",
    "data set": "airfl.study.check.dataset:checks",
    "accountant": "airfl.study.check.accountant:checks",
}
"""Kind of a registry -> "module:function" that returns the checks of a part; imported when needed."""


def check_file(path: str | Path, overrides: Sequence[str] = ()) -> list[Finding]:
    """Run a plugin file, which is code, and check every part that it defines.

    Args:
        path: The Python file.
        overrides: "section.key=value" for the short runs, which use reduced settings of the demo; a key of [scheme]
            applies to the schemes that have it.

    Returns:
        The findings, in the order of the file.

    Raises UserError for a file that cannot be loaded or defines no part.
    """
    module = load_plugin(Path(path))
    parts = defined_parts(module)
    if not parts:
        bases = ", ".join(one.base.__name__ for one in REGISTRIES)
        raise UserError(f"{path}: defines no part; add a class that has a name and derives from one of {bases}")
    _check_used(parts, overrides, path)
    return [finding for part in parts for finding in check_part(part, overrides)]


def check_part(part: Part | type[Part], overrides: Sequence[str] = ()) -> list[Finding]:
    """Check one user-defined part.

    Args:
        part: An object, or a class, which is instantiated with its defaults.
        overrides: As in `check_file`.

    Returns:
        The findings.

    Raises UserError if it is not a part, or for invalid overrides.
    """
    kind = part if isinstance(part, type) else type(part)
    registry = registry_of(kind)
    made = Check("defaults", "it can be created with its defaults and the given parameters", lambda: None)
    try:
        one = registry.build(part if isinstance(part, Part) else {"name": kind, **_own(kind, registry, overrides)})
    except (ValueError, TypeError) as error:
        return [Finding(kind.name, registry.kind, made.name, made.what, "wrong", str(error))]
    homes = [EVERY_PART, *([OF_KIND[registry.kind]] if registry.kind in OF_KIND else [])]
    rest = [text for text in overrides if not text.startswith(f"{registry.kind}.")]
    listed = [made, *(check for home in homes for check in _load(home)(one, rest))]
    return findings(kind.name, registry.kind, listed, kind)


def registry_of(kind: type[Part]) -> Registry[Any]:
    """Return the registry for parts of a class; UserError if there is none."""
    for registry in REGISTRIES:
        if isinstance(kind, type) and issubclass(kind, registry.base):
            return registry
    bases = ", ".join(f"{one.base.__module__}.{one.base.__name__}" for one in REGISTRIES)
    raise UserError(f"{kind!r} is not a part; derive it from one of {bases}")


def _own(kind: type[Part], registry: Registry[Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a part that the overrides give, such as "scheme.key=value" for a scheme."""
    from airfl.config.given import read_value

    known = {one.name for one in parameters_of(kind)}
    pairs = [text.partition("=") for text in overrides if text.startswith(f"{registry.kind}.")]
    given = {key.strip().partition(".")[2]: read_value(value.strip()) for key, _, value in pairs}
    return {key: value for key, value in given.items() if key in known}


def _check_used(parts: Sequence[type[Part]], overrides: Sequence[str], path: str | Path) -> None:
    """Raise UserError if the overrides give a parameter that none of the parts has."""
    for text in overrides:
        section, _, name = text.partition("=")[0].strip().partition(".")
        of_section = [part for part in parts if registry_of(part).kind == section]
        if of_section and not any(name == one.name for part in of_section for one in parameters_of(part)):
            names = ", ".join(part.name for part in of_section)
            raise UserError(f"{section}.{name}: none of the parts in {path} has this parameter ({names})")


def _load(home: str) -> Callable[[Part, Sequence[str]], list[Check]]:
    """Import the function given as "module:name"."""
    module, _, name = home.partition(":")
    function: Callable[[Part, Sequence[str]], list[Check]] = getattr(import_module(module), name)
    return function
