"""The seal of a finished trace: checksums of every 64 KiB block, appended after the part of the file that HDF5 reads.

The seal detects damage, not forgery: anyone who changes a file can compute a new seal.

HDF5 verifies nothing by default: a flipped bit in a value gives another value, and one in an index can crash the
process. Data of a sealed file is passed to HDF5 only after its block has been verified, for the blocks that are read.
Other readers ignore the seal. It is part of every copy, and is lost when the file is opened for writing or repacked.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import io
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    import h5py

BLOCK_BYTES = 1 << 16
SUM_BYTES = 8
BEING_WRITTEN = "unable to lock file"
"""HDF5's error message for a file that another process is writing."""
MAGIC = b"airfl trace seal, version 1\n"
FOOTER = struct.Struct(f"<Q{hashlib.sha256().digest_size}s{len(MAGIC)}s")
"""The end of the file: number of sealed bytes, SHA-256 of this number and the checksums of the blocks, MAGIC."""


class DamagedTraceError(OSError):
    """Raised if the contents of a file do not match its seal."""


@dataclass(frozen=True)
class Seal:
    """The checksums of the blocks of a file.

    Attributes:
        length: Number of sealed bytes, from the start of the file.
        sums: The first SUM_BYTES of every block's SHA-256, concatenated.
        total: SHA-256 of both; empty if it was not read.
        right: Indices of the blocks that have been verified.
    """

    length: int
    sums: bytes
    total: bytes = b""
    right: set[int] = field(default_factory=set)

    def check(self, file: int, start: int, end: int) -> None:
        """Raise DamagedTraceError if any block that holds these bytes of the open file has changed."""
        for block in range(start // BLOCK_BYTES, -(-min(end, self.length) // BLOCK_BYTES)):
            if block in self.right:
                continue
            at = block * BLOCK_BYTES
            if _sum(_read(file, at, min(BLOCK_BYTES, self.length - at))) != self.sums[block * SUM_BYTES :][:SUM_BYTES]:
                raise DamagedTraceError(
                    f"bytes {at:,} to {min(at + BLOCK_BYTES, self.length):,} do not match their checksum"
                )
            self.right.add(block)


def seal(path: Path) -> None:
    """Append a seal to a closed file. If the process is killed midway, the file is unsealed but still readable."""
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        length = os.fstat(file).st_size
        if _read_seal(file) is not None:
            return
        sums = b"".join(_sum(_read(file, at, BLOCK_BYTES)) for at in range(0, length, BLOCK_BYTES))
        rest = memoryview(sums + FOOTER.pack(length, _total(length, sums), MAGIC))
        while rest:
            rest = rest[os.pwrite(file, rest, os.fstat(file).st_size) :]
        os.fsync(file)
    finally:
        os.close(file)


def read_seal(path: Path) -> Seal | None:
    """Return the seal of a file, or None if it has none; DamagedTraceError if the seal itself is damaged."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read_seal(file)
    finally:
        os.close(file)


def check_whole(path: Path) -> bool:
    """Verify a whole file and return whether it is sealed. DamagedTraceError if it does not match its seal."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _read_seal(file)
        if found is not None:
            found.check(file, 0, found.length)
        return found is not None
    finally:
        os.close(file)


def open_checked(path: str | Path) -> h5py.File:
    """Open a file for reading. If it is sealed, only verified bytes are passed to HDF5.

    Damage raises DamagedTraceError here, or an OSError of HDF5 when the damaged part is read. A file without a seal is
    opened without checks.
    """
    import h5py

    checked = _Checked(Path(path))
    if checked.seal is None:
        checked.close()
        return h5py.File(path, "r")
    return _opened_by(checked)


def seal_own(path: Path) -> None:
    """Seal a file that this process has written and closed, and remember its seal."""
    seal(path)
    found = read_seal(path)
    if found is not None:
        _own.add(found.total)


def open_own(path: str | Path) -> h5py.File | None:
    """Open a file that this process has sealed by `seal_own`, or a copy of one, as `open_checked` does.

    Returns None for any other file. Only blocks that match the remembered seal are passed to HDF5.
    """
    checked = _Checked(Path(path))
    if checked.seal is None or checked.seal.total not in _own:
        checked.close()
        return None
    return _opened_by(checked)


_own: set[bytes] = set()


def _opened_by(checked: _Checked) -> h5py.File:
    import h5py

    try:
        file = h5py.File(checked)
    except OSError:
        checked.complain()
        raise
    _opened[id(file)] = file
    return file


_opened: WeakValueDictionary[int, h5py.File] = WeakValueDictionary()


@atexit.register
def _close_opened() -> None:
    """Close the files before Python ends; HDF5 would otherwise close them later and call into `_Checked`."""
    for file in list(_opened.values()):
        file.close()


class _Checked(io.RawIOBase):
    """The sealed part of a file, with the lock that HDF5 takes on files it reads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file, self._place, self._fault = os.open(path, os.O_RDONLY | os.O_CLOEXEC), 0, ""
        try:
            self.seal = _read_seal(self._file)
            if self.seal is not None:
                _lock(self._file)
        except BaseException:
            self.close()
            raise

    def complain(self) -> None:
        """Raise the DamagedTraceError that occurred during a read, which HDF5 has turned into another error."""
        if self._fault:
            raise DamagedTraceError(self._fault) from None

    def readinto(self, buffer: Any) -> int:
        """Read verified bytes from the current position."""
        assert self.seal is not None
        view = memoryview(buffer).cast("B")
        end = min(self._place + len(view), self.seal.length)
        try:
            self.seal.check(self._file, self._place, end)
        except DamagedTraceError as error:
            self._fault = str(error)
            raise
        data = _read(self._file, self._place, max(end - self._place, 0))
        view[: len(data)] = data
        self._place += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position; the end is the end of the sealed part."""
        assert self.seal is not None
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self.seal.length}
        self._place = starts[whence] + offset
        return self._place

    def tell(self) -> int:
        """Return the current position."""
        return self._place

    def readable(self) -> bool:
        """Return True: the file is open for reading."""
        return True

    def seekable(self) -> bool:
        """Return True: the position can be set."""
        return True

    def close(self) -> None:
        """Close the file, which releases its lock."""
        if not self.closed:
            os.close(self._file)
        super().close()


