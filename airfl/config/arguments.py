"""Argument checks of the public functions. A wrong argument raises a UserError of one line."""

from __future__ import annotations

import functools
import inspect
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from airfl.config.given import keys_named
from airfl.errors import UserError, nearest, shown_value

P = ParamSpec("P")
R = TypeVar("R")


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: check the names of its arguments, and the types of those listed in `EXPECTED`."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> R:
        _check(function.__name__, signature, args, named)
        return function(*args, **named)

    return called


def _check(name: str, signature: inspect.Signature, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    parameters = signature.parameters
    for key in named:
        if key not in parameters:
            setting = keys_named(key)
            close = f"; did you mean overrides={{{setting[0]!r}: ...}}?" if setting else nearest(key, parameters)
            raise UserError(f"{name}: unknown argument {key!r}{close} (allowed: {', '.join(parameters)})")
    try:
        arguments = signature.bind(*args, **named).arguments
    except TypeError as error:  # an argument is missing, given twice, or superfluous
        raise UserError(f"{name}: {error} (arguments: {', '.join(parameters)})") from None
    for key, value in arguments.items():
        if key in EXPECTED and value is not parameters[key].default:
            is_valid, expected = EXPECTED[key]
            if not is_valid(value):
                raise UserError(f"{name}: {key} must be {expected}, got {shown_value(value)}")


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and bool(os.fspath(value))


def _is_folder(value: object) -> bool:
    return value is None or (_is_path(value) and os.path.isdir(value))  # type: ignore[arg-type]


def _is_count(value: object) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= 1  # type: ignore[arg-type]
    except TypeError:
        return False


def _is_from_0(value: object) -> bool:
    return _is_count(value) or (isinstance(value, int) and not isinstance(value, bool) and value == 0)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_device(value: object) -> bool:
    return isinstance(value, str) or type(value).__module__ == "torch"


def _is_progress(value: object) -> bool:
    return value is None or isinstance(value, bool) or callable(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


COUNT = (_is_count, "a positive integer")
SWITCH = (_is_bool, "True or False")
FOLDER = (_is_path, "the path of a folder, for instance 'runs/first'")
EXPECTED: dict[str, tuple[Callable[[object], bool], str]] = {
    "out": FOLDER,
    "data_dir": (_is_folder, "the path of an existing folder"),
    "device": (_is_device, "'cpu', 'cuda' or 'cuda:1'"),
    "seeds": COUNT,
    "shared_dir": FOLDER,
    "retries": (_is_from_0, "an integer of at least 0"),
    "worker_wait_s": (_is_number, "a number of seconds"),
    "scheduler_wait_s": (_is_number, "a number of seconds"),
    "jobs": (_is_from_0, "a positive integer, or 0 for as many as fit"),
    "trials": COUNT,
    "resume": SWITCH,
    "finish_rounds": SWITCH,
    "progress": (_is_progress, "True, False or a function"),
    "cluster": (_is_string, "the address of a Dask scheduler"),
    "canaries": COUNT,
    "confidence": (_is_number, "a number between 0 and 1"),
    "attack": (_is_string, "'round', 'run' or 'both'"),
    "against": (_is_string, "'absent' or 'opposite'"),
    "others": (_is_string, "'trained', 'silent' or 'opposed'"),
}
"""Argument -> (check, what the argument must be), for arguments that mean the same in every function. The default of an
argument is always allowed."""
