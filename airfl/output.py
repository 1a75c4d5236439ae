"""Output folders: what may be written where, checked before anything is computed."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airfl.errors import UserError
from airfl.lock import may_be_lock
from airfl.own import check_no_link, is_file

TRACE_NAME = "trace.h5"
ROWS_NAME = "rows.json"  # of a comparison: its labels and folders, in order
CHECKPOINT_NAME = "checkpoint"  # of a run that is not finished: see airfl.checkpoint
LONGEST_NAME = 255  # that file systems take, in bytes
MOST_BELOW = 128  # bytes of a path below an output folder, at most
SWEEP_NAME = "sweep.json"  # of a sweep: its points, in order
LOCK_NAME = ".lock"  # of a sweep or a comparison that is being written
OF_A_RUN, OF_ROWS, OF_A_SWEEP = (CHECKPOINT_NAME, TRACE_NAME), (ROWS_NAME,), (SWEEP_NAME,)
HOLDS = {
    **dict.fromkeys(OF_A_RUN, "a run"),
    **dict.fromkeys(OF_ROWS, "a comparison"),
    **dict.fromkeys(OF_A_SWEEP, "a sweep"),
    LOCK_NAME: "a sweep or a comparison that is being written",
}
"""By the names that say what a folder is for."""


def current_folder() -> Path | None:
    """None where it has been removed under us."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def is_a_name(text: str) -> bool:
    """Whether a file or folder can have this name: read from a list, it leads nowhere else."""
    return Path(text).name == text and "\0" not in text and len(text.encode(errors="replace")) <= LONGEST_NAME


def name_of_label(label: str) -> str:
    """A folder's name for a label of a user's: small letters, digits, dots and hyphens; "" where there are none."""
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.")


def check_nothing_of(folder: Path, names: Sequence[str]) -> None:
    """UserError where the folder is for something else: one folder is for one run, comparison or sweep."""
    for name in names:
        if os.path.lexists(folder / name):
            raise UserError(f"{folder}: holds {HOLDS[name]} ({name}); choose another --out")


def check_no_run(folder: Path) -> None:
    """UserError if a run cannot be put into this folder: it holds one already, or something else that airfl has
    written, or nothing can be written there."""
    check_can_be_folder(folder)
    check_nothing_of(folder, (*OF_A_SWEEP, *OF_ROWS))
    check_no_link(folder / CHECKPOINT_NAME)
    check_no_link(folder / TRACE_NAME)
    if (folder / CHECKPOINT_NAME).exists():
        raise UserError(
            f"{folder}: holds a run that is not finished; go on with it by --resume, or choose another --out"
        )
    if (folder / TRACE_NAME).exists():
        raise UserError(f"{folder}: holds a run already ({TRACE_NAME}); choose another --out")


def check_can_be_folder(folder: Path, option: str = "--out", wanted: str = "an output folder") -> None:
    """UserError where no file can be put into the folder, or it cannot be made: a file is in its place, or of one that
    it lies in, this user may not write there, nobody may, its name is too long. Nothing is made."""
    other = f"choose another {option}"
    if not folder.is_absolute() and current_folder() is None:
        raise UserError(f"{folder}: the current folder has been removed; change to one that is there")
    try:
        there = next(part for part in (folder, *folder.parents) if _is_there(part))
        if not there.exists():
            raise UserError(f"{there}: is a link that leads nowhere; {other}")
        if not there.is_dir():
            raise UserError(f"{there}: is a file, {wanted} is wanted for {option}")
        for name in folder.relative_to(there).parts:
            _is_there(there / name)  # too long a name is told whatever is there
        _is_there(folder / ("x" * MOST_BELOW))
    except OSError as error:
        raise UserError(f"{folder}: cannot be a folder for {option} ({error.strerror}); {other}") from None
    if not may_write(there):
        read_only = os.statvfs(there).f_flag & os.ST_RDONLY
        why = "is on a file system that is read only" if read_only else "may not be written by this user"
        raise UserError(f"{folder}: {why if there == folder else f'cannot be made: {there} {why}'}; {other}")


def may_write(folder: Path) -> bool:
    """Whether this process may put files into a folder that is there."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def check_can_be_file(path: Path, option: str = "--out") -> None:
    """UserError where the file cannot be written, or replaced: what is there is none, or as `check_can_be_folder`."""
    check_can_be_folder(path.parent, option, "a folder")
    try:
        if _is_there(path) and not path.is_file():
            raise UserError(f"{path}: is no regular file; choose another {option}")
        _is_there(_beside(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another {option}") from None


def _is_there(path: Path) -> bool:
    """Whether anything is, if only a link that leads nowhere. OSError where that cannot be told, or cannot be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_new(folder: Path, listed: str) -> None:
    """UserError unless the folder is empty or not there, but for what a process has left that was killed before it had
    written the file `listed`: nothing is mixed with what somebody else put there."""
    check_no_run(folder)
    if folder.exists() and any(not is_left_over(file, listed) for file in folder.iterdir()):
        raise UserError(f"{folder}: is not an empty folder; choose another --out")


def is_left_over(path: Path, listed: str) -> bool:
    """Whether it is a lock, or what `replacing` leaves of the file `listed` where it is killed."""
    if path.name == LOCK_NAME:
        return may_be_lock(path)
    return is_file(path) and is_temporary(path.name, listed)


def is_temporary(name: str, of: str) -> bool:
    """Whether a name is one that `replacing` gives before the file has that of `of`."""
    return re.fullmatch(rf"\.{re.escape(of)}(\.[0-9a-f]+)+", name) is not None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write in the block, which then takes the place of `path`: whole, or not at all.

    It is new: no link is followed, and no file is opened that somebody else has put there. What is in the place of
    `path` goes, so that whoever calls this has to know it as airfl's own: see `airfl.own`.
    """
    temporary = _new_file(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Where a file is written before it takes its place."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def _new_file(path: Path) -> Path:
    """An empty one beside, of a name that nobody else has."""
    temporary = _beside(path)
    while True:
        try:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
        except FileExistsError:  # of a process that was killed, and had the same number
            temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        else:
            return temporary


def replace_text(path: Path, text: str) -> None:
    """Write the file whole or not at all, as UTF-8 wherever it is; UserError where a link is in its place."""
    check_no_link(path)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def put_new(made: Path, target: Path) -> None:
    """Give a file that was made beside its name; UserError where something has that name already."""
    try:
        os.link(made, target)
    except FileExistsError:
        raise UserError(f"{target}: is there already; choose another --out, or delete it") from None
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise UserError(f"{target}: is there already; choose another --out, or delete it") from None
        made.rename(target)
    else:
        made.unlink()