def is_being_written(path: Path) -> bool | None:
    """Whether a process has the trace open for writing; None if locks do not tell.

    The lock that is asked for is the one that every reader of a trace takes. It is released at once, and never waited
    for. A run creates its trace under another name, so that it cannot be in the way of one that begins.
    """
    if not hdf5_locks():
        return None
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None  # a file system without locks
    finally:
        os.close(file)
    return False


def hdf5_locks() -> bool:
    """Whether HDF5 locks files: True unless HDF5_USE_FILE_LOCKING says otherwise."""
    return os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() not in ("FALSE", "0")


def _lock(file: int) -> None:
    if not hdf5_locks():
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(BEING_WRITTEN) from None  # the message that HDF5 gives
    except OSError:
        return  # a file system without locks


def _read_seal(file: int) -> Seal | None:
    size = os.fstat(file).st_size
    end = _read(file, max(size - FOOTER.size, 0), FOOTER.size)
    if len(end) < FOOTER.size or not end.endswith(MAGIC):
        return None
    length, total, _ = FOOTER.unpack(end)
    blocks = -(-length // BLOCK_BYTES)
    if length + blocks * SUM_BYTES + FOOTER.size != size:
        raise DamagedTraceError("the length of its seal does not match the file")
    sums = _read(file, length, blocks * SUM_BYTES)
    if _total(length, sums) != total:
        raise DamagedTraceError("its seal is damaged")
    return Seal(length, sums, total)


def _read(file: int, at: int, count: int) -> bytes:
    """Read `count` bytes, or fewer at the end of the file."""
    parts = []
    while count > 0 and (part := os.pread(file, count, at)):
        parts.append(part)
        at, count = at + len(part), count - len(part)
    return b"".join(parts)


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:SUM_BYTES]


def _total(length: int, sums: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<Q", length) + sums).digest()
