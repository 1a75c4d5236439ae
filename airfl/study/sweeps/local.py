"""Runs points on this machine, in processes that run one point after another."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.errors import UserError
from airfl.study.sweeps.feed import Feed, Reported, Unwanted, UnwantedError, figure_of
from airfl.study.sweeps.gpus import Processes, use_of
from airfl.study.sweeps.job import (
    Again,
    GpuUse,
    Job,
    Outcome,
    cause_of,
    how_it_died,
    packed_job,
    unpacked_job,
    unpacked_task,
)
from airfl.study.sweeps.place import DEFAULT

if TYPE_CHECKING:
    from airfl.core.run_files import Progress

SECONDS_TO_END = 10
SECONDS_BETWEEN_LOOKS = 0.5
"""Time between two looks at what a feed has to give out, while nothing else happens."""
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
    feed: Feed | None = None,
) -> Generator[Outcome, None, None]:
    """Run every job in running/NAME or running/NAME/ATTEMPT, and yield outcomes as they arrive.

    A process that dies is replaced by another one, and its point goes on from its checkpoint.

    Raises UserError if the calling script has no main guard.

    Args:
        jobs: The points, each of which is asked for when a process is free to run it.
        running: The folder for points in progress.
        processes: The processes, or only their number, for points that say themselves on which device they run.
        task: A serialised user-defined task.
        retries: How often a point whose process has died is run again.
        feed: Gives out further points while these run.
    """
    coming, waiting, deaths = iter(jobs), deque[Job](), Counter[str]()
    several = processes if isinstance(processes, int) else processes.first
    spread = processes if isinstance(processes, Processes) and len(processes.devices) > 1 else None
    workers: list[_Worker] = []

    def following() -> Job | None:
        job = next(coming, None)
        return waiting.popleft() if job is None and waiting else job

    def give_out() -> None:
        """Give jobs to free processes, and to new ones, while there are any."""
        for index, worker in enumerate(workers):
            if not worker.job and (job := following()):
                if not worker.process.is_alive():
                    worker.stop()
                    workers[index] = _Worker.start(running, task, worker.device)
                workers[index].give(job)
        while len(workers) < several and (job := following()):
            workers.append(_Worker.start(running, task, spread.device(len(workers)) if spread else None))
            workers[-1].give(job)

    try:
        while True:
            if feed is not None:
                # What waits here is to be run again, and takes the place of a further point.
                waiting.extend(feed.more(several - len(waiting)))
                unwanted = feed.unwanted()
                for worker in workers:
                    if worker.job and worker.job.name in unwanted:
                        worker.stop_point()
            give_out()
            busy = [index for index, worker in enumerate(workers) if worker.job]
            if not busy:
                if feed is None or feed.over:
                    break
                time.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            things = [thing for index in busy for thing in (workers[index].pipe, workers[index].process.sentinel)]
            if feed is None:
                wait(things)
            else:
                wait(things, SECONDS_BETWEEN_LOOKS)
            for index in busy:
                ready = workers[index].ready()
                if feed is not None:
                    for told in workers[index].reports():
                        feed.reported(told.name, {told.rounds: told.value})
                if not ready:
                    continue
                job = workers[index].job
                outcome = workers[index].outcome()
                if outcome.again and feed is not None and outcome.name in feed.unwanted():
                    outcome = Outcome(outcome.name, unwanted=True)
                deaths[outcome.name] += outcome.again is Again.DIED
                goes_on = outcome.again is not None and deaths[outcome.name] <= retries
                if job and goes_on:
                    waiting.append(job)
                if outcome.use and isinstance(processes, Processes) and several == processes.first:
                    several = processes.fitting(outcome.use)
                give_out()
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
    answer: tuple[str | None, GpuUse | None, bool] | None = None
    """How its job has ended: the error, what it has taken of a GPU, and whether it was stopped as unwanted."""
    stopped: bool = False
    """Whether it was told that its job is no longer wanted."""
    told: list[Reported] = field(default_factory=list)

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
        self.job, self.given, self.stopped = job, time.monotonic(), False
        # If the process has died meanwhile, `outcome` reports it.
        try:
            self.pipe.send_bytes(packed_job(job))
        except OSError:
            self.process.join()

    def stop_point(self) -> None:
        """Tell the process that its job is no longer wanted."""
        if self.job is None or self.stopped:
            return
        self.stopped = True
        with suppress(OSError):  # it has died, which `outcome` reports
            self.pipe.send_bytes(pickle.dumps(((), Unwanted(self.job.name))))

    def ready(self) -> bool:
        """Whether there is an outcome, or the process has died."""
        self._receive()
        return self.answer is not None or not self.process.is_alive()

    def reports(self) -> list[Reported]:
        """Return what the job has reported since the last call."""
        told, self.told = self.told, []
        return told

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while self.answer is None and self.pipe.poll():
                told = self.pipe.recv()
                if isinstance(told, Reported):
                    self.told.append(told)
                elif told is True:
                    self.begun = True
                else:
                    self.answer = told

    def outcome(self) -> Outcome:
        assert self.job is not None
        name, self.job = self.job.name, None
        seconds = time.monotonic() - self.given
        self._receive()  # it may have sent something just before it died
        if self.answer is not None:
            (cause, use, unwanted), self.answer = self.answer, None
            return Outcome(name, cause, seconds=seconds, use=use, unwanted=unwanted)
        self.process.join()
        if not self.begun:
            check_began(self.process.exitcode)
        cause = how_it_died(self.process.exitcode)
        return Outcome(name, cause, again=Again.DIED)

    def stop(self) -> None:
        self.process.terminate()
        self.process.join(SECONDS_TO_END)
        self.process.kill()
        self.process.join()
        self.pipe.close()


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
    from airfl.core.run_folder import remove_run
    from airfl.study.sweeps.attempt import attempt

    pipe.send(True)
    while True:
        try:
            sent = pipe.recv_bytes()
        except EOFError:
            return
        cause, use, unwanted = None, None, False
        try:
            job = unpacked_job(sent)
            if isinstance(job, Unwanted):  # its point had ended meanwhile
                continue
            told = _telling(pipe, job) if job.reports else None
            folder = running / job.name / job.attempt
            attempt(job, folder, unpacked_task(task) if task else None, after_a_round=told)
            use = use_of(job.device)
        except UnwantedError:
            unwanted = True
            with suppress(OSError, UserError):
                remove_run(folder)
        except Exception as error:
            cause = cause_of(error)
        pipe.send((cause, use, unwanted))


def _telling(pipe: Any, job: Job) -> Progress:
    """Return a function that reports the figure of a job after evaluations, and ends it when it is unwanted."""

    def after_a_round(finished: int, rounds: int, record: Mapping[str, Any]) -> None:
        value = figure_of(job, record)
        if value is not None:
            pipe.send(Reported(job.name, finished, value))
        while pipe.poll():
            _, told = pickle.loads(pipe.recv_bytes())
            if told == Unwanted(job.name):
                raise UnwantedError

    return after_a_round
