"""Runs points on this machine, in processes that run one point after another."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from airfl.errors import UserError
from airfl.study.sweeps.gpus import Processes, use_of
from airfl.study.sweeps.job import Again, GpuUse, Job, Outcome, cause_of, packed_job, unpacked_job, unpacked_task
from airfl.study.sweeps.place import DEFAULT

SECONDS_TO_END = 10
UNGUARDED = 86
"""Exit code of a process that called a sweep itself while importing the calling script."""
MEND = (
    'put the code of the script under `if __name__ == "__main__":`, because every process of a sweep imports the '
    "script that calls it"
)


def check_guard() -> None:
    """End this process if it is still importing the script that started it.

    The script then has no main guard, and would start processes without end. The parent process reports it.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(UNGUARDED)


def run_jobs(
    jobs: Iterable[Job],
    running: Path,
    processes: int | Processes,
    task: bytes | None = None,
    retries: int = DEFAULT.retries,
) -> Generator[Outcome, None, None]:
    """Run every job in running/NAME, and yield outcomes as they arrive.

    A process that dies is replaced by another one, and its point goes on from its checkpoint.

    Raises UserError if the calling script has no main guard.

    Args:
        jobs: The points, each of which is asked for when a process is free to run it.
        running: The folder for points in progress.
        processes: The processes, or only their number, for points that say themselves on which device they run.
        task: A serialised user-defined task.
        retries: How often a point whose process has died is run again.
    """
    coming, again, deaths = iter(jobs), deque[Job](), Counter[str]()
    several = processes if isinstance(processes, int) else processes.first
    spread = processes if isinstance(processes, Processes) and len(processes.devices) > 1 else None
    workers: list[_Worker] = []

    def following() -> Job | None:
        job = next(coming, None)
        return again.popleft() if job is None and again else job

    def start_workers() -> None:
        while len(workers) < several and (job := following()):
            workers.append(_Worker.start(running, task, spread.device(len(workers)) if spread else None))
            workers[-1].give(job)

    try:
        start_workers()
        while busy := [index for index, worker in enumerate(workers) if worker.job]:
            wait([thing for index in busy for thing in (workers[index].pipe, workers[index].process.sentinel)])
            for index in busy:
                if not workers[index].ready():
                    continue
                job = workers[index].job
                outcome = workers[index].outcome()
                deaths[outcome.name] += outcome.again is Again.DIED
                goes_on = outcome.again is not None and deaths[outcome.name] <= retries
                if job and goes_on:
                    again.append(job)
                if following_job := following():
                    if not workers[index].process.is_alive():
                        workers[index].stop()
                        workers[index] = _Worker.start(running, task, workers[index].device)
                    workers[index].give(following_job)
                if outcome.use and isinstance(processes, Processes) and several == processes.first:
                    several = processes.fitting(outcome.use)
                    start_workers()
                if not goes_on:
                    yield replace(outcome, retried=min(deaths[outcome.name], retries))
    finally:
        for worker in workers:
            worker.stop()


def check_began(code: int | None) -> None:
    """Raise UserError if importing the calling script ended a process with this exit code."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if code == UNGUARDED:
        raise UserError(f"{script}: calls a sweep without a main guard; {MEND}")
    if script and not Path(script).is_file():
        raise UserError(
            f"{script}: not a file, so the processes of a sweep cannot import it; save the script to a file"
        )
    if code is not None and code > 0 and script:
        raise UserError(f"{script}: importing it ended a process of the sweep (exit code {code}); {MEND}")


@dataclass
class _Worker:
    """A process and its current job. device: on which it runs every job, None for the device that a job names."""

    process: BaseProcess
    pipe: Connection
    device: str | None = None
    job: Job | None = None
    given: float = 0.0
    begun: bool = False
    """Whether it has imported the calling script, which each process does first."""

    @classmethod
    def start(cls, running: Path, task: bytes | None, device: str | None = None) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, running, task), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours, device)

    def give(self, job: Job) -> None:
        job = replace(job, device=self.device or job.device)
        self.job, self.given = job, time.monotonic()
        # If the process has died meanwhile, `outcome` reports it.
        try:
            self.pipe.send_bytes(packed_job(job))
        except OSError:
            self.process.join()

    def ready(self) -> bool:
        """Whether there is an outcome, or the process has died."""
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
                cause: str | None
                use: GpuUse | None
                cause, use = self.pipe.recv()
                return Outcome(name, cause, seconds=seconds, use=use)
        except (EOFError, OSError):
            pass
        self.process.join()
        if not self.begun:
            check_began(self.process.exitcode)
        cause = f"its process died ({_ending(self.process.exitcode)}); was there enough memory?"
        return Outcome(name, cause, again=Again.DIED)

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
    """End this process when its parent is killed, so that it does not write into a folder that another sweep uses."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _serve(pipe: Any, running: Path, task: bytes | None) -> None:
    """Run points until the other end of the pipe is closed. Ctrl-C is left to the parent, which stops this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent's handling may be inherited
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    from airfl.study.sweeps.attempt import attempt

    pipe.send(True)
    while True:
        try:
            sent = pipe.recv_bytes()
        except EOFError:
            return
        cause = use = None
        try:
            job = unpacked_job(sent)
            attempt(job, running / job.name / job.attempt, unpacked_task(task) if task else None)
            use = use_of(job.device)
        except Exception as error:
            cause = cause_of(error)
        pipe.send((cause, use))
