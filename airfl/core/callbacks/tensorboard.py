"""Writes the scalars of every round for TensorBoard during the run.

The event files are written with TensorBoard's own record writer. torch's SummaryWriter would import TensorFlow if that
is installed, which takes seconds and starts threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Self

from airfl.core.callbacks.callback import Callback, Ending, RunInfo, Told
from airfl.core.callbacks.optional import check_package
from airfl.core.callbacks.scalars import Scalars, rounds_of
from airfl.errors import UserError
from airfl.storage.output_files import check_can_be_folder, name_of_label
from airfl.storage.own_files import both_ends, check_no_link, is_file, not_own

FOLDER = "tensorboard"
EVENTS = "events.out.tfevents.{}.airfl"
FIRST_EVENT = "brain.Event:2"
"""Contents of the first record of an event file, by which airfl recognises its own."""
HEAD_BYTES = 64
SECONDS_BETWEEN_FLUSHES = 1.0


class TensorBoard(Callback):
    """Writes each round's finite scalars for TensorBoard. The step is the number of finished rounds.

    folder: folder for the event files; by default `tensorboard` in the run's folder. In a comparison, each run has a
    subfolder named by its label.

    Raises UserError when the run begins if the package is missing or the folder is not empty.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._into: Path | None = None
        self._board: _Board | None = None
        self._scalars = Scalars()

    def on_begin(self, info: RunInfo) -> None:
        """Check the package and the folder. No file is created before the first round."""
        check_package("TensorBoard", "tensorboard", "tensorboard")
        self._into = info.folder / FOLDER if self._folder is None else self._folder
        check_folder(self._into, info.resumed)
        self._scalars = Scalars()

    def on_round(self, record: Told) -> None:
        """Write the scalars."""
        assert self._into is not None
        self._board = self._board or _Board(self._into)
        self._board.write(rounds_of(record), self._scalars.of(record))

    def on_end(self, ending: Ending) -> None:
        """Write what only a last round has, and close the file."""
        if self._board is None:
            return
        try:
            if ending.record is not None:
                self._board.write(rounds_of(ending.record), self._scalars.more(ending.record))
        finally:
            self._board.close()
            self._board = None

    def for_run(self, label: str) -> Self:
        """Return a copy that writes to a subfolder named by the label, if a folder was given."""
        return type(self)(None if self._folder is None else self._folder / name_of_label(label))


def check_live(out: Path, resume: bool = False) -> None:
    """Raise UserError if scalars cannot be written to out/tensorboard.

    This is so if the package is missing or the folder is not empty. resume: its files are of the same runs.
    """
    check_package("--tensorboard", "tensorboard", "tensorboard")
    check_folder(out / FOLDER, resume)


def check_folder(folder: Path, resume: bool = False) -> None:
    """Raise UserError if event files cannot be written there: it is not empty, or contains files of other programs."""
    check_no_link(folder)
    check_can_be_folder(folder)
    for path in folder.rglob("*") if resume and folder.is_dir() else ():
        check_no_link(path)
        if fnmatch(path.name, EVENTS.format("*")) and not _is_own(path):
            raise not_own(path)
    if not resume and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"{folder}: is not an empty folder, and TensorBoard would draw two runs as one; choose another --out"
        )


def _is_own(path: Path) -> bool:
    """Whether a file is an event file of airfl, or empty because its process was killed."""
    if not is_file(path):
        return False
    content = both_ends(path)
    return not content or FIRST_EVENT.encode() in content[:HEAD_BYTES]


class _Board:
    """An open event file."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(EVENTS.format("*")):
            if _is_own(old):
                old.unlink()  # a resumed run writes all its rounds again
        now = time.time()
        self._file = open(folder / EVENTS.format(f"{now:.0f}"), "xb")  # noqa: SIM115  closed by `close`
        self._records, self._event = RecordWriter(self._file), Event
        self._records.write(Event(wall_time=now, file_version=FIRST_EVENT).SerializeToString())
        self._flushed = -math.inf

    def write(self, done: int, scalars: Mapping[str, float]) -> None:
        """Write the scalars after `done` rounds."""
        event: Any = self._event(wall_time=time.time(), step=done)
        for tag, value in scalars.items():
            event.summary.value.add(tag=tag, simple_value=value)
        self._records.write(event.SerializeToString())
        if time.monotonic() - self._flushed > SECONDS_BETWEEN_FLUSHES:
            self._records.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
