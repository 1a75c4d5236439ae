"""The process in which a worker runs points, one after another.

It ends by itself when its lease is not renewed, and at once when it is told to. When it is asked to stop (by SIGTERM,
as batch systems do, or because its worker is lost), it finishes the round and sends its checkpoint back. If the round
takes too long, it sends back the last checkpoint that it has saved.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from airfl.core.checkpoint import carried, put_carried
from airfl.core.run_files import Progress
from airfl.core.run_folder import remove_run
from airfl.errors import RunInterruptedError
from airfl.runtime.interrupt import told_by
from airfl.study.sweeps.attempt import attempt
from airfl.study.sweeps.cluster.folder import remove, temporary_folder
from airfl.study.sweeps.cluster.lease import LEASE_S
from airfl.study.sweeps.cluster.orders import (
    ASKED_TO_STOP,
    END,
    RENEWED,
    SECONDS_TO_SEND,
    SECONDS_TO_STOP,
    STOP,
    UNWANTED,
    Given,
)
from airfl.study.sweeps.cluster.received import SENT
from airfl.study.sweeps.cluster.reply import send
from airfl.study.sweeps.cluster.shared import SharedPoint
from airfl.study.sweeps.feed import Reported, UnwantedError, figure_of
from airfl.study.sweeps.job import Again, Job, Outcome, cause_of, unpacked_job, unpacked_task

SECONDS_BETWEEN_LOOKS = 0.2
CAUSE = "its process was asked to stop"


class _Orders:
    """What the worker and signals have asked of this process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.points: queue.SimpleQueue[Given | None] = queue.SimpleQueue()
        self.renewed = time.monotonic()
        self.asked = 0.0
        """When it was asked to stop; 0 if it was not."""
        self.ended = False
        self.unwanted = False
        """Whether the point that is running is no longer wanted."""
        self.over = threading.Event()
        """Set before the folder of the points is removed. A point that ends later has failed for lack of its files."""
        self.send_checkpoint: Callable[[], None] = lambda: None
        """Sends back the last checkpoint of the point that is running."""

    def stop(self) -> None:
        """Ask to stop. A signal handler calls this."""
        if not self.asked:
            self.asked = time.monotonic()
            self.points.put(None)

    def listen(self) -> None:
        """Receive messages from the worker until it is lost."""
        try:
            while True:
                told = self._pipe.recv()
                if told == RENEWED:
                    self.renewed = time.monotonic()
                elif told == END:
                    self.ended = True
                elif told == STOP:
                    self.stop()
                elif told == UNWANTED:
                    self.unwanted = True
                else:
                    self.renewed = time.monotonic()
                    self.points.put(told)
        except (EOFError, OSError):
            self.stop()

    def watch(self, folder: Path) -> None:
        """End this process when it is told to, when its lease has ended, or when the round takes too long to stop."""
        while True:
            now = time.monotonic()
            too_long = self.asked and now - self.asked > SECONDS_TO_STOP
            if self.ended or too_long or now - self.renewed > LEASE_S:
                self.over.set()
                if too_long and not self.ended:
                    with suppress(Exception):  # whatever happens, the process ends
                        self.send_checkpoint()
                for _ in range(20):  # the point may be writing a file at this moment
                    if remove(folder):
                        break
                    time.sleep(0.05)
                os._exit(ASKED_TO_STOP)
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def after_a_round(self, job: Job) -> Progress:
        """Return a function that reports the figure of a job after evaluations, and stops it when that is asked."""

        def told(finished: int, rounds: int, record: Mapping[str, Any]) -> None:
            value = figure_of(job, record)
            if value is not None:
                with suppress(OSError):  # the worker is lost
                    self._pipe.send(Reported(job.name, finished, value))
            if self.unwanted:
                raise UnwantedError
            if self.asked:
                os.kill(os.getpid(), signal.SIGTERM)

        return told


def main(descriptor: int) -> None:
    """Run points that arrive through a pipe until it is closed. descriptor: the file descriptor of this end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a worker in a terminal; the worker stops this process
    pipe = Connection(descriptor)
    orders = _Orders(pipe)
    signal.signal(signal.SIGTERM, lambda *_: orders.stop())
    data: dict[str, Any] = {}
    with temporary_folder() as folder, told_by(lambda notice: orders.stop()):
        pipe.send(str(folder))
        for work in (orders.listen, lambda: orders.watch(folder)):
            threading.Thread(target=work, daemon=True).start()
        while (given := orders.points.get()) is not None:
            outcome = _outcome(given, folder, data, orders)
            if orders.over.is_set():  # the point may have failed because its folder was removed: wait for the end
                threading.Event().wait()
            if orders.asked and given.way is not None:
                send(given.way, outcome)
            with suppress(OSError):  # the worker is lost
                pipe.send(outcome)
    sys.exit(ASKED_TO_STOP)


def _outcome(given: Given, folder: Path, data: dict[str, Any], orders: _Orders) -> Outcome:
    job: Job | None = None
    shared: SharedPoint | None = None
    begun = time.monotonic()
    try:
        job = unpacked_job(given.job)
        if given.data is not None:
            data.clear()  # one at a time: data sets are large
            data[given.dataset] = pickle.loads(given.data)
        at = folder / job.name
        if given.shared is not None:
            shared = SharedPoint(Path(given.shared), job.name)
            at = shared.begin(given.start)
        else:
            if given.start:
                put_carried(given.start, at)
            orders.send_checkpoint = _sender(given, job.name, at)
        task = unpacked_task(given.task) if given.task else None
        job = replace(job, device=given.device or job.device)
        orders.unwanted = False
        attempt(job, at, task, data.get(given.dataset), orders.after_a_round(job), finish_rounds=True)
    except RunInterruptedError:
        assert job is not None
        files = carried(at) if shared is None else None
        return Outcome(job.name, CAUSE, files, again=Again.ASKED)
    except UnwantedError:
        assert job is not None
        outcome = Outcome(job.name, unwanted=True)
    except Exception as error:
        outcome = Outcome(job.name if job else "", cause_of(error))
    else:
        files = {name: (at / name).read_bytes() for name in SENT}
        outcome = Outcome(job.name, files=files, seconds=time.monotonic() - begun)
    if job is not None:
        remove_run(folder / job.name)
    if shared is not None:
        shared.clear()
    return outcome


def _sender(given: Given, name: str, at: Path) -> Callable[[], None]:
    def send_checkpoint() -> None:
        if given.way is not None:
            send(given.way, Outcome(name, CAUSE, carried(at), again=Again.ASKED), SECONDS_TO_SEND)

    return send_checkpoint
