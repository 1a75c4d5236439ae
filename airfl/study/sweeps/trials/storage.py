"""Where trials are kept: a database, or a journal file. Checked, opened, and its errors in one line."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airfl.errors import MachineError, UserError
from airfl.storage.input_files import open_regular
from airfl.storage.output_files import check_can_be_file
from airfl.storage.own_files import check_no_link, is_file
from airfl.study.sweeps.job import cause_of

JOURNAL_NAME = "trials.journal"
"""The journal in the output folder."""
SECONDS_TO_LOCK = 60.0
"""The longest wait for an SQLite file that another client is writing."""
LONGEST_LINE = 1 << 20
TRIES_TO_OPEN, SECONDS_BETWEEN_TRIES = 20, 0.25
"""How often, and how soon, a database is opened again while another client creates its tables."""


def is_url(storage: str) -> bool:
    """Whether the storage is a database, given by its URL."""
    return "://" in storage


def shown(storage: str) -> str:
    """Return the storage without a password."""
    if not is_url(storage):
        return storage
    kind, _, rest = storage.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{kind}://{user.partition(':')[0]}{at}{place}"


def check_storage(storage: str) -> None:
    """Raise UserError for a path where no journal can be."""
    if not storage.strip():
        raise UserError("--storage: is empty; give the path of a journal file, or a URL such as sqlite:///trials.db")
    if is_url(storage):
        return
    path = Path(storage)
    check_can_be_file(path, "--storage")
    if not path.parent.is_dir():
        raise UserError(f"--storage: {path.parent} is not a folder; create it first")
    _check_journal(path)


def _check_journal(path: Path) -> None:
    """Raise UserError if the file exists and is not a journal of Optuna, which would append to any file."""
    check_no_link(path)
    if not is_journal(path):
        raise UserError(f"--storage: {path} is not a journal of Optuna; choose another file")


def is_journal(path: Path) -> bool:
    """Whether the file is a journal of Optuna, empty, or not there."""
    if not os.path.lexists(path) or (is_file(path) and not path.stat().st_size):
        return True
    try:
        with open_regular(path) as file:
            first = json.loads(file.readline(LONGEST_LINE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"op_code", "worker_id"} <= first.keys()


def open_storage(storage: str) -> Any:
    """Open a storage; UserError if that fails."""
    for left in reversed(range(TRIES_TO_OPEN)):
        try:
            return _opened(storage)
        except UserError:
            raise
        except Exception as error:  # of SQLAlchemy, a driver, or a damaged file
            if left and _is_being_created(error):
                time.sleep(SECONDS_BETWEEN_TRIES)
                continue
            raise UserError(
                f"--storage: {shown(storage)} cannot be opened ({_without(cause_of(error), storage)}); give the path "
                "of a journal file, or a URL such as sqlite:///trials.db"
            ) from None
    raise AssertionError


def _opened(storage: str) -> Any:
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not is_url(storage):
            _check_journal(Path(storage))
            from optuna.storages.journal import JournalFileBackend

            return optuna.storages.JournalStorage(JournalFileBackend(storage))
        waits = {"connect_args": {"timeout": SECONDS_TO_LOCK}} if storage.startswith("sqlite") else {}
        return optuna.storages.RDBStorage(storage, engine_kwargs=waits)


def _is_being_created(error: Exception) -> bool:
    """Whether another client was creating a table, or the row with the version, at the same moment."""
    return type(error).__name__ == "IntegrityError" or "already exists" in str(error)


def _without(text: str, storage: str) -> str:
    """Return a message that may quote the storage, without its password."""
    return text.replace(storage, shown(storage)).split(" (Background on this error", 1)[0]


@contextmanager
def using(storage: str) -> Iterator[None]:
    """Turn errors of a storage into a MachineError of one line."""
    try:
        yield
    except (UserError, MachineError):
        raise
    except Exception as error:
        cause = _without(cause_of(error), storage)
        raise MachineError(
            f"--storage: {shown(storage)} cannot be used ({cause}); mend it, and run the same command to continue"
        ) from error
