"""Checkpointing of a run in progress: every record is stored, and the state from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from airfl.core.checkpoint.folder import Saved, tidy, write_fingerprint, write_state
from airfl.core.checkpoint.records import RECORDS_NAME, Records, read_records
from airfl.core.record import Record
from airfl.storage.output_files import CHECKPOINT_NAME

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Cadence:
    """When a state is saved.

    Attributes:
        seconds: Upper limit in s of the work that can be lost; 0 for no limit.
        rounds: Number of rounds between saved states; 0 not to save by rounds.
    """

    seconds: float
    rounds: int

    @property
    def never(self) -> bool:
        """Whether no state is ever saved."""
        return not (self.seconds or self.rounds)


class CheckpointWriter:
    """Store records and states of a run in the folder `out`, which no other process may write to.

    Call `append` after every round, then `save_if_due`.
    """

    def __init__(self, out: Path, saved: Saved, cadence: Cadence) -> None:
        """Continue from the state `saved`; records of later rounds are discarded."""
        self._out, self._fingerprint, self._cadence = out, saved.fingerprint, cadence
        self._rounds = self._saved_rounds = saved.rounds
        tidy(out, saved)
        write_fingerprint(out, saved.fingerprint)
        self._records = None if cadence.never else Records(out / CHECKPOINT_NAME / RECORDS_NAME, saved.length)
        self._saved_at = self._last = time.monotonic()

    @property
    def keeps(self) -> bool:
        """Whether the run can be resumed."""
        return self._records is not None

    def append(self, record: Record) -> None:
        """Store the record of a finished round, as it appears in the trace."""
        self._rounds += 1
        if self._records:
            self._records.append(record)

    def save_if_due(self, arrays: Callable[[], Arrays]) -> None:
        """Save the state, which arrays() returns, if it would be overdue after one more round as long as the last."""
        if self.is_due():
            self.save(arrays)

    def is_due(self, unstored: int = 0) -> bool:
        """Whether the state would be overdue after one more round as long as the last; to be asked once a round.

        unstored: number of finished rounds whose records are still to be appended.
        """
        now = time.monotonic()
        another, self._last = now - self._last, now
        seconds, rounds = self._cadence.seconds, self._cadence.rounds
        by_time = bool(seconds) and now - self._saved_at + another >= seconds
        return by_time or (bool(rounds) and self._rounds + unstored - self._saved_rounds >= rounds)

    def save(self, arrays: Callable[[], Arrays]) -> None:
        """Save the state now. It is on disk when this returns."""
        if self._records is None or self._rounds == self._saved_rounds:
            return
        self._records.sync()
        write_state(self._out, Saved(self._fingerprint, self._rounds, arrays(), self._records.length))
        self._saved_rounds, self._saved_at = self._rounds, time.monotonic()

    def close(self) -> None:
        """Close the file of the records."""
        if self._records:
            self._records.close()


def stored_records(out: Path, saved: Saved) -> Iterator[Arrays]:
    """Return the records of the rounds that a saved run has completed."""
    return read_records(out / CHECKPOINT_NAME / RECORDS_NAME, saved.length)


@contextmanager
def checkpointing(out: Path, saved: Saved, cadence: Cadence) -> Iterator[CheckpointWriter]:
    """Yield a writer of checkpoints, which is closed at the end of the block."""
    checkpoint_writer = CheckpointWriter(out, saved, cadence)
    try:
        yield checkpoint_writer
    finally:
        checkpoint_writer.close()
