"""A check, and what it found."""

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
    """One thing that a part has to hold.

    Attributes:
        name: One word.
        what: What holds where nothing is wrong, in half a sentence.
        find: Says in one line what is wrong, or None. An exception is something wrong, too.
        after: Names of the checks without which this one says nothing; it is not made where one of them fails.
    """

    name: str
    what: str
    find: Callable[[], str | None]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        part: The part's name.
        kind: What it is, such as "scheme".
        check: The check's name.
        what: What holds where nothing is wrong.
        outcome: "ok", "wrong", or "not checked" where another check that this one rests on has failed.
        found: One line that says what is wrong, or which check failed before; "" where it is ok.
    """

    part: str
    kind: str
    check: str
    what: str
    outcome: Outcome
    found: str = ""


def findings(part: str, kind: str, checks: Sequence[Check], owner: type) -> list[Finding]:
    """Make checks in order. owner: the part's class, whose file is named where an error comes from it."""
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
        return told(error, owner)


def told(error: Exception, owner: type) -> str:
    """An error in one line, with the line of the owner's file where it came up."""
    file = getattr(sys.modules.get(owner.__module__), "__file__", None)
    at, trace = "", error.__traceback__
    while trace is not None:
        if file and trace.tb_frame.f_code.co_filename == file:
            at = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    message = str(error).partition("\n")[0]
    return one_line(f"{type(error).__name__}: {message}{at}" if message else f"{type(error).__name__}{at}")
