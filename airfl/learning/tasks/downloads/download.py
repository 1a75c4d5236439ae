"""Downloads of data sets: resumed after an interruption, verified by checksum, and never overwriting a file."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path

from airfl.errors import MachineError, UserError, unknown_name
from airfl.learning.tasks.downloads.archive import PART, is_there, unpack
from airfl.learning.tasks.downloads.mirror import MirrorError, ask, blocks, place, reason
from airfl.learning.tasks.downloads.sources import DOWNLOADS, NOT_DOWNLOADABLE, Source
from airfl.storage.output_files import check_can_be_folder, put_new
from airfl.storage.own_files import check_no_link, opener

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, total bytes if known

MOST_BYTES = 4 << 30  # limit for a file of unknown size
# Errors caused by a wrong target folder. Other disk errors (full, broken) are not the user's fault.
ERRORS_OF_THE_TARGET = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)


@dataclass(frozen=True)
class Patience:
    """Retries and timeout for a mirror.

    Attributes:
        attempts: Number of attempts per mirror.
        pause: Pause before the second attempt in s, doubled each time.
        timeout: Silence of a mirror in s after which an attempt has failed.
    """

    attempts: int = 4
    pause: float = 1.0
    timeout: float = 30.0


PATIENCE = Patience()


def get(name: str, target: Path, progress: Progress | None = None, patience: Patience = PATIENCE) -> list[Path]:
    """Download the missing files of a data set to the folder `target` and return the paths of all its files.

    Raises:
        UserError: If the name or target cannot be used, or a different file is in the place of one of the data set.
        MachineError: If no mirror provides a file.
    """
    if name in NOT_DOWNLOADABLE:
        raise UserError(NOT_DOWNLOADABLE[name])
    if name not in DOWNLOADS:
        raise UserError(unknown_name("data set", name, DOWNLOADS))
    if os.path.lexists(target) and not os.path.isdir(target):
        raise UserError(f"{target}: is a file; the data folder (--data-dir, AIRFL_DATA or ./data) must be a folder")
    jobs = [(target / download.folder, source) for download in DOWNLOADS[name] for source in download.sources]
    report = progress or _say_nothing
    try:
        lacking = [(folder, source) for folder, source in jobs if not _complete(folder, source)]
        for folder in dict.fromkeys(folder for folder, _ in lacking):
            check_can_be_folder(folder, "--data-dir")
        for folder, source in lacking:
            _bring(folder, source, report, patience)
    except OSError as error:
        raise _disk_error(error, target) from None
    return [path for folder, source in jobs for path in _files(folder, source)]


def _say_nothing(file: str, so_far: int, total: int | None) -> None:
    pass


def _disk_error(error: OSError, target: Path) -> UserError | MachineError:
    line = f"{error.filename or target}: {error.strerror or reason(error)}"
    if error.errno in ERRORS_OF_THE_TARGET:
        return UserError(f"{line}; choose a writable data folder (--data-dir or AIRFL_DATA)")
    return MachineError(f"{line}; fix this and run the command again; what was downloaded is kept")


# Existing files


def _files(folder: Path, source: Source) -> list[Path]:
    return [folder / member for member in source.members] or [folder / source.file]


def _complete(folder: Path, source: Source) -> bool:
    """Return whether all files of the source exist; raise UserError if something else is in the place of one."""
    if source.members:
        there = [is_there(path) for path in _files(folder, source)]  # a list, so that every path is checked
        return all(there)
    return _is_right(folder / source.file, source)


def _is_right(path: Path, source: Source) -> bool:
    """Return whether the file exists with its checksum; raise UserError if a different file is in its place."""
    if not is_there(path):
        return False
    found, wanted = _sums(path, source)
    if found != wanted:
        raise UserError(
            f"{path}: a different file already exists ({_told(source, found)}); move it away and get the data set again"
        )
    return True


def _sums(path: Path, source: Source) -> tuple[str, str]:
    """Return the checksum of the file and the expected one."""
    kind, _, wanted = source.checksum.partition(":")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest(), wanted


def _told(source: Source, found: str) -> str:
    kind, _, wanted = source.checksum.partition(":")
    return f"{kind} {found}, wanted {wanted}"


def _size(path: Path) -> int:
    check_no_link(path)
    return path.stat().st_size if path.exists() else 0


# From mirrors to the file


def _bring(folder: Path, source: Source, report: Progress, patience: Patience) -> None:
    path = folder / source.file
    path.parent.mkdir(parents=True, exist_ok=True)
    there = _is_right(path, source)
    if there and source.members:
        unpack(path, folder, source.members)  # the archive is kept: the user has put it there
    if there:
        return
    part = _fetch(path, source, report, patience)
    if source.members:
        unpack(part, folder, source.members)
        part.unlink()
    else:
        put_new(part, path)


def _fetch(path: Path, source: Source, report: Progress, patience: Patience) -> Path:
    """Download the whole file to FILE.airfl-part from the first mirror that provides it, and return that path."""
    part = path.with_name(path.name + PART)
    is_there(part)  # refuses, for example, a pipe, which would block for ever
    reasons = []
    for url in source.urls:
        try:
            _fetch_from(url, part, source, report, patience)
        except MirrorError as failure:
            reasons.append(f"{url}: {failure}")
        else:
            return part
    raise MachineError(
        f"{path}: not downloaded ({'; '.join(reasons)}); try again later, or put the file there by other means"
    )


def _fetch_from(url: str, part: Path, source: Source, report: Progress, patience: Patience) -> None:
    """Download the file to `part` and verify it; raise MirrorError if the mirror does not provide it."""
    begun_before = _size(part) > 0
    _transfer_patiently(url, part, source, report, patience)
    found, wanted = _sums(part, source)
    if found == wanted:
        return
    part.unlink()
    if not begun_before:
        raise MirrorError(_told(source, found))
    # The part left by an earlier download may have been wrong, so this mirror is asked for the whole file.
    _fetch_from(url, part, source, report, patience)


def _transfer_patiently(url: str, part: Path, source: Source, report: Progress, patience: Patience) -> None:
    for attempt in range(patience.attempts):
        if attempt:
            time.sleep(patience.pause * 2 ** (attempt - 1))
        try:
            return _transfer(url, part, source, report, patience.timeout)
        except MirrorError as failure:
            if not failure.again or attempt + 1 == patience.attempts:
                raise


def _transfer(url: str, part: Path, source: Source, report: Progress, timeout: float) -> None:
    """Make one attempt to complete `part`.

    Its checksum is verified only if the server says that there is nothing after it.
    """
    offset = _size(part)
    if source.size is not None and offset >= source.size:
        return
    response = ask(url, offset, timeout)
    if response is None:  # the file has no bytes from this offset on
        found, wanted = _sums(part, source)
        if found != wanted:
            part.unlink()
            raise MirrorError("the existing part does not belong to this file", again=True)
        return
    with response:
        try:
            start, total = place(response, offset)
        except MirrorError as failure:
            if failure.again:  # start again from the beginning, since this server cannot resume
                part.unlink(missing_ok=True)
            raise
        _check_total(total, source.size)
        _receive(response, part, start, total or source.size, source, report)


def _check_total(total: int | None, size: int | None) -> None:
    if total is not None and (total > MOST_BYTES if size is None else total != size):
        wanted = f"at most {MOST_BYTES:,}" if size is None else f"{size:,}"
        raise MirrorError(f"must have {wanted} bytes, the server declares {total:,}")


def _receive(
    response: HTTPResponse, part: Path, start: int, total: int | None, source: Source, report: Progress
) -> None:
    """Append the response to the part, from `start` on; never more than one byte over the expected size."""
    most = MOST_BYTES if source.size is None else source.size
    so_far = start
    with open(part, "ab" if start else "wb", opener=opener) as file:
        for block in blocks(response, most + 1 - start):
            file.write(block)
            so_far += len(block)
            report(source.file, so_far, total)
        file.flush()
        os.fsync(file.fileno())
    if so_far > most:
        part.unlink()
        raise MirrorError(f"more than {most:,} bytes sent")
    if total is not None and so_far < total:
        raise MirrorError(f"interrupted after {so_far:,} of {total:,} bytes", again=True)
