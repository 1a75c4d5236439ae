"""Checks what workers send back, which may be anything, and writes it into the sweep's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airfl.analysis.results.sweep_folder import check_running, is_point
from airfl.core.checkpoint.carried import Files, is_carried, put_carried
from airfl.core.run_folder import remove_run
from airfl.errors import UserError, one_line
from airfl.storage.output_files import DIGEST_NAME, TRACE_NAME
from airfl.storage.own_files import not_own, open_own
from airfl.study.sweeps.job import Again, Outcome

SENT = (TRACE_NAME, DIGEST_NAME)
"""The files of a point that are sent back; others are rejected."""


def checked(outcome: Outcome, name: str) -> Outcome:
    """Return what a worker has sent, which may be anything, as an outcome of the point with this name."""
    if not isinstance(outcome, Outcome) or outcome.name != name:
        return Outcome(name, "its worker did not send back the outcome of this point")
    if outcome.cause is not None:
        again = outcome.again if isinstance(outcome.again, Again) else None
        files = outcome.files if again and is_carried(outcome.files) else None
        return Outcome(name, one_line(str(outcome.cause)), files, again=again)
    return replace(outcome, files=None) if outcome.unwanted else outcome


def are_sent(files: Mapping[Any, Any]) -> bool:
    """Whether these are the files of a finished point."""
    return TRACE_NAME in files and all(name in SENT and isinstance(content, bytes) for name, content in files.items())


def put_checkpoint(name: str, files: Files, running: Path) -> None:
    """Write a checkpoint that a worker has sent into running/NAME, where it replaces an earlier attempt."""
    folder = running / name
    if not is_point(name):
        raise not_own(folder)
    check_running(running)
    remove_run(folder)
    put_carried(files, folder)


def put(outcome: Outcome, running: Path) -> Outcome:
    """Write the files of an outcome that a worker has sent into running/NAME, and return the outcome.

    The returned outcome has failed if the worker has sent other files than those of a point. Files are written nowhere
    else, not through links, and replace only an earlier attempt.
    """
    if outcome.cause is not None or outcome.unwanted:
        return outcome
    files: Mapping[str, Any] = outcome.files or {}
    folder = running / outcome.name
    unexpected = [name for name in files if name not in SENT]
    if not are_sent(files):
        what = f"a file named {str(unexpected[0])!r}" if unexpected else f"no {TRACE_NAME}"
        return Outcome(
            outcome.name, one_line(f"its worker sent {what} instead of {' and '.join(SENT)}; all files are discarded")
        )
    try:
        if not is_point(outcome.name):
            raise not_own(folder)
        check_running(running)
        remove_run(folder)
    except UserError as error:
        return Outcome(outcome.name, str(error))
    folder.mkdir(parents=True)
    for name, content in files.items():
        with os.fdopen(open_own(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
    return outcome
