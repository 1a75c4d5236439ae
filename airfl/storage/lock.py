"""A lock file that admits one process at a time.

With `flock`, the lock ends with its process, however that ends. On file systems without `flock` (some cluster and
network file systems), the file itself is the lock: the process that creates it holds the lock and writes its identity
into it. Such a lock outlives a process that is killed. The error message then names it and says what to do.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from airfl.errors import MachineError, UserError
from airfl.storage.own_files import not_own, open_own

OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
HELD_BY_ANOTHER = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
NO_LOCKS_HERE = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL)
"""Errors of `flock` on a file system without locks."""
SECONDS_TO_SAY_WHO = 1.0
"""Time allowed between creating a lock file and writing its holder. A file locked by `flock` names no holder."""
MOST_BYTES = 4096
MARKER = b"airfl lock, version 1\n"
"""Beginning of a lock file. A process killed while it was writing it leaves a part of it, or an empty file."""


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock during the block.

    The file and its folder are created if they are missing. The file is kept afterwards, except without `flock`, where
    it is removed. The holder of the lock may remove both.

    Raises:
        UserError: With the line `busy` if another process has the lock; for a link or a file that is not a lock of
            airfl, which is left as it is; and, saying what to do, if a process without `flock` has left a lock behind,
            or may have left one on another machine.
        MachineError: If the disk is full.
    """
    while True:
        with _opened(path) as (lock, made):
            flocked = _flocked(lock, path, busy)
            if not _is_there(path, lock):
                # Another process held the file and removed it between opening and locking. A lock on the removed file
                # would keep no process out.
                continue
            if not made:
                _check_holder(lock, path, busy, wait=not flocked)
            if flocked:
                _mark(path, lock)
            else:
                _claim(lock, path, made)
            try:
                yield
            finally:
                if not flocked and _is_there(path, lock):
                    path.unlink(missing_ok=True)
            return


def check_unlocked(path: Path, busy: str) -> None:
    """Raise UserError, with the line `busy`, if another process has the lock. The lock is not taken.

    Also raises what `locked` raises of locks that were left behind, and of files that are no locks.
    """
    try:
        lock = os.fdopen(open_own(path), "rb", buffering=0)
    except FileNotFoundError:
        return
    with lock:
        flocked = _flocked(lock, path, busy, fcntl.LOCK_SH)
        if not _is_there(path, lock):
            return
        _check_holder(lock, path, busy, wait=not flocked)
        if not flocked:
            raise _left_behind(path)


