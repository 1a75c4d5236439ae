"""Checks output folders before anything is computed, and replaces files atomically."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from airfl.errors import UserError
from airfl.storage.addresses import check_no_address
from airfl.storage.lock import may_be_lock
from airfl.storage.own_files import check_no_link, is_file, is_folder

TRACE_NAME = "trace.h5"
DIGEST_NAME = "digest.json"  # the run in small
ROWS_NAME = "rows.json"  # labels and folders of a comparison, in order
CHECKPOINT_NAME = "checkpoint"  # folder of an unfinished run; see airfl.core.checkpoint
LONGEST_NAME = 255  # bytes in a file name that file systems allow
MOST_BELOW = 128  # longest path in bytes below an output folder
SWEEP_NAME = "sweep.json"  # points of a sweep, in order
LOCK_NAME = ".lock"  # lock of a sweep or a comparison that is being written
SHARDS_NAME = ".shards"  # folder of processes that share a sweep or a comparison; see airfl.storage.shards
OF_A_RUN, OF_ROWS, OF_A_SWEEP = (CHECKPOINT_NAME, TRACE_NAME), (ROWS_NAME,), (SWEEP_NAME,)
HOLDS = {
    **dict.fromkeys(OF_A_RUN, "a run"),
    **dict.fromkeys(OF_ROWS, "a comparison"),
    **dict.fromkeys(OF_A_SWEEP, "a sweep"),
    LOCK_NAME: "a sweep or a comparison that is being written",
    SHARDS_NAME: "a sweep or a comparison that several processes write",
}
"""What a folder contains, by the names of files that show it."""
BEGUN = "begun, no round stored yet; resume it with --resume"
"""What to tell of a folder that `is_only_begun`."""


def current_folder() -> Path | None:
    """Return the current folder, or None if it has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def is_only_begun(folder: Path) -> bool:
    """Whether a run or a comparison was begun in a folder and ended before it had stored a round."""
    if (folder / ROWS_NAME).exists():
        return not any(folder.glob(f"*/*/{TRACE_NAME}"))
    return (folder / CHECKPOINT_NAME).is_dir() and not (folder / TRACE_NAME).exists()


def is_a_name(text: str) -> bool:
    """Whether a text is a valid name of a file or folder, and not a path that leads elsewhere."""
    plain = Path(text).name == text and text not in ("", "..") and "\0" not in text
    return plain and len(text.encode(errors="replace")) <= LONGEST_NAME


def name_of_label(label: str) -> str:
    """Return a folder name for a label: lower-case letters, digits, dots and hyphens; "" if it has none of these."""
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.")


def check_nothing_of(folder: Path, names: Sequence[str]) -> None:
    """Raise UserError if the folder contains one of these names: it is for a single run, comparison or sweep."""
    for name in names:
        if os.path.lexists(folder / name):
            raise UserError(f"{folder}: contains {HOLDS[name]} ({name}); choose another --out")


def check_no_run(folder: Path) -> None:
    """Raise UserError if a new run cannot be written into this folder.

    This is so if it contains a run or other output of airfl, or is not writable.
    """
    check_can_be_folder(folder)
    check_nothing_of(folder, (*OF_A_SWEEP, *OF_ROWS))
    check_no_link(folder / CHECKPOINT_NAME)
    check_no_link(folder / TRACE_NAME)
    if (folder / CHECKPOINT_NAME).exists():
        raise UserError(f"{folder}: contains an unfinished run; resume it with --resume, or choose another --out")
    if (folder / TRACE_NAME).exists():
        raise UserError(f"{folder}: already contains a run ({TRACE_NAME}); choose another --out")


def check_can_be_folder(folder: Path, option: str = "--out") -> None:
    """Raise UserError if a folder cannot be created, or no file can be written into it. Nothing is created.

    Checks for a file in the place of the folder or a parent, missing permissions, read-only file systems, names that
    are too long, and addresses such as s3://bucket/runs.

    Args:
        folder: The folder.
        option: The command-line option that gives it, for the message.
    """
    check_no_address(folder, option)
    other = f"choose another {option}"
    if not folder.is_absolute() and current_folder() is None:
        raise UserError(f"{folder}: the current folder has been removed; change to one that exists")
    try:
        there = next(part for part in (folder, *folder.parents) if _is_there(part))
        if not there.exists():
            raise UserError(f"{there}: is a link to a missing target; {other}")
        if not there.is_dir():
            raise UserError(f"{there}: is a file; {option} must be a folder")
        for name in folder.relative_to(there).parts:
            _is_there(there / name)  # raises OSError if the name is too long
        _is_there(folder / ("x" * MOST_BELOW))
    except OSError as error:
        raise UserError(f"{folder}: cannot be used as a folder for {option} ({error.strerror}); {other}") from None
    if not may_write(there):
        read_only = os.statvfs(there).f_flag & os.ST_RDONLY
        why = "is on a read-only file system" if read_only else "is not writable by this user"
        raise UserError(f"{folder}: {why if there == folder else f'cannot be created: {there} {why}'}; {other}")


