"""User-defined parts, registered by a decorator or defined in the plugin files that a settings file names.

    @airfl.register
    class Signed(airfl.schemes.Scheme):
        name = "signed"
        ...

A plugin file is code. A settings file names it as `plugins = ["my_parts.py"]`, and it runs only if the user allows it:
by `--plugins` on the command line, or by `load_settings(..., plugins=True)` in Python.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from airfl.errors import UserError
from airfl.learning.tasks.datasets.registry import DATASETS
from airfl.learning.tasks.models.registry import MODELS
from airfl.learning.tasks.partitions.registry import PARTITIONS
from airfl.privacy.accountants.registry import ACCOUNTANTS
from airfl.schemes.names import SCHEMES
from airfl.selection.registry import SELECTIONS
from airfl.storage.input_files import SETTINGS_BYTES, read_regular
from channels.antennas.registry import COMBINERS
from channels.digital.registry import ALLOCATIONS, ERROR_MODELS
from channels.fading.registry import FADINGS
from channels.interference.registry import INTERFERENCES
from channels.part import Part, PartError, Registry
from channels.power.registry import POLICIES

REGISTRIES: tuple[Registry[Any], ...] = (
    *(SCHEMES, SELECTIONS, PARTITIONS, MODELS, DATASETS, ACCOUNTANTS),
    *(FADINGS, INTERFERENCES, COMBINERS, POLICIES, ALLOCATIONS, ERROR_MODELS),
)
"""The registries of all kinds of parts that settings can name."""
PREFIX = "airfl_plugin_"
"""Prefix of the module names of plugin files, followed by digests of their path and contents."""

P = TypeVar("P", bound=type[Part])
_allowed = False


def register(part: P) -> P:
    """Register a user-defined part, so that settings can name it. Used as a class decorator.

    Raises UserError for a class that is not a part, lacks a method, has no name, or has a name that is already in use.
    """
    for registry in REGISTRIES:
        if isinstance(part, type) and issubclass(part, registry.base):
            _check_complete(part)
            try:
                registry.register(part)
            except PartError as error:
                raise UserError(f"register: {error}") from None
            return part
    bases = ", ".join(f"{one.base.__module__}.{one.base.__name__}" for one in REGISTRIES)
    raise UserError(f"register: {part!r} is not a part; derive it from one of {bases}")


def allow_plugins() -> None:
    """Allow settings files in this process to run the plugins that they name."""
    global _allowed
    _allowed = True


def load_plugins(listed: object, source: Path, allowed: bool) -> None:
    """Run the plugin files that a settings file names and register what they define.

    Args:
        listed: The setting `plugins`: paths, relative to the settings file.
        source: The settings file.
        allowed: Whether the caller allows them to run.

    Raises UserError if they are not allowed to run, or a file cannot be read or raises an error.
    """
    if not (isinstance(listed, list) and all(isinstance(one, str) for one in listed)):
        raise UserError(f'{source}: plugins must be a list of files, such as ["my_parts.py"], got {listed!r}')
    if listed and not (allowed or _allowed):
        raise UserError(
            f"{source}: names plugins ({', '.join(listed)}), which would run code; allow them with --plugins, or with "
            "plugins=True in Python"
        )
    for one in listed:
        load_plugin(source.parent / one)


def load_plugin(file: Path) -> ModuleType:
    """Run a plugin file once, register every named part it defines, and return its module; UserError on failure."""
    file = file.resolve()
    try:
        content = read_regular(file, SETTINGS_BYTES)
    except OSError as error:
        raise UserError(f"{file}: the plugin cannot be read ({error.strerror})") from None
    place = PREFIX + hashlib.sha256(str(file).encode()).hexdigest()[:16]
    name = f"{place}_{hashlib.sha256(content).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{file}: a plugin must be a Python file, NAME.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look the module up there
    for registry in REGISTRIES:
        registry.forget(place)  # parts of an earlier version of the file
    try:
        # Compile what was read: a loader might use a cached older version of the same size and time in seconds.
        exec(compile(content, str(file), "exec"), vars(module))
        for part in defined_parts(module):
            if not any(registry.get(part.name) is part for registry in REGISTRIES):
                register(part)
    except Exception as error:
        del sys.modules[name]
        why = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}{_line(error, file)}"
        raise UserError(f"{file}: the plugin cannot be loaded ({why})") from None
    return module


def from_plugin(part: type[Part]) -> bool:
    """Whether a class is defined in a plugin file."""
    return part.__module__.startswith(PREFIX)


def defined_parts(module: ModuleType) -> list[type[Part]]:
    """Return the parts that a module itself defines, in order, if they have a name of their own."""
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Part) and one.__module__ == module.__name__
        if "name" in vars(one)
    ]


def _check_complete(part: type[Part]) -> None:
    """Raise UserError for a part that lacks a method of its kind, and name one of its own that may be meant."""
    missing: list[str] = sorted(getattr(part, "__abstractmethods__", ()))
    if not missing:
        return
    own = [name for name, value in vars(part).items() if inspect.isfunction(value) and not hasattr(part.__base__, name)]
    close = [found for one in missing for found in difflib.get_close_matches(one, own, n=1, cutoff=0.5)]
    hint = f"; is {close[0]}() misspelt?" if close else f"; define {'it' if len(missing) == 1 else 'them'}"
    raise UserError(f"{part.__qualname__} lacks {' and '.join(f'{one}()' for one in missing)}{hint}")


def _line(error: Exception, file: Path) -> str:
    """Return ', line N' for the line of the plugin that raised the error, or '' if none did."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f", line {line}"


def packed(value: Any, code: Sequence[Any] = ()) -> bytes:
    """Serialise a value for another process, including code that it cannot import, as of a notebook or plugin file.

    Args:
        value: The value to send.
        code: Classes and functions in it that may be user-defined.
    """
    import cloudpickle

    from airfl.storage.serialisation import pickled

    names = {str(getattr(one, "__module__", "")) for one in code}
    modules = [sys.modules[name] for name in sorted(names) if name.startswith(PREFIX)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        return pickled(value, {module.__name__ for module in modules})
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UserError(f"the given objects cannot be sent to another process: {error}") from None
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