def remove_left(path: Path) -> None:
    """Remove a lock without `flock` whose process, of this machine, was killed. Any other file is left as it is."""
    with contextlib.suppress(OSError, UserError), os.fdopen(open_own(path), "rb") as lock:
        holder = Holder.read(_text(lock, path))
        if holder is not None and holder.here and not holder.runs:
            path.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, bool]]:
    """Yield the open file, and whether this call created it."""
    for last in (False, False, True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock, made = _open(path)
            break
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not last:
                continue  # the folder was removed between the two lines
            raise _unwritable(path, error) from None
    with lock:
        yield lock, made


def _open(path: Path) -> tuple[BinaryIO, bool]:
    with contextlib.suppress(FileExistsError):
        return os.fdopen(open_own(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), "r+b", buffering=0), True
    return os.fdopen(open_own(path, os.O_RDWR), "r+b", buffering=0), False


def may_be_lock(path: Path) -> bool:
    """Return whether a regular file begins with the marker, or holds only the part that a killed process left."""
    try:
        with os.fdopen(open_own(path), "rb") as file:
            found = file.read(len(MARKER))
    except (OSError, UserError):
        return False
    return MARKER.startswith(found)


def is_lock(path: Path) -> bool:
    """Return whether a regular file begins with the whole marker."""
    return may_be_lock(path) and path.stat().st_size >= len(MARKER)


def _mark(path: Path, lock: BinaryIO) -> None:
    """Write the marker if it is not there yet; raise UserError if the file holds something else."""
    found = os.pread(lock.fileno(), len(MARKER), 0)
    if not MARKER.startswith(found):
        raise not_own(path)
    if found != MARKER:
        try:
            os.pwrite(lock.fileno(), MARKER, 0)
        except OSError as error:
            raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> UserError | MachineError:
    kind = MachineError if error.errno in OF_THE_MACHINE else UserError
    return kind(f"{path.parent}: cannot be written to ({error.strerror})")


def _flocked(lock: BinaryIO, path: Path, busy: str, how: int = fcntl.LOCK_EX) -> bool:
    """Return whether `flock` took the lock; False on a file system without locks."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD_BY_ANOTHER:
            raise UserError(busy) from None
        if error.errno in NO_LOCKS_HERE:
            return False
        raise MachineError(f"{path}: cannot be locked ({error.strerror})") from None
    return True


def _is_there(path: Path, lock: BinaryIO) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(lock.fileno()))
    return False


# Without flock, the lock is held if the file exists, and the file names its holder.


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock.

    Attributes:
        host: Name, boot id and process id namespace of its machine.
        pid: Its process id on that machine.
        start: Its start time in ticks since the boot; 0 if unknown.
        since: Time at which it took the lock, UTC in ISO 8601.
    """

    host: list[str]
    pid: int
    start: int
    since: str

    @classmethod
    def this(cls) -> Holder:
        """Return the current process as a holder."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return cls(_host(), os.getpid(), _start_of(os.getpid()) or 0, now)

    @classmethod
    def read(cls, text: str) -> Holder | None:
        """Return the holder that the text of a lock file describes; None if it describes none."""
        try:
            value = json.loads(text)
            holder = cls(list(map(str, value["host"])), int(value["pid"]), int(value["start"]), str(value["since"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return holder if holder.host and holder.pid > 0 else None

    @property
    def here(self) -> bool:
        """Whether its process id can be looked up from this process."""
        return self.host == _host()

    @property
    def runs(self) -> bool:
        """Whether it is still running, and not another process with the same id. Only valid if `here` is true."""
        start = _start_of(self.pid)
        return start is not None and start == self.start


def _claim(lock: BinaryIO, path: Path, made: bool) -> None:
    """Take the lock without `flock`, which only the process that created the file can do."""
    if not made:
        raise _left_behind(path)
    try:
        os.pwrite(lock.fileno(), MARKER + json.dumps(asdict(Holder.this())).encode(), 0)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise MachineError(f"{path}: cannot be written to ({error.strerror})") from None


def _left_behind(path: Path) -> UserError:
    return UserError(
        f"{path}: already exists, and this file system has no locks that tell whether a process still writes; if "
        "none does, delete the file"
    )


def _check_holder(lock: BinaryIO, path: Path, busy: str, wait: bool) -> None:
    """Raise UserError if the file names a holder: `busy` if it is running, else with advice on what to do.

    With `wait`, allow for a holder that is still writing its name.
    """
    text = _text(lock, path)
    deadline = time.monotonic() + SECONDS_TO_SAY_WHO
    while wait and not text and _lately(lock) and time.monotonic() < deadline:
        time.sleep(0.05)
        text = _text(lock, path)
    if not text:
        return
    holder = Holder.read(text)
    if holder is None:
        raise UserError(f"{path}: is not a lock file of airfl; move it away, or choose another --out")
    if holder.here and holder.runs:
        raise UserError(busy)
    who = f"{path}: process {holder.pid} of {holder.host[0]} has the lock since {holder.since}"
    if holder.here:
        raise UserError(f"{who} but that process has ended; delete the file, then repeat the command")
    raise UserError(f"{who}; if it has ended, delete the file, then repeat the command")


def _text(lock: BinaryIO, path: Path) -> str:
    """Return the text after the marker; raise UserError for a file that does not begin with the marker."""
    found = os.pread(lock.fileno(), MOST_BYTES, 0)
    if not found.startswith(MARKER) and not MARKER.startswith(found):
        raise not_own(path)
    return found[len(MARKER) :].decode(errors="replace").strip()


def _lately(lock: BinaryIO) -> bool:
    """Return whether the file was created a moment ago, as far as the clocks of two machines agree."""
    return abs(time.time() - os.fstat(lock.fileno()).st_mtime) < 60


def _host() -> list[str]:
    """Return host name, boot id and process id namespace; a process id means the same only where all three agree."""
    host = [socket.gethostname()]
    with contextlib.suppress(OSError):
        host.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        host.append(os.readlink("/proc/self/ns/pid"))
    return host


def _start_of(pid: int) -> int | None:
    """Return the start time of a process in ticks since the boot; None if there is no such process, 0 if unknown."""
    try:
        # The process name, in parentheses, may contain any characters.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (FileNotFoundError, ProcessLookupError):
        pass
    except (OSError, ValueError, IndexError):
        return 0
    if Path("/proc/self/stat").exists():
        return None
    try:  # a system without /proc
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return 0
