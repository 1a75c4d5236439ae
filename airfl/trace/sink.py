"""The file under a trace that is being written: HDF5 is never told that a write has failed.

It does not survive that: it complains when the process ends, or ends it with a segmentation fault. So the first failure
is kept for whoever asks, what is written after it stays in memory, and HDF5 closes in peace.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
from pathlib import Path
from typing import Any

from airfl.trace.integrity import hdf5_locks


class Sink(io.RawIOBase):
    """A new file, locked as HDF5 locks one that it writes. Nothing may interrupt what HDF5 does with it: see
    `airfl.interrupt.undisturbed`."""

    def __init__(self, path: Path) -> None:
        """FileExistsError if there is one."""
        super().__init__()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._place = self._end = 0
        self._fault: OSError | None = None
        self._unwritten: list[tuple[int, bytes]] = []
        if hdf5_locks():
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def check(self) -> None:
        """OSError if anything could not be written."""
        if self._fault is not None:
            raise OSError(self._fault.errno, self._fault.strerror)

    def sync(self) -> None:
        """Have on disk what was written; OSError where that cannot be."""
        os.fsync(self._file)

    def write(self, data: Any) -> int:
        """All of it, from where it stands; into memory where the file has failed."""
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
        """As much as there is, from where it stands."""
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
        """Make the file so long."""
        self._end = size = self._place if size is None else size
        if self._fault is None:
            try:
                os.ftruncate(self._file, size)
            except OSError as error:
                self._fault = error
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As of any file."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._end}[whence]
        return self._place

    def tell(self) -> int:
        """Where it stands."""
        return self._place

    def readable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is, or seems to be."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Let go of the file and its lock."""
        if not self.closed:
            # Its number may soon be that of another file, into which nothing of this one shall come.
            file, self._file = self._file, -1
            os.close(file)
        super().close()
