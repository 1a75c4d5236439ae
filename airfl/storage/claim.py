"""Claims: files that say which process works on what, in a folder that several machines share.

- A claim is taken by one process only: its file is written under another name and linked to its own (`link`, which is
  atomic on NFS too), or created by `O_EXCL` where a file system has no hard links.
- Its owner renews it, which sets the time of its last change. A claim that was not renewed for `EXPIRY_S` has ended.
  Both times in that comparison come from the file system: clocks of machines differ. A claim of a process of this
  machine that no longer runs has ended at once.
- A claim that has ended is taken away by renaming it to a unique name, which only one process can do, and by reading it
  there: one that was renewed or replaced meanwhile is put back.

A process that was suspended for so long that its claim was taken away may still go on. So a claim saves work, and
nothing is correct only because of it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from airfl.errors import MachineError
from airfl.storage.lock import Holder
from airfl.storage.own_files import not_own, open_own

RENEW_S = 10.0
EXPIRY_S = 120.0
"""A claim that was not renewed for this long has ended. A network file system may hide a renewal for a minute."""
MARKER = b"airfl claim, version 1\n"
MOST_BYTES = 16384
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
"""Errors of `link` on a file system without hard links."""
GONE = (errno.ENOENT, errno.ESTALE)
"""Errors of opening a file that another process has removed; the second one of NFS."""


@dataclass(frozen=True)
class Seen:
    """A claim, as another process sees it.

    Attributes:
        token: A random name of this claim; "" if its owner has not written it whole.
        holder: Its owner; None if that is not written.
        what: What is claimed, for messages.
        work: What its owner works on as a whole; processes that share a folder agree in it.
        renewed_ns: When it was renewed last, by the clock of the file system.
    """

    token: str
    holder: Holder | None
    what: str
    work: str
    renewed_ns: int

    def has_ended(self, now_ns: int) -> bool:
        """Whether its owner has ended, or has not renewed it for long. now_ns: the time of the file system."""
        if self.holder and self.holder.here and not self.holder.runs:
            return True
        return now_ns - self.renewed_ns > EXPIRY_S * 1e9

    @property
    def runs_here(self) -> bool:
        """Whether its owner is a process of this machine that runs."""
        return self.holder is not None and self.holder.here and self.holder.runs

    @property
    def owner(self) -> str:
        """Its owner, for messages."""
        return f"process {self.holder.pid} of {self.holder.host[0]}" if self.holder else "an unknown process"


@dataclass(frozen=True)
class Claim:
    """A claim of this process.

    Attributes:
        path: Its file.
        token: Its random name.
    """

    path: Path
    token: str

    @classmethod
    def take(cls, path: Path, what: str, work: str = "") -> Claim | None:
        """Claim what the file stands for, or return None if it is claimed.

        Raises MachineError if the file cannot be written, FileNotFoundError if its folder has been removed.
        """
        token = secrets.token_hex(8)
        about = {"token": token, "holder": asdict(Holder.this()), "what": what, "work": work}
        beside = path.with_name(f".{path.name}.{token}")
        try:
            try:
                _write_new(beside, MARKER + json.dumps(about).encode())
                return cls(path, token) if _linked(beside, path) else None
            finally:
                beside.unlink(missing_ok=True)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise MachineError(f"{path.parent}: cannot be written to ({error.strerror})") from None

    def renew(self) -> int | None:
        """Renew the claim and return the time of the file system; None if it was taken away."""
        try:
            descriptor = open_own(self.path, os.O_RDWR)
        except OSError as error:
            if error.errno in GONE:
                return None
            raise
        try:
            seen = _read(descriptor, self.path)
            if seen.token != self.token:
                return None
            os.utime(descriptor)
            return os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Give the claim back, if it was not taken away."""
        seen = look(self.path)
        if seen and seen.token == self.token:
            take_away(self.path, seen, renewed_too=True)


def look(path: Path) -> Seen | None:
    """Return a claim, None if there is none; UserError for another file.

    The file is opened, as a network file system then asks for its state, and does not answer from memory.
    """
    try:
        descriptor = open_own(path)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise
    try:
        return _read(descriptor, path)
    finally:
        os.close(descriptor)


def take_away(path: Path, seen: Seen, renewed_too: bool = False) -> bool:
    """Remove a claim as it was seen, and return whether this process did it.

    renewed_too: also if its owner has renewed it since.
    """
    away = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.rename(away)
    except FileNotFoundError:
        return False
    try:
        found = look(away)
        same = found is not None and found.token == seen.token
        if same and found and (renewed_too or found.renewed_ns == seen.renewed_ns):
            return True
        _linked(away, path)
        return False
    finally:
        away.unlink(missing_ok=True)


def time_of(folder: Path) -> int | None:
    """Return the time of the file system of a folder in ns; None if this process may not write there."""
    probe = folder / f".time.{secrets.token_hex(8)}"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError:
        return None
    try:
        os.utime(descriptor)
        return os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)
        with suppress(OSError):
            probe.unlink()


def _write_new(path: Path, content: bytes) -> None:
    with os.fdopen(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content)


def _linked(made: Path, path: Path) -> bool:
    """Give a file the name `path` too, and return whether it was free."""
    try:
        os.link(made, path)
    except FileExistsError:
        return os.stat(made).st_nlink == 2  # NFS may have repeated a call that had succeeded
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        try:
            _write_new(path, made.read_bytes())
        except FileExistsError:
            return False
    return True


def _read(descriptor: int, path: Path) -> Seen:
    content, renewed = os.pread(descriptor, MOST_BYTES, 0), os.fstat(descriptor).st_mtime_ns
    if not content.startswith(MARKER) and not MARKER.startswith(content):
        raise not_own(path)
    try:
        about = json.loads(content[len(MARKER) :])
        holder = Holder.read(json.dumps(about["holder"]))
        return Seen(str(about["token"]), holder, str(about["what"]), str(about["work"]), renewed)
    except (ValueError, TypeError, KeyError, RecursionError):
        return Seen("", None, "", "", renewed)
