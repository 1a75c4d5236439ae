"""The file that HDF5 writes a trace into. It never reports a failed write to HDF5.

HDF5 does not recover from one: it prints errors when the process ends, or crashes with a segmentation fault. So the
first failure is stored, later writes stay in memory, HDF5 closes normally, and `FailSafeFile.check` raises the failure.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
from pathlib import Path
from typing import Any

from airfl.storage.trace.integrity import hdf5_locks


class FailSafeFile(io.RawIOBase):
    """A new file, with the lock that HDF5 takes on files it writes.

    Nothing may interrupt HDF5 while it uses the file; see `airfl.runtime.interrupt.undisturbed`.
    """

    def __init__(self, path: Path) -> None:
        """Create the file; FileExistsError if it exists."""
        super().__init__()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._place = self._end = 0
        self._fault: OSError | None = None
        self._unwritten: list[tuple[int, bytes]] = []
        if hdf5_locks():
            with contextlib.suppress(OSError):  # the file system may not support locks
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def check(self) -> None:
        """Raise OSError if a write has failed."""
        if self._fault is not None:
            raise OSError(self._fault.errno, self._fault.strerror)

    def sync(self) -> None:
        """Flush the file to disk; OSError if that fails."""
        os.fsync(self._file)

    def write(self, data: Any) -> int:
        """Write all data at the current position, in memory once the file has failed."""
        rest = memoryview(data).cast("B")
        count = len(rest)
        while rest and self._fault is None:
            try:
                done = os.pwrite(self._file, rest, self._place)
            except OSError as error:
                self._fault = error
            else:
                self._place, rest = self._place + done, rest[done:]
        if rest:
            self._unwritten.append((self._place, bytes(rest)))
            self._place += len(rest)
        self._end = max(self._end, self._place)
        return count

    def readinto(self, buffer: Any) -> int:
        """Read from the current position, including data that is only in memory."""
        view = memoryview(buffer).cast("B")
        count = os.preadv(self._file, [view], self._place)
        view[count:] = bytes(len(view) - count)
        for start, data in self._unwritten:
            first, last = max(start, self._place), min(start + len(data), self._place + len(view))
            if first < last:
                view[first - self._place : last - self._place] = data[first - start : last - start]
                count = max(count, last - self._place)
        self._place += count
        return count

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        self._end = size = self._place if size is None else size
        if self._fault is None:
            try:
                os.ftruncate(self._file, size)
            except OSError as error:
                self._fault = error
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._end}[whence]
        return self._place

    def tell(self) -> int:
        """Return the current position."""
        return self._place

    def readable(self) -> bool:
        """Return True: HDF5 also reads the file."""
        return True

    def writable(self) -> bool:
        """Return True, even after a write has failed."""
        return True

    def seekable(self) -> bool:
        """Return True: the position can be set."""
        return True

    def close(self) -> None:
        """Close the file, which releases its lock."""
        if not self.closed:
            # The descriptor is cleared first: its number may be reused by another file, which must not be written.
            file, self._file = self._file, -1
            os.close(file)
        super().close()
