"""One process at a time: a lock that ends with its process, however that ends, where the file system can do that.

Where it has no `flock` (some cluster and network file systems), the lock is the file itself: who makes it holds it, and
it says who that is. Such a lock outlives a process that is killed, and is then named, with what to do about it.
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
"""What `flock` says on a file system that has no locks."""
SECONDS_TO_SAY_WHO = 1.0
"""From making a lock file to having written the holder into it; nothing stands in one that `flock` locks."""
MOST_BYTES = 4096
MARKER = b"airfl lock, version 1\n"
"""What a lock's file begins with. Whoever was killed before it was written has left a part of it, or nothing."""


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock for the time of the block; UserError with the line `busy` where another process has it.

    The file is made if it is not there, its folder too, and stays (without `flock` it goes); who holds the lock may
    remove both. UserError for a link and for a file that is no lock of airfl, which stays as it is, and, with the mend,
    where a process without `flock` has left a lock behind, or may have on another machine. MachineError where the disk
    is full.
    """
    while True:
        with _opened(path) as (lock, made):
            flocked = _flocked(lock, path, busy)
            if not _is_there(path, lock):
                # Another process had it, and removed it between our two steps: a lock on that file keeps nobody out.
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


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, bool]]:
    """The file, and whether it was made by this very call."""
    for last in (False, False, True):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock, made = _open(path)
            break
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not last:
                continue  # removed with its folder between the two lines
            raise _unwritable(path, error) from None
    with lock:
        yield lock, made


def _open(path: Path) -> tuple[BinaryIO, bool]:
    with contextlib.suppress(FileExistsError):
        return os.fdopen(open_own(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), "r+b", buffering=0), True
    return os.fdopen(open_own(path, os.O_RDWR), "r+b", buffering=0), False


def may_be_lock(path: Path) -> bool:
    """Whether a regular file holds the marker, or a part that a kill has left of it."""
    try:
        with os.fdopen(open_own(path), "rb") as file:
            found = file.read(len(MARKER))
    except (OSError, UserError):
        return False
    return MARKER.startswith(found)


def is_lock(path: Path) -> bool:
    """Whether a regular file holds the whole marker."""
    return may_be_lock(path) and path.stat().st_size >= len(MARKER)


def _mark(path: Path, lock: BinaryIO) -> None:
    """Write the marker where it is not there yet; UserError for a file that holds something else."""
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


def _flocked(lock: BinaryIO, path: Path, busy: str) -> bool:
    """Whether the lock was taken by `flock`; False where the file system has none."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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


# Without flock: the file is there, and names its holder, or is not there.


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock.

    Attributes:
        host: Name, boot and namespace of process ids of its machine.
        pid: Its process id there.
        start: When it started, in ticks since the boot; 0 where that is not known.
        since: When it took the lock, UTC in ISO 8601.
    """

    host: list[str]
    pid: int
    start: int
    since: str

    @classmethod
    def this(cls) -> Holder:
        """The process that asks."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return cls(_host(), os.getpid(), _start_of(os.getpid()) or 0, now)

    @classmethod
    def read(cls, text: str) -> Holder | None:
        """As it stands in the file; None where that is no holder."""
        try:
            value = json.loads(text)
            holder = cls(list(map(str, value["host"])), int(value["pid"]), int(value["start"]), str(value["since"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return holder if holder.host and holder.pid > 0 else None

    @property
    def here(self) -> bool:
        """Whether it can be seen from here."""
        return self.host == _host()

    @property
    def runs(self) -> bool:
        """Of one that can be seen from here: whether it still does, and is not another process of its number."""
        start = _start_of(self.pid)
        return start is not None and start == self.start


def _claim(lock: BinaryIO, path: Path, made: bool) -> None:
    """Without `flock`: who made the file has the lock."""
    if not made:
        raise UserError(
            f"{path}: is there already, and this file system has no locks that would tell whether a process still "
            "writes; if none does, delete that file"
        )
    try:
        os.pwrite(lock.fileno(), MARKER + json.dumps(asdict(Holder.this())).encode(), 0)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise MachineError(f"{path}: cannot be written to ({error.strerror})") from None


def _check_holder(lock: BinaryIO, path: Path, busy: str, wait: bool) -> None:
    """UserError where the file names a holder: `busy` where it runs, else what to do about it. wait: for a name that is
    about to be written."""
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
    """What stands behind the marker; UserError for a file that does not begin with it."""
    found = os.pread(lock.fileno(), MOST_BYTES, 0)
    if not found.startswith(MARKER) and not MARKER.startswith(found):
        raise not_own(path)
    return found[len(MARKER) :].decode(errors="replace").strip()


def _lately(lock: BinaryIO) -> bool:
    """Whether the file was made a moment ago, as far as clocks of two machines agree."""
    return abs(time.time() - os.fstat(lock.fileno()).st_mtime) < 60


def _host() -> list[str]:
    """Name, boot and namespace of process ids: a process id means the same where all three are the same."""
    host = [socket.gethostname()]
    with contextlib.suppress(OSError):
        host.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        host.append(os.readlink("/proc/self/ns/pid"))
    return host


def _start_of(pid: int) -> int | None:
    """When the process was started, in ticks since the boot; None where there is none (0 where that is not known)."""
    try:
        # The name, in brackets, may hold anything.
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
