"""The layer between HDF5 and a failing disk, and between a signal and a write."""

import errno
import os
import signal
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest

from airfl.runtime.interrupt import undisturbed
from airfl.storage.trace.fail_safe_file import FailSafeFile


class Disk:
    """os.pwrite on a disk with so much room; writes are cut short at its end, as real ones are."""

    def __init__(self, room: int) -> None:
        self.room, self._write = room, os.pwrite

    def pwrite(self, file: int, data: memoryview, place: int) -> int:
        count = min(len(data), self.room)
        if data and not count:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= count
        return self._write(file, data[:count], place)


def fill(file: h5py.File) -> np.ndarray:
    """Rows are appended one by one, as a trace's are."""
    rows = np.random.default_rng(0).normal(size=(300, 50))
    grown = file.create_dataset("grown", shape=(0, 50), maxshape=(None, 50), dtype="f8", chunks=(8, 50))
    for number, row in enumerate(rows, 1):
        grown.resize(number, axis=0)
        grown[number - 1] = row
        file.flush()
    file.attrs["status"] = "complete"
    return rows


def test_hdf5_writes_a_file_through_it(tmp_path: Path) -> None:
    with FailSafeFile(tmp_path / "sink.h5") as sink:
        with h5py.File(sink, "w") as file:
            rows = fill(file)
        sink.check()
    with h5py.File(tmp_path / "sink.h5") as file:
        np.testing.assert_array_equal(file["grown"], rows)
        assert file.attrs["status"] == "complete"
    with pytest.raises(FileExistsError):
        FailSafeFile(tmp_path / "sink.h5")


@pytest.mark.parametrize("room", [0, 1, 100, 2048, 5000, 20_000, 60_000, 100_001])
def test_hdf5_reads_what_it_has_written_and_closes(room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FailSafeFile(tmp_path / "sink.h5") as sink:
        monkeypatch.setattr(os, "pwrite", Disk(room).pwrite)
        with h5py.File(sink, "w") as file:
            rows = fill(file)
            np.testing.assert_array_equal(file["grown"], rows)
        with pytest.raises(OSError, match="No space left on device") as caught:
            sink.check()
    assert caught.value.errno == errno.ENOSPC


def test_what_was_not_written_is_read_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FailSafeFile(tmp_path / "sink") as sink:
        monkeypatch.setattr(os, "pwrite", Disk(3).pwrite)
        for place, data in ((0, b"abcdef"), (1, b"X"), (8, b"Y")):
            sink.seek(place)
            assert sink.write(data) == len(data)
        sink.seek(0)
        buffer = bytearray(b"?" * 20)
        assert sink.readinto(buffer) == 9
        assert buffer[:9] == b"aXcdef\0\0Y"
        assert sink.seek(0, os.SEEK_END) == 9
    assert (tmp_path / "sink").read_bytes() == b"abc"


def test_nobody_else_opens_what_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FailSafeFile(tmp_path / "sink.h5") as sink, h5py.File(sink, "w") as file:
        file.flush()
        with pytest.raises(OSError, match="unable to lock file"):
            h5py.File(tmp_path / "sink.h5")
    h5py.File(tmp_path / "sink.h5").close()
    monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
    with FailSafeFile(tmp_path / "free.h5") as free, h5py.File(free, "w"):
        os.close(os.open(tmp_path / "free.h5", os.O_RDONLY))


def test_a_closed_sink_writes_into_no_other_file(tmp_path: Path) -> None:
    """Whose number would be its own."""
    sink = FailSafeFile(tmp_path / "sink.h5")
    sink.close()
    with (tmp_path / "other").open("wb"):
        sink.write(b"late")
    assert (tmp_path / "other").read_bytes() == b""
    with pytest.raises(OSError, match="Bad file descriptor"):
        sink.check()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_write(number: signal.Signals) -> None:
    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def write() -> None:
        with undisturbed():
            for place in range(3):
                signal.raise_signal(number)
                done.append(place)

    done: list[int] = []
    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            write()
        assert done == [0, 1, 2]
        assert signal.getsignal(number) is stop
        with undisturbed():
            done.append(3)
        signal.signal(number, signal.SIG_IGN)  # as in a shell's background
        with undisturbed():
            signal.raise_signal(number)
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_threads_have_no_signals_to_wait_for() -> None:
    done: list[int] = []
    thread = threading.Thread(target=undisturbed()(done.append), args=(1,))
    thread.start()
    thread.join()
    assert done == [1]
