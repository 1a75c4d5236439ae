"""Runs a point on a worker, in a process of its own, which ends with the lease of its client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from airfl.study.sweeps.cluster.lease import HERE
from airfl.study.sweeps.cluster.orders import ASKED_TO_STOP, END, RENEWED, STOP, UNWANTED, Given, Order, Way
from airfl.study.sweeps.feed import Reported
from airfl.study.sweeps.job import Again, Outcome, how_it_died
from airfl.version import __version__

SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_TO_END = 5.0
BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[2])
from airfl.study.sweeps.cluster.child import main
main(int(sys.argv[1]))
"""
# A process runs one point at a time, because thread count and precision are settings of the process.
_one_at_a_time = threading.Lock()
_children: list[Child] = []
"""The process of this worker, if there is one."""


def run_point(order: Order, job: bytes, data: bytes | None = None, task: bytes | None = None) -> Outcome:
    """Run a point on a worker and return its files as bytes."""
    if order.version != __version__:  # a worker that has just come: its client keeps points from it from now on
        return Outcome(order.name, f"its worker has airfl {__version__}", again=Again.ASKED)
    HERE.begin(order.lease, order.attempt)
    try:
        with _one_at_a_time:
            if not HERE.holds(order.lease, order.attempt):
                return Outcome(order.name, "its client does not want it any more", again=Again.ASKED)
            worker = _worker()
            device = (order.devices or {}).get(str(worker.address))
            child = _child_of(order.lease, worker)
            way = Way(order.lease, str(worker.scheduler.address), worker.security)
            return child.run(order, Given(job, device, order.dataset, data, task, order.start, order.shared, way))
    finally:
        HERE.done(order.attempt)


async def end(lease: str) -> None:
    """End a lease on this worker, and wait for the end of what runs under it."""
    HERE.end(lease)
    deadline = time.monotonic() + SECONDS_TO_END
    while any(child.lease == lease and child.is_there for child in _children) and time.monotonic() < deadline:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS / 5)


def _worker() -> Any:
    import distributed

    get_worker: Any = distributed.get_worker
    return get_worker()


def _child_of(lease: str, worker: Any) -> Child:
    """Return the process for points under a lease. A process for another lease is ended."""
    for child in list(_children):
        if child.lease == lease and child.is_usable:
            return child
        child.end()
        _children.remove(child)
    _children.append(Child(lease, worker))
    return _children[-1]


class Child:
    """A process that runs points, and a thread that ends it with its lease.

    Attributes:
        lease: The lease under which it runs.
    """

    def __init__(self, lease: str, worker: Any) -> None:
        """Start it. worker: Dask's worker, which asks it to stop when it closes."""
        self.lease, self._worker = lease, worker
        self._pipe, theirs = Pipe()
        words = [str(theirs.fileno()), json.dumps([entry or os.getcwd() for entry in sys.path])]
        # Not by multiprocessing, which starts none where the nanny has started the worker by it.
        self._process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, *words], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._sending, self._asked = threading.Lock(), False
        self._attempt, self._folder, self._known = "", Path(), ""
        threading.Thread(target=self._keep, daemon=True).start()

    @property
    def is_there(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    @property
    def is_usable(self) -> bool:
        """Whether it can be given a point."""
        return self.is_there and not self._asked

    def run(self, order: Order, given: Given) -> Outcome:
        """Run a point, and return its outcome, or that the process has died."""
        self._attempt = order.attempt
        try:
            if self._known == order.dataset:
                given = replace(given, data=None)
            self._send(given)
            self._known = order.dataset
            while (told := self._told()) is not None:
                if isinstance(told, str):
                    self._folder = Path(told)
                elif isinstance(told, Reported):
                    HERE.report(order.attempt, told.rounds, told.value)
                elif isinstance(told, Outcome):
                    self._asked = self._asked or told.again is Again.ASKED  # after such an outcome it ends
                    return told
            return self._death(order)
        finally:
            self._attempt = ""

    def end(self) -> None:
        """End it, and remove its folder."""
        # While something is sent to it, another thread holds the lock.
        if self._sending.acquire(timeout=SECONDS_TO_END):
            with suppress(OSError):
                self._pipe.send(END)
            self._sending.release()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_END)
        self._process.kill()
        self._process.wait()
        self._tidy()

    def _told(self) -> Any:
        """Return the next message of the process; None if it has died."""
        while True:
            try:
                if self._pipe.poll(SECONDS_BETWEEN_LOOKS):
                    return self._pipe.recv()
            except (EOFError, OSError):
                return None
            if self._process.poll() is not None and not self._pipe.poll():
                return None

    def _death(self, order: Order) -> Outcome:
        code = self._process.wait()
        saved = self._saved(order)
        self._tidy()
        if code == ASKED_TO_STOP or not HERE.holds(order.lease, order.attempt):
            return Outcome(order.name, "its process was asked to stop", saved, again=Again.ASKED)
        return Outcome(order.name, how_it_died(code), saved, again=Again.DIED)

    def _saved(self, order: Order) -> dict[str, bytes] | None:
        """Return the checkpoint that a killed process has left, if it is not in a shared folder."""
        if order.shared is not None or not self._folder.name:
            return None
        # Imports torch, which a worker does not need otherwise.
        from airfl.core.checkpoint.carried import carried

        return carried(self._folder / order.name) or None

    def _keep(self) -> None:
        """Pass on renewals of the lease, and end the process with the lease."""
        passed_on, stopped = 0.0, ""
        while self.is_there:
            if not HERE.holds(self.lease, self._attempt):
                self.end()
                return
            renewed = HERE.renewed(self.lease)
            if renewed > passed_on:
                self._send(RENEWED)
                passed_on = renewed
            attempt = self._attempt
            if attempt and attempt != stopped and HERE.is_unwanted(self.lease, attempt):
                self._send(UNWANTED)
                stopped = attempt
            if not self._asked and str(self._worker.status.name) not in ("running", "paused"):
                self._asked = True
                self._send(STOP)
            time.sleep(SECONDS_BETWEEN_LOOKS)
        if not self._attempt:
            self._tidy()

    def _send(self, what: object) -> None:
        with self._sending, suppress(OSError):  # it has died, which `run` notices
            self._pipe.send(what)

    def _tidy(self) -> None:
        """Remove the folder of a process that was killed."""
        if self._folder.name and self._folder.exists():
            # Imports torch, which a worker does not need otherwise.
            from airfl.study.sweeps.cluster.folder import remove

            remove(self._folder)
