"""The files that a run writes while it proceeds: its trace and its checkpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from airfl.config import Settings
from airfl.core.checkpoint import (
    LOCK_NAME,
    Cadence,
    CheckpointWriter,
    DamagedCheckpointError,
    Saved,
    check_own,
    checkpointing,
    discard,
    has_begun,
    stored_records,
)
from airfl.core.checkpoint.state import to_arrays
from airfl.core.record import KeptRecord, OpenRecord, Record
from airfl.core.round import account_again
from airfl.core.run_trace import open_writer
from airfl.core.state import State, World
from airfl.errors import CallbackError, MachineError, RunInterruptedError, UserError
from airfl.storage.atomic_io import sync_path
from airfl.storage.lock import locked
from airfl.storage.output_files import (
    CHECKPOINT_NAME,
    OF_A_SWEEP,
    OF_ROWS,
    SHARDS_NAME,
    TRACE_NAME,
    check_no_run,
    check_nothing_of,
)
from airfl.storage.output_files import LOCK_NAME as LOCK_OF_A_SWEEP
from airfl.storage.own_files import check_no_link, check_own_file, is_begun_hdf5, not_own
from airfl.storage.trace import TraceWriter
from airfl.storage.trace.schema import SCHEMA

Progress = Callable[[int, int, Record], None]
"""Called after every round: finished rounds, rounds of the run, the round's record (a `KeptRecord` for rounds that an
earlier process has finished)."""
SECONDS_BETWEEN_LOOKS = 1.0
OF_OTHERS = (*OF_A_SWEEP, *OF_ROWS, LOCK_OF_A_SWEEP, SHARDS_NAME)
BEING_MADE = f".{TRACE_NAME}.resumed"
"""Name of the trace until the finished rounds are in it again; it then replaces the earlier one."""


@contextmanager
def written_alone(folder: Path, resume: bool) -> Iterator[None]:
    """Lock the run for this process during the block; UserError if another process writes it or has just written it."""
    checkpoint = folder / CHECKPOINT_NAME
    check_nothing_of(folder, OF_OTHERS)
    check_own(folder)
    with locked(
        checkpoint / LOCK_NAME, f"{folder}: another process is writing its run; wait for it, or choose another --out"
    ):
        try:
            # Checked again under the lock: a process that uses the folder for a sweep or comparison checks for this
            # lock after it has taken its own.
            check_nothing_of(folder, OF_OTHERS)
            check_own(folder)
            check_own_trace(folder)
            if not resume and any(file.name != LOCK_NAME for file in checkpoint.iterdir()):
                check_no_run(folder)
            if not resume and (folder / TRACE_NAME).exists():
                raise UserError(f"{folder}: already contains a run ({TRACE_NAME}); choose another --out")
            yield
        finally:
            # The run has not begun, or it is complete.
            if checkpoint.is_dir() and [file.name for file in checkpoint.iterdir()] == [LOCK_NAME]:
                discard(folder)


def check_own_trace(folder: Path) -> None:
    """Raise UserError if the rebuilt trace of a resumed run would replace a file that airfl did not write."""
    target, beside = folder / TRACE_NAME, folder / BEING_MADE
    check_no_link(target)
    check_no_link(beside)
    begun = has_begun(folder)
    if begun and not (is_begun_hdf5(target) and target.stat().st_size == 0):
        check_own_file(target, (SCHEMA.partition("/")[0].encode(),))
    if os.path.lexists(beside) and not (begun and is_begun_hdf5(beside)):
        raise not_own(beside)


class RunFiles:
    """The trace and checkpoint of a run in progress."""

    def __init__(
        self,
        folder: Path,
        trace: TraceWriter,
        checkpoint_writer: CheckpointWriter,
        rounds: int,
        progress: Progress | None = None,
    ) -> None:
        self._folder, self._trace, self._keeper, self._rounds = folder, trace, checkpoint_writer, rounds
        self._progress = progress
        self._checked = time.monotonic()
        self.stopped_early: str | None = None

    def is_due(self, state: State) -> bool:
        """Whether the state after the latest round is to be saved; asked once a round, before its record is there."""
        return self._keeper.is_due(unstored=1) and state.round_index < self._rounds

    def finish(self, opened: OpenRecord, save: State | None = None) -> Record:
        """Complete the record of a round, append it and show the progress; the earlier rounds were finished before.

        save: The state after the round, if it is to be saved. Later rounds change what devices keep, so that it cannot
            be saved once one has begun.
        """
        record = opened.close()
        values = self._trace.stored_values(record)
        with writing(self._folder):
            self._check_folder()
            self._keeper.append(values)
            self._trace.append(values)
        if save is not None:
            self.save(save)
        if self._progress:
            self._progress(opened.round_index + 1, self._rounds, record)
        return record

    def end_early(self, last: Record, why: str) -> None:
        """End the run with the round appended last, whose record is replaced by that of a last round."""
        with writing(self._folder):
            self._trace.amend(last)
        self.stopped_early = why

    def save(self, state: State) -> None:
        """Save the state after the round appended last."""
        with writing(self._folder):
            self._keeper.save(lambda: to_arrays(state))

    def interrupt(self, state: State) -> NoReturn:
        """Save the state and raise RunInterruptedError, which says so."""
        self.save(state)
        done = f"{self._folder}: interrupted after round {state.round_index} of {self._rounds}"
        if self._keeper.keeps:
            raise RunInterruptedError(f"{done}, saved; resume it with the same command and --resume")
        raise RunInterruptedError(f"{done}, not saved: run.checkpoint_s and run.checkpoint_every are 0")

    def _check_folder(self) -> None:
        """Raise MachineError if the folder has been removed, as anything written now would be lost."""
        now = time.monotonic()
        if now - self._checked > SECONDS_BETWEEN_LOOKS:
            self._checked = now
            check_there(self._folder)


@contextmanager
def written(
    folder: Path, world: World, resolved: Settings, saved: Saved, progress: Progress | None
) -> Iterator[RunFiles]:
    """Open the files of a run for the block, which runs the rounds, and record in the trace how the run ended.

    Args:
        folder: The folder of the run.
        world: The run's fixed objects.
        resolved: The resolved settings.
        saved: The rounds that are already finished. Their records are written to the new trace, added to the privacy
            ledger, and passed to `progress`.
        progress: Called after every round.
    """
    run = world.scenario.run
    target, beside = folder / TRACE_NAME, folder / BEING_MADE
    with (
        writing(folder),
        checkpointing(folder, saved, Cadence(run.checkpoint_s, run.checkpoint_every)) as checkpoint_writer,
    ):
        beside.unlink(missing_ok=True)
        trace = open_writer(beside, world, resolved, saved.fingerprint.created_utc)
        try:
            for rounds, record in enumerate(stored_records(folder, saved), 1):
                trace.append(record)
                account_again(world, record, rounds)
                if progress:
                    progress(rounds, run.rounds, KeptRecord(record))
            trace.move_to(target)
            files = RunFiles(folder, trace, checkpoint_writer, run.rounds, progress)
            yield files
        except (KeyboardInterrupt, RunInterruptedError):
            trace.close("running")
            raise
        except CallbackError as error:  # not a fault of the run, which can be resumed
            trace.close("failed", str(error))
            raise
        except UserError as error:
            trace.close("failed", str(error))
            beside.unlink(missing_ok=True)
            discard(folder)
            raise
        except (MachineError, DamagedCheckpointError):
            trace.abandon()
            raise
        except BaseException as error:
            trace.close("failed", f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        trace.close("complete", stopped_early=files.stopped_early)
        check_there(folder)
        sync_path(target)
        sync_path(folder)
    discard(folder)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn OSErrors in the block into MachineErrors."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
        raise MachineError(
            f"{folder}: cannot be written to ({reason}); fix this, then resume with the same command and --resume"
        ) from error


def check_there(folder: Path) -> None:
    """Raise MachineError if the trace has been removed."""
    if not (folder / TRACE_NAME).exists():
        raise MachineError(f"{folder}: was removed or moved while the run was in progress; run it again")
