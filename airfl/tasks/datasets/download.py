"""Downloads of data sets: resumed where they broke off, believed only by their checksums, never over what is there."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from lzma import LZMAError
from pathlib import Path
from typing import IO, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    BaseHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from airfl.errors import MachineError, UserError, unknown_name
from airfl.tasks.datasets.sources import DOWNLOADS, NOT_DOWNLOADABLE, Source
from airfl.version import __version__

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, bytes in all if known

SCHEMES = ("http", "https")
BLOCK = 1 << 16
MOST_BYTES = 4 << 30  # of a file whose size is not known
WORTH_A_RETRY = (408, 425, 429, 500, 502, 503, 504)
# What a wrong --target brings about; other errors of the disk (full, broken) are not the user's.
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
    """How long a mirror is waited for: tries, the pause before the second (doubled each time), seconds of silence."""

    attempts: int = 4
    pause: float = 1.0
    timeout: float = 30.0


PATIENCE = Patience()


class _MirrorError(Exception):
    """A mirror did not give the file; `again`: it may if asked once more."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


def get(name: str, target: Path, progress: Progress | None = None, patience: Patience = PATIENCE) -> list[Path]:
    """Fetch what the data set lacks below the folder `target`; all its files, which are there now.

    Raises UserError for a name or target that cannot be used or a file there that is another one, MachineError where
    no mirror gives a file.
    """
    if name in NOT_DOWNLOADABLE:
        raise UserError(NOT_DOWNLOADABLE[name])
    if name not in DOWNLOADS:
        raise UserError(unknown_name("data set", name, DOWNLOADS))
    if os.path.lexists(target) and not os.path.isdir(target):
        raise UserError(f"{target}: is a file, a data folder is wanted")
    jobs = [(target / download.folder, source) for download in DOWNLOADS[name] for source in download.sources]
    report = progress or _say_nothing
    try:
        lacking = [(folder, source) for folder, source in jobs if not _complete(folder, source)]
        for folder, source in lacking:
            _bring(folder, source, report, patience)
    except OSError as error:
        raise _disk_error(error, target) from None
    return [path for folder, source in jobs for path in _files(folder, source)]


def _say_nothing(file: str, so_far: int, total: int | None) -> None:
    pass


def _disk_error(error: OSError, target: Path) -> UserError | MachineError:
    line = f"{error.filename or target}: {error.strerror or _reason(error)}"
    if error.errno in ERRORS_OF_THE_TARGET:
        return UserError(f"{line}; choose a data folder that can be written to")
    return MachineError(f"{line}; mend it and repeat the command, what came so far is kept")


# What is there


def _files(folder: Path, source: Source) -> list[Path]:
    return [folder / member for member in source.members] or [folder / source.file]


def _complete(folder: Path, source: Source) -> bool:
    """Whether nothing need be done; UserError if something else is in the place of a file."""
    if source.members:
        there = [_is_there(path) for path in _files(folder, source)]  # all are looked at
        return all(there)
    return _is_right(folder / source.file, source)


def _is_there(path: Path) -> bool:
    if os.path.lexists(path) and not path.is_file():
        raise UserError(f"{path}: is not a file; move it away and get the data set again")
    return os.path.lexists(path)


def _is_right(path: Path, source: Source) -> bool:
    """Whether the file is there with its checksum; UserError if another one is in its place."""
    if not _is_there(path):
        return False
    found, wanted = _sums(path, source)
    if found != wanted:
        raise UserError(
            f"{path}: another file is there already ({_told(source, found)}); move it away and get the data set again"
        )
    return True


def _sums(path: Path, source: Source) -> tuple[str, str]:
    """The checksum found and the one wanted."""
    kind, _, wanted = source.checksum.partition(":")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest(), wanted


def _told(source: Source, found: str) -> str:
    kind, _, wanted = source.checksum.partition(":")
    return f"{kind} {found}, wanted {wanted}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


# From mirrors to the file


def _bring(folder: Path, source: Source, report: Progress, patience: Patience) -> None:
    path = folder / source.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _is_right(path, source):
        _fetch(path, source, report, patience)
    if source.members:
        _unpack(path, folder, source.members)
        path.unlink()


def _fetch(path: Path, source: Source, report: Progress, patience: Patience) -> None:
    """Download to FILE.part from the first mirror that gives the file, then name it FILE."""
    part = path.with_name(path.name + ".part")
    reasons = []
    for url in source.urls:
        try:
            _fetch_from(url, part, source, report, patience)
        except _MirrorError as failure:
            reasons.append(f"{url}: {failure}")
        else:
            os.replace(part, path)
            return
    raise MachineError(
        f"{path}: not downloaded ({'; '.join(reasons)}); try again later, or put the file there by other means"
    )


def _fetch_from(url: str, part: Path, source: Source, report: Progress, patience: Patience) -> None:
    """The right file is in `part`, or _MirrorError."""
    begun_before = _size(part) > 0
    _transfer_patiently(url, part, source, report, patience)
    found, wanted = _sums(part, source)
    if found == wanted:
        return
    part.unlink()
    if not begun_before:
        raise _MirrorError(_told(source, found))
    # What was there from before may have been the wrong half: this mirror has its chance with all of the file.
    _fetch_from(url, part, source, report, patience)


def _transfer_patiently(url: str, part: Path, source: Source, report: Progress, patience: Patience) -> None:
    for attempt in range(patience.attempts):
        if attempt:
            time.sleep(patience.pause * 2 ** (attempt - 1))
        try:
            return _transfer(url, part, source, report, patience.timeout)
        except _MirrorError as failure:
            if not failure.again or attempt + 1 == patience.attempts:
                raise


