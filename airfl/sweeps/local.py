"""Points on this machine: processes that stay warm, one point at a time each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from airfl.errors import UserError
from airfl.sweeps.task import Job, Outcome, cause_of, packed_job, unpacked_job, unpacked_task

SECONDS_TO_END = 10
UNGUARDED = 86
"""Exit code of a process that came upon the call it was started by."""
MEND = (
    'put what the script does under `if __name__ == "__main__":`, since every process of a sweep imports the script '
    "that calls it"
)


def check_guard() -> None:
    """Ends a process that is still importing the script which started it: the script has no main guard, and would start
    processes without end. The one that started it says so."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(UNGUARDED)


def run_jobs(
    jobs: Sequence[Job], running: Path, processes: int, task: bytes | None = None
) -> Generator[Outcome, None, None]:
    """Run every job into running/NAME, so many at a time; outcomes as they come. task: of the user's own, packed.

    A process that dies takes the point it was at with it and no other: another takes its place. UserError where the
    calling script has no main guard.
    """
    waiting = deque(jobs)
    workers = [_Worker.start(running, task) for _ in range(min(processes, len(jobs)))]
    try:
        for worker in workers:
            worker.give(waiting.popleft())
        while busy := [place for place, worker in enumerate(workers) if worker.job]:
            wait([thing for place in busy for thing in (workers[place].pipe, workers[place].process.sentinel)])
            for place in busy:
                if not workers[place].ready():
                    continue
                outcome = workers[place].outcome()
                if waiting:
                    if not workers[place].process.is_alive():
                        workers[place].stop()
                        workers[place] = _Worker.start(running, task)
                    workers[place].give(waiting.popleft())
                yield outcome
    finally:
        for worker in workers:
            worker.stop()


def check_began(code: int | None) -> None:
    """UserError where the calling script ended, with this code, a process that imported it."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if code == UNGUARDED:
        raise UserError(f"{script}: calls a sweep without a main guard; {MEND}")
    if script and not Path(script).is_file():
        raise UserError(f"{script}: no file that the processes of a sweep could import; write the script to one")
    if code is not None and code > 0 and script:
        raise UserError(f"{script}: ended a process of the sweep when it was imported there (exit code {code}); {MEND}")


@dataclass
class _Worker:
    """A process and what it is at."""

    process: BaseProcess
    pipe: Connection
    job: Job | None = None
    given: float = 0.0
    begun: bool = False
    """Whether it has imported the calling script, which each process does first."""

    @classmethod
    def start(cls, running: Path, task: bytes | None) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, running, task), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, job: Job) -> None:
        self.job, self.given = job, time.monotonic()
        # A process that has died meanwhile is found by its silence.
        try:
            self.pipe.send_bytes(packed_job(job))
        except OSError:
            self.process.join()

    def ready(self) -> bool:
        """Whether there is an outcome, or nothing to wait for any more."""
        with suppress(EOFError, OSError):
            if not self.begun and self.pipe.poll():
                self.begun = bool(self.pipe.recv())
        return self.pipe.poll() or not self.process.is_alive()

    def outcome(self) -> Outcome:
        assert self.job is not None
        name, self.job = self.job.name, None
        seconds = time.monotonic() - self.given
        try:
            if self.pipe.poll():
                cause: str | None = self.pipe.recv()
                return Outcome(name, cause, seconds=seconds)
        except (EOFError, OSError):
            pass
        self.process.join()
        if not self.begun:
            check_began(self.process.exitcode)
        return Outcome(name, f"its process died ({_ending(self.process.exitcode)}); was there enough memory?")

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(SECONDS_TO_END)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _end_with_the_parent() -> None:
    """A parent that was killed stops nobody: nothing may go on writing into a folder that another sweep takes over."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _serve(pipe: Any, running: Path, task: bytes | None) -> None:
    """Runs points until the other end of the pipe is closed. Ctrl-C is for the parent, which stops this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # however whoever started this takes it
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    from airfl.sweeps.attempt import attempt

    pipe.send(True)
    while True:
        try:
            sent = pipe.recv_bytes()
        except EOFError:
            return
        cause = None
        try:
            job = unpacked_job(sent)
            attempt(job, running / job.name, unpacked_task(task) if task else None)
        except Exception as error:
            cause = cause_of(error)
        pipe.send(cause)