def may_write(folder: Path) -> bool:
    """Whether this process may write into an existing folder."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def check_can_be_file(path: Path, option: str = "--out") -> None:
    """Raise UserError if a file cannot be written or replaced: another kind of file is there, or its folder is bad."""
    check_can_be_folder(path.parent, option)
    try:
        if _is_there(path) and not path.is_file():
            raise UserError(f"{path}: is not a regular file; choose another {option}")
        _is_there(_beside(path))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another {option}") from None


def _is_there(path: Path) -> bool:
    """Whether the path exists, if only as a dangling link. OSError if this cannot be determined, or it is invalid."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def check_new(folder: Path, listed: str) -> None:
    """Raise UserError unless the folder is missing or empty, so that output is not mixed with other files.

    Files that a process left that was killed before it had written the file `listed` are ignored.
    """
    check_no_run(folder)
    if folder.exists() and any(not is_left_over(file, listed) for file in folder.iterdir()):
        raise UserError(f"{folder}: is not an empty folder; choose another --out")


def is_left_over(path: Path, listed: str) -> bool:
    """Whether a file is a lock, the folder of shards, or a temporary file that `replacing` left of the file `listed`
    when it was killed."""
    if path.name == SHARDS_NAME:
        return is_folder(path)
    if path.name == LOCK_NAME:
        return may_be_lock(path)
    return is_file(path) and is_temporary(path.name, listed)


def is_temporary(name: str, of: str) -> bool:
    """Whether a name is one that `replacing` gives to the temporary file for `of`."""
    return re.fullmatch(rf"\.{re.escape(of)}(\.[0-9a-f]+)+", name) is not None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write in the block, which then replaces `path` atomically.

    The temporary file is new: no link is followed, and no existing file is opened. The caller must check that what is
    at `path` was written by airfl; see `airfl.storage.own_files`.
    """
    temporary = _new_file(path)
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        _name(error, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def making_new(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write in the block, which then gets the name `path`; UserError if `path` exists."""
    temporary = _new_file(path)
    try:
        yield temporary
        put_new(temporary, path)
    except OSError as error:
        _name(error, path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def no_empty_folder(folder: Path) -> Iterator[None]:
    """Remove the folder and its parents again if the block makes them, fails, and leaves nothing in them."""
    made = [part for part in (folder, *folder.parents) if not os.path.lexists(part)]
    try:
        yield
    except BaseException:
        for part in made:
            with suppress(OSError):
                part.rmdir()
        raise


def _name(error: OSError, path: Path) -> None:
    """Name the file in an error of writing to it, which does not, such as that of a full disk."""
    if error.filename is None and error.errno is not None:
        error.filename = str(path)


def _beside(path: Path) -> Path:
    """Return the path of the temporary file for a file."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def _new_file(path: Path) -> Path:
    """Create an empty temporary file for `path`, with a unique name."""
    temporary = _beside(path)
    while True:
        try:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
        except FileExistsError:  # left by a process that was killed and had the same id
            temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        else:
            return temporary


def replace_text(path: Path, text: str) -> None:
    """Replace a file atomically by a text in UTF-8; UserError if the path is a link."""
    check_no_link(path)
    with replacing(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def put_new(made: Path, target: Path) -> None:
    """Rename a finished temporary file to `target`; UserError if `target` exists."""
    try:
        os.link(made, target)
    except FileExistsError:
        raise UserError(f"{target}: already exists; choose another --out, or delete it") from None
    except OSError:  # the file system does not support hard links
        if os.path.lexists(target):
            raise UserError(f"{target}: already exists; choose another --out, or delete it") from None
        made.rename(target)
    else:
        made.unlink()
