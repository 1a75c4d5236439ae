"""What a run writes while it goes on: its trace, and what lets it be resumed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from airfl.checkpoint import LOCK_NAME, Cadence, DamagedError, Keeper, Saved, discard, keeping, kept_records
from airfl.checkpoint.state import to_arrays
from airfl.config import Settings
from airfl.errors import MachineError, RunInterruptedError, UserError
from airfl.lock import locked
from airfl.output import CHECKPOINT_NAME, TRACE_NAME, check_no_run
from airfl.record import KeptRecord, Record
from airfl.round import State, World, account_again
from airfl.run_trace import open_writer
from airfl.synced import sync_path
from airfl.trace import TraceWriter

Progress = Callable[[int, int, Record], None]
"""Told after every round: rounds done, rounds of the run, the round's record (a `KeptRecord` of rounds done before)."""
SECONDS_BETWEEN_LOOKS = 1.0


@contextmanager
def written_alone(folder: Path, resume: bool) -> Iterator[None]:
    """Only one process writes a run; UserError while another does, or has done since this one looked."""
    place = folder / CHECKPOINT_NAME
    with locked(
        place / LOCK_NAME, f"{folder}: another process is writing its run; wait for it, or choose another --out"
    ):
        try:
            if not resume and any(file.name != LOCK_NAME for file in place.iterdir()):
                check_no_run(folder)
            if not resume and (folder / TRACE_NAME).exists():
                raise UserError(f"{folder}: holds a run already ({TRACE_NAME}); choose another --out")
            yield
        finally:
            # Nothing was begun, or everything is done.
            if place.is_dir() and [file.name for file in place.iterdir()] == [LOCK_NAME]:
                discard(folder)


class RunFiles:
    """Trace and checkpoint of a run that goes on."""

    def __init__(self, folder: Path, trace: TraceWriter, keeper: Keeper, rounds: int) -> None:
        self._folder, self._trace, self._keeper, self._rounds = folder, trace, keeper, rounds
        self._looked = time.monotonic()

    def append(self, record: Record, state: State) -> None:
        """A finished round, and the state after it, which is saved if it is time."""
        kept = self._trace.kept(record)
        with writing(self._folder):
            self._look()
            self._keeper.append(kept)
            self._trace.append(kept)
            if state.round_index < self._rounds:
                self._keeper.save_if_due(lambda: to_arrays(state))

    def interrupt(self, state: State) -> NoReturn:
        """Save the run as it stands, and say so: RunInterruptedError."""
        with writing(self._folder):
            self._keeper.save(lambda: to_arrays(state))
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
    run = world.cell.settings.run
    target, beside = folder / TRACE_NAME, folder / f".{TRACE_NAME}.resumed"
    beside.unlink(missing_ok=True)
    path = beside if target.exists() else target
    with writing(folder), keeping(folder, saved, Cadence(run.checkpoint_s, run.checkpoint_every)) as keeper:
        trace = open_writer(path, world, resolved, saved.about.created_utc)
        try:
            for rounds, record in enumerate(kept_records(folder, saved), 1):
                trace.append(record)
                account_again(world, record, rounds)
                if progress:
                    progress(rounds, run.rounds, KeptRecord(record))
            trace.move_to(target)
            yield RunFiles(folder, trace, keeper, run.rounds)
        except (KeyboardInterrupt, RunInterruptedError):
            trace.close("running")
            raise
        except UserError as error:
            trace.close("failed", str(error))
            discard(folder)
            raise
        except (MachineError, DamagedError):
            trace.abandon()
            raise
        except BaseException as error:
            trace.close("failed", f"{type(error).__name__}: {error}".splitlines()[0])
            raise
        trace.close("complete")
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
