"""What a run writes while it goes on: its trace, and what lets it be resumed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from airfl.checkpoint import (
    LOCK_NAME,
    Cadence,
    DamagedError,
    Keeper,
    Saved,
    check_own,
    discard,
    has_begun,
    keeping,
    kept_records,
)
from airfl.checkpoint.state import to_arrays
from airfl.config import Settings
from airfl.errors import CallbackError, MachineError, RunInterruptedError, UserError
from airfl.lock import locked
from airfl.output import CHECKPOINT_NAME, OF_A_SWEEP, OF_ROWS, TRACE_NAME, check_no_run, check_nothing_of
from airfl.output import LOCK_NAME as LOCK_OF_A_SWEEP
from airfl.own import check_no_link, check_own_file, is_begun_hdf5, not_own
from airfl.record import KeptRecord, Record
from airfl.round import State, World, account_again
from airfl.run_trace import open_writer
from airfl.synced import sync_path
from airfl.trace import TraceWriter
from airfl.trace.schema import SCHEMA

Progress = Callable[[int, int, Record], None]
"""Told after every round: rounds done, rounds of the run, the round's record (a `KeptRecord` of rounds done before)."""
SECONDS_BETWEEN_LOOKS = 1.0
BEING_MADE = f".{TRACE_NAME}.resumed"
"""The trace until it says what it is; it then takes the place of the one before."""


@contextmanager
def written_alone(folder: Path, resume: bool) -> Iterator[None]:
    """Only one process writes a run; UserError while another does, or has done since this one looked."""
    place = folder / CHECKPOINT_NAME
    check_nothing_of(folder, (*OF_A_SWEEP, *OF_ROWS, LOCK_OF_A_SWEEP))
    check_own(folder)
    with locked(
        place / LOCK_NAME, f"{folder}: another process is writing its run; wait for it, or choose another --out"
    ):
        try:
            # Looked at once more: whoever makes another use of the folder looks for this lock after it has its own.
            check_nothing_of(folder, (*OF_A_SWEEP, *OF_ROWS, LOCK_OF_A_SWEEP))
            check_own(folder)
            check_own_trace(folder)
            if not resume and any(file.name != LOCK_NAME for file in place.iterdir()):
                check_no_run(folder)
            if not resume and (folder / TRACE_NAME).exists():
                raise UserError(f"{folder}: holds a run already ({TRACE_NAME}); choose another --out")
            yield
        finally:
            # Nothing was begun, or everything is done.
            if place.is_dir() and [file.name for file in place.iterdir()] == [LOCK_NAME]:
                discard(folder)


def check_own_trace(folder: Path) -> None:
    """UserError unless the trace of a run that is gone on with, which is made anew, is one or is not there yet."""
    target, beside = folder / TRACE_NAME, folder / BEING_MADE
    check_no_link(target)
    check_no_link(beside)
    begun = has_begun(folder)
    if begun and not (is_begun_hdf5(target) and target.stat().st_size == 0):
        check_own_file(target, (SCHEMA.partition("/")[0].encode(),))
    if os.path.lexists(beside) and not (begun and is_begun_hdf5(beside)):
        raise not_own(beside)


class RunFiles:
    """Trace and checkpoint of a run that goes on."""

    def __init__(self, folder: Path, trace: TraceWriter, keeper: Keeper, rounds: int) -> None:
        self._folder, self._trace, self._keeper, self._rounds = folder, trace, keeper, rounds
        self._looked = time.monotonic()
        self.stopped_early: str | None = None

    def append(self, record: Record, state: State) -> None:
        """A finished round, and the state after it, which is saved if it is time."""
        kept = self._trace.kept(record)
        with writing(self._folder):
            self._look()
            self._keeper.append(kept)
            self._trace.append(kept)
            if state.round_index < self._rounds:
                self._keeper.save_if_due(lambda: to_arrays(state))

    def end_early(self, last: Record, why: str) -> None:
        """The run ends with the round that was appended last, which has more figures as its last one."""
        with writing(self._folder):
            self._trace.amend(last)
        self.stopped_early = why

    def save(self, state: State) -> None:
        """Save the run as it stands, after the round that was appended last."""
        with writing(self._folder):
            self._keeper.save(lambda: to_arrays(state))

    def interrupt(self, state: State) -> NoReturn:
        """Save the run as it stands, and say so: RunInterruptedError."""
        self.save(state)
        done = f"{self._folder}: interrupted after round {state.round_index} of {self._rounds}"
        if self._keeper.keeps:
            raise RunInterruptedError(f"{done}, saved; the same command with --resume goes on from there")
        raise RunInterruptedError(f"{done}, not saved: run.checkpoint_s and run.checkpoint_every are 0")

    def _look(self) -> None:
        """MachineError where the folder has gone: what is written into it now is lost."""
        now = time.monotonic()
        if now - self._looked > SECONDS_BETWEEN_LOOKS:
            self._looked = now
            check_there(self._folder)


@contextmanager
def written(
    folder: Path, world: World, resolved: Settings, saved: Saved, progress: Progress | None
) -> Iterator[RunFiles]:
    """The files of the run for the time of the block, which runs the rounds; its end is said in the trace.

    saved: the rounds that are done already; their records go into the trace anew, into the ledger, and to `progress`.
    """
    run = world.cell.run
    target, beside = folder / TRACE_NAME, folder / BEING_MADE
    with writing(folder), keeping(folder, saved, Cadence(run.checkpoint_s, run.checkpoint_every)) as keeper:
        beside.unlink(missing_ok=True)
        trace = open_writer(beside, world, resolved, saved.about.created_utc)
        try:
            for rounds, record in enumerate(kept_records(folder, saved), 1):
                trace.append(record)
                account_again(world, record, rounds)
                if progress:
                    progress(rounds, run.rounds, KeptRecord(record))
            trace.move_to(target)
            files = RunFiles(folder, trace, keeper, run.rounds)
            yield files
        except (KeyboardInterrupt, RunInterruptedError):
            trace.close("running")
            raise
        except CallbackError as error:  # which is no fault of the run: it can be gone on with
            trace.close("failed", str(error))
            raise
        except UserError as error:
            trace.close("failed", str(error))
            beside.unlink(missing_ok=True)
            discard(folder)
            raise
        except (MachineError, DamagedError):
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
    """What the file system refuses becomes a MachineError."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
        raise MachineError(
            f"{folder}: cannot be written to ({reason}); mend that, then go on with the same command and --resume"
        ) from error


def check_there(folder: Path) -> None:
    """MachineError where the trace has gone."""
    if not (folder / TRACE_NAME).exists():
        raise MachineError(f"{folder}: was removed, or moved, while its run went on; it has to be run again")
