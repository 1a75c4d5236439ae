"""The seal of a trace whose run has ended: checksums of every 64 KiB of the file, behind what HDF5 reads of it.

It finds damage, not forgery: whoever changes a file can compute another seal for it.

HDF5 checks nothing by default: a byte that flips in a number is another number, and one that flips in an index can end
the process. What a sealed file holds reaches HDF5 only after it was found right, block by block, as far as it is read.
Other readers pass over the seal. It goes with every copy; whoever opens the file to write, or repacks it, takes it off.
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
"""What HDF5 says of a file that another process is writing."""
MAGIC = b"airfl trace seal, version 1\n"
FOOTER = struct.Struct(f"<Q{hashlib.sha256().digest_size}s{len(MAGIC)}s")
"""The end of the file: bytes that are sealed, SHA-256 of their number and of the blocks' checksums, MAGIC."""


class DamagedError(OSError):
    """What is in the file is not what was sealed."""


@dataclass(frozen=True)
class Seal:
    """Checksums of a file, block by block.

    Attributes:
        length: Bytes that are sealed, from the start of the file.
        sums: SUM_BYTES of every block's SHA-256, one after another.
        total: SHA-256 of both; empty where it was not read.
        right: Indices of blocks that were found right.
    """

    length: int
    sums: bytes
    total: bytes = b""
    right: set[int] = field(default_factory=set)

    def check(self, file: int, start: int, end: int) -> None:
        """DamagedError where these bytes of the open file lie in a block that is not what it was."""
        for block in range(start // BLOCK_BYTES, -(-min(end, self.length) // BLOCK_BYTES)):
            if block in self.right:
                continue
            at = block * BLOCK_BYTES
            if _sum(_read(file, at, min(BLOCK_BYTES, self.length - at))) != self.sums[block * SUM_BYTES :][:SUM_BYTES]:
                raise DamagedError(f"bytes {at:,} to {min(at + BLOCK_BYTES, self.length):,} are not what was written")
            self.right.add(block)


def seal(path: Path) -> None:
    """Seal a file that is closed; nothing of what it holds changes. Killed midway it is not sealed, and as good."""
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
    """The seal of a file, None if it has none; DamagedError for a seal that is damaged itself."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _read_seal(file)
    finally:
        os.close(file)


def check_whole(path: Path) -> bool:
    """Check all of a file; whether it is sealed. DamagedError where it is not what was sealed."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _read_seal(file)
        if found is not None:
            found.check(file, 0, found.length)
        return found is not None
    finally:
        os.close(file)


def open_checked(path: str | Path) -> h5py.File:
    """A sealed file, to be read: HDF5 is given no byte that was not checked. DamagedError where one is wrong: here, or
    as an OSError of HDF5's where it is read. A file without a seal is opened as it is."""
    import h5py

    checked = _Checked(Path(path))
    if checked.seal is None:
        checked.close()
        return h5py.File(path, "r")
    return _opened_by(checked)


def seal_own(path: Path) -> None:
    """Seal a file that this process has written and closed, and remember what was sealed."""
    seal(path)
    found = read_seal(path)
    if found is not None:
        _own.add(found.total)


def open_own(path: str | Path) -> h5py.File | None:
    """A file that this process has sealed by `seal_own`, or a copy of one, as `open_checked` opens it; else None. What
    HDF5 gets to see of it is what was sealed then, block by block, wherever it came from."""
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
    """HDF5 closes what is open when the process ends, and would call `_Checked` when there is no Python any more."""
    for file in list(_opened.values()):
        file.close()


class _Checked(io.RawIOBase):
    """The sealed part of a file. It is locked as HDF5 locks files that it reads."""

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
        """DamagedError if one was met: between it and the caller HDF5 makes another error of it."""
        if self._fault:
            raise DamagedError(self._fault) from None

    def readinto(self, buffer: Any) -> int:
        """Checked bytes from where it stands."""
        assert self.seal is not None
        view = memoryview(buffer).cast("B")
        end = min(self._place + len(view), self.seal.length)
        try:
            self.seal.check(self._file, self._place, end)
        except DamagedError as error:
            self._fault = str(error)
            raise
        data = _read(self._file, self._place, max(end - self._place, 0))
        view[: len(data)] = data
        self._place += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of any file; its end is the end of what is sealed."""
        assert self.seal is not None
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self.seal.length}
        self._place = starts[whence] + offset
        return self._place

    def tell(self) -> int:
        """Where it stands."""
        return self._place

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Let go of the file and its lock."""
        if not self.closed:
            os.close(self._file)
        super().close()


def hdf5_locks() -> bool:
    """Whether HDF5 locks files here: unless it was told not to."""
    return os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() not in ("FALSE", "0")


def _lock(file: int) -> None:
    if not hdf5_locks():
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(BEING_WRITTEN) from None  # in HDF5's words
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
        raise DamagedError("its seal is of another length")
    sums = _read(file, length, blocks * SUM_BYTES)
    if _total(length, sums) != total:
        raise DamagedError("its seal is damaged")
    return Seal(length, sums, total)


def _read(file: int, at: int, count: int) -> bytes:
    """`count` bytes, or as many as there are."""
    parts = []
    while count > 0 and (part := os.pread(file, count, at)):
        parts.append(part)
        at, count = at + len(part), count - len(part)
    return b"".join(parts)


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:SUM_BYTES]


def _total(length: int, sums: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<Q", length) + sums).digest()