def _transfer(url: str, part: Path, source: Source, report: Progress, timeout: float) -> None:
    """One try to complete `part`; its checksum is not looked at, but for one that the server says is all there is."""
    offset = _size(part)
    if source.size is not None and offset >= source.size:
        return
    response = _ask(url, offset, timeout)
    if response is None:  # nothing from this offset on
        found, wanted = _sums(part, source)
        if found != wanted:
            part.unlink()
            raise _MirrorError("what was here already is no part of the file", again=True)
        return
    with response:
        try:
            start, total = _place(response, offset)
        except _MirrorError as failure:
            if failure.again:  # from the beginning: this server cannot continue
                part.unlink(missing_ok=True)
            raise
        _check_total(total, source.size)
        _receive(response, part, start, total or source.size, source, report)


def _check_total(total: int | None, size: int | None) -> None:
    if total is not None and (total > MOST_BYTES if size is None else total != size):
        wanted = f"at most {MOST_BYTES:,}" if size is None else f"{size:,}"
        raise _MirrorError(f"{total:,} bytes announced, {wanted} wanted")


def _receive(
    response: HTTPResponse, part: Path, start: int, total: int | None, source: Source, report: Progress
) -> None:
    """Add what comes to the part, from `start` on; never more than one byte over what is wanted."""
    most = MOST_BYTES if source.size is None else source.size
    so_far = start
    with open(part, "ab" if start else "wb") as file:
        for block in _blocks(response, most + 1 - start):
            file.write(block)
            so_far += len(block)
            report(source.file, so_far, total)
        file.flush()
        os.fsync(file.fileno())
    if so_far > most:
        part.unlink()
        raise _MirrorError(f"more than {most:,} bytes sent")
    if total is not None and so_far < total:
        raise _MirrorError(f"broken off after {so_far:,} of {total:,} bytes", again=True)


# HTTP


class _Redirects(HTTPRedirectHandler):
    """Follows to http and https only."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The request to follow with; HTTPError if it is not followed."""
        if urlsplit(newurl).scheme not in SCHEMES:
            raise HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


HANDLERS: tuple[type[BaseHandler], ...] = (
    ProxyHandler,
    HTTPHandler,
    HTTPSHandler,
    _Redirects,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    UnknownHandler,
)


def _opener() -> OpenerDirector:
    """Without urllib's handlers of files, data and ftp."""
    opener = OpenerDirector()
    for kind in HANDLERS:
        opener.add_handler(kind())
    return opener


def _ask(url: str, offset: int, timeout: float) -> HTTPResponse | None:
    """The answer to a request from `offset` on; None if the file has no bytes from there on."""
    if urlsplit(url).scheme not in SCHEMES:
        raise _MirrorError("only http and https are allowed")
    request = Request(url, headers={"User-Agent": f"airfl/{__version__}"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    try:
        return cast(HTTPResponse, _opener().open(request, timeout=timeout))
    except HTTPError as error:
        error.close()
        if error.code == 416 and offset:
            return None
        raise _MirrorError(_status(error.code), again=error.code in WORTH_A_RETRY) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _MirrorError(_reason(error), again=True) from None


def _place(response: HTTPResponse, offset: int) -> tuple[int, int | None]:
    """Where in the file the answer begins, and the bytes of the file if told."""
    if response.status == http.HTTPStatus.OK:
        return 0, response.length
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        raise _MirrorError(_status(response.status))
    told = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes +([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", told.strip())
    if match is None or int(match[1]) != offset:
        raise _MirrorError(f"asked for bytes {offset}-, another range was sent", again=True)
    return offset, None if match[2] == "*" else int(match[2])


def _blocks(response: HTTPResponse, most: int) -> Iterator[bytes]:
    """What comes, as it comes; `most` bytes at most."""
    while most > 0:
        try:
            block = response.read1(min(BLOCK, most))
        except (OSError, HTTPException, ValueError) as error:
            raise _MirrorError(f"broken off: {_reason(error)}", again=True) from None
        if not block:
            return
        most -= len(block)
        yield block


def _status(code: int) -> str:
    """In our words, never the server's."""
    if 300 <= code < 400:
        return f"HTTP {code}, a redirect that is not followed (only http and https are, and not in circles)"
    known = code in {status.value for status in http.HTTPStatus}
    return f"HTTP {code} {http.HTTPStatus(code).phrase}" if known else f"HTTP {code}"


def _reason(error: Exception) -> str:
    """An error in one printable line."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    told = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    line = " ".join(told.split())[:200]
    return "".join(letter for letter in line if letter.isprintable()) or type(cause).__name__


# Archives


def _unpack(archive: Path, folder: Path, members: tuple[str, ...]) -> None:
    """Write those members that are not there yet; nothing else in the archive is looked at."""
    lacking = {member for member in members if not _is_there(folder / member)}
    try:
        with tarfile.open(archive) as tar:
            for info in tar:
                if info.name in lacking:
                    _unpack_member(tar, info, archive, folder / info.name)
                    lacking.remove(info.name)
                if not lacking:
                    break
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, LZMAError) as error:
        raise MachineError(f"{archive}: cannot be unpacked ({_reason(error)}); remove it and try again") from None
    if lacking:
        raise MachineError(f"{archive}: holds no {', '.join(sorted(lacking))}; remove it and try again")


def _unpack_member(tar: tarfile.TarFile, info: tarfile.TarInfo, archive: Path, path: Path) -> None:
    content = tar.extractfile(info) if info.isreg() else None
    if content is None:
        raise MachineError(f"{archive}: {info.name} in it is not a regular file; remove it and try again")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with content, open(part, "wb") as file:
        shutil.copyfileobj(content, file, BLOCK)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
