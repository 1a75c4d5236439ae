"""Checks and their findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from airfl.errors import MachineError, one_line

Outcome = Literal["ok", "wrong", "not checked"]


@dataclass(frozen=True)
class Check:
    """A property that a part must have.

    Attributes:
        name: Its name, one word.
        what: A clause that states the property.
        find: Returns what is wrong in one line, or None. An exception also means that the check fails.
        after: Names of the checks that this one depends on; it is skipped if one of them fails.
    """

    name: str
    what: str
    find: Callable[[], str | None]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    Attributes:
        part: The part's name.
        kind: The kind of part, such as "scheme".
        check: The check's name.
        what: A clause that states the checked property.
        outcome: "ok", "wrong", or "not checked" if a check that this one depends on has failed.
        found: What is wrong in one line, or which earlier check failed; "" if ok.
    """

    part: str
    kind: str
    check: str
    what: str
    outcome: Outcome
    found: str = ""


def findings(part: str, kind: str, checks: Sequence[Check], owner: type) -> list[Finding]:
    """Run checks in order. owner: the part's class; errors raised in its file are reported with their line."""
    made: list[Finding] = []
    for check in checks:
        failed = [one.check for one in made if one.check in check.after and one.outcome != "ok"]
        found = f"since {failed[0]} is wrong" if failed else _found(check, owner)
        outcome: Outcome = "not checked" if failed else "wrong" if found else "ok"
        made.append(Finding(part, kind, check.name, check.what, outcome, found))
    return made


def _found(check: Check, owner: type) -> str:
    try:
        return one_line(check.find() or "")
    except MachineError:
        raise
    except Exception as error:
        return _message(error, owner)


def _message(error: Exception, owner: type) -> str:
    """Return an error as one line, with the line in the owner's file that raised it."""
    file = getattr(sys.modules.get(owner.__module__), "__file__", None)
    at, trace = "", error.__traceback__
    while trace is not None:
        if file and trace.tb_frame.f_code.co_filename == file:
            at = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    message = str(error).partition("\n")[0]
    return one_line(f"{type(error).__name__}: {message}{at}" if message else f"{type(error).__name__}{at}")
