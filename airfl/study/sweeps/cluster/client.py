"""Gives out the points of a sweep, decides what is tried again, and yields outcomes as they arrive.

A point belongs to one attempt at a time; what other attempts at it send back is ignored. It is tried again

- when the scheduler or every worker with the data was lost: the data is sent and the point submitted again;
- when Dask gives it up, since the workers that ran it were lost;

but only as often as `Patience.retries` says. Points that were only waiting when the scheduler or the data were lost
have not been tried.
"""

from __future__ import annotations

import logging
import pickle
import queue
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from airfl.core.checkpoint.carried import Files, carried, rounds_of
from airfl.errors import MachineError, UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.runtime.text import tell
from airfl.runtime.time_left import duration
from airfl.study.sweeps.cluster.connection import Connection
from airfl.study.sweeps.cluster.lease import RENEW_FOR_REPORTS_S, Lease
from airfl.study.sweeps.cluster.on_worker import end, run_point
from airfl.study.sweeps.cluster.orders import Order
from airfl.study.sweeps.cluster.received import checked, put_checkpoint
from airfl.study.sweeps.cluster.reply import Reply, box, replies
from airfl.study.sweeps.cluster.shared import SharedPoint
from airfl.study.sweeps.cluster.workers import Pool
from airfl.study.sweeps.feed import Feed
from airfl.study.sweeps.job import Again, Job, Outcome, cause_of, packed_job
from airfl.study.sweeps.place import DEFAULT, Patience

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_GATHER = 0.5
"""When one point is lost, others are: those that are lost within this time are reported together."""
SECONDS_TO_FETCH = 30.0
MOST_REFUSALS = 5
LOST = ("cancelled", "lost")
"""States in which Dask leaves futures that nobody computes any more."""
GONE: Literal["gone"] = "gone"
LATER: Literal["later"] = "later"


@dataclass(eq=False)
class _Point:
    """A point that has no outcome yet.

    Attributes:
        job: What to run.
        attempt: The key of the attempt to which it belongs; "" while it belongs to none.
        future: Dask's future of this attempt.
        lost: How often an attempt was lost while it ran, since a checkpoint was sent back.
        rounds: The rounds of the checkpoint from which the attempt goes on.
    """

    job: Job
    attempt: str = ""
    future: Any = None
    lost: int = 0
    rounds: int = 0


class Cluster:
    """A scheduler whose workers run points. Closing it ends unfinished points."""

    def __init__(self, address: str, device: str = "cpu", patience: Patience = DEFAULT) -> None:
        """Connect to the scheduler, and wait for a worker.

        Raises UserError if it does not answer, or its workers have another version, or none of them has the device.
        """
        self._patience, self._connection = patience, Connection(address, patience)
        try:
            self._connection.wait_for_a_worker()
            self._pool = Pool(self._connection.client, device)
        except BaseException:
            self._connection.close()
            raise
        self._lease = Lease(lambda: self._connection.client)
        self._current: dict[str, _Point] = {}
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._refused = 0
        self._box: tuple[Any, Any] | None = None

    @property
    def workers(self) -> int:
        """Number of workers at the beginning. Each runs one point at a time."""
        return self._pool.size

    def close(self) -> None:
        """End unfinished points and disconnect."""
        self._lease.close()
        if self._connection.is_open:
            with suppress(Exception):  # of a scheduler that is lost at this moment
                self._connection.client.run(end, self._lease.name, on_error="ignore")
                if self._box is not None:
                    self._box[1].close()
        self._connection.close()

    def run_jobs(
        self,
        jobs: Iterable[Job],
        running: Path,
        data: Mapping[str | Dataset, RawData],
        task: bytes | None = None,
        shared: Path | None = None,
        feed: Feed | None = None,
    ) -> Iterator[Outcome]:
        """Run every job, and yield outcomes with their files as they arrive.

        Args:
            jobs: The points.
            running: The folder for points in progress, with the checkpoints of some.
            data: Data sets by name, except that of a user-defined task.
            task: A serialised user-defined task.
            shared: The folder for checkpoints of this sweep that all workers share, if any.
            feed: Gives out further points while these run.

        Raises MachineError if the scheduler, or all workers, are lost and do not come back.
        """
        points = {job.name: _Point(job) for job in jobs}
        sent, waiting = _Sent(data, task), list(points.values())
        if feed is not None:
            self._lease.renew_s = RENEW_FOR_REPORTS_S
        try:
            while points or not (feed is None or feed.over):
                if feed is not None:
                    for job in feed.more(self._pool.size):
                        points[job.name] = _Point(job)
                        waiting.append(points[job.name])
                    for point in self._stop(points, feed):
                        waiting = [one for one in waiting if one is not point]
                        if shared is not None:  # its worker is lost, and has removed nothing
                            with suppress(OSError):
                                SharedPoint(shared, point.job.name).clear()
                        yield Outcome(point.job.name, unwanted=True)
                if not self._submit(waiting, sent, running, shared):
                    self._recover(points.values())
                    continue
                waiting, gone = [], False
                for point in self._next():
                    outcome = self._outcome(point, running)
                    gone = gone or outcome is GONE
                    if isinstance(outcome, Outcome):
                        del points[point.job.name]
                        yield outcome
                if gone or not self._connection.is_open:
                    self._recover(points.values())
                self._look(points.values())
                for reply in self._replies():
                    if reply.name not in points:
                        continue
                    point = points[reply.name]
                    if reply.finished:
                        self._forget(point)
                        del points[reply.name]
                        yield Outcome(reply.name, files=reply.files, retried=self._retried(point))
                    elif self._keeps(point, reply.files, running):
                        self._forget(point)
                if feed is not None:
                    for attempt, values in self._lease.reported.items():
                        if attempt in self._current:
                            feed.reported(self._current[attempt].job.name, values)
                waiting = [point for point in points.values() if not point.attempt]
                for point in [one for one in waiting if one.lost > self._patience.retries]:
                    waiting.remove(point)
                    del points[point.job.name]
                    cause = f"lost by the cluster {point.lost} times while it ran"
                    yield Outcome(point.job.name, cause, again=Again.DIED, retried=self._retried(point))
        finally:
            self._drop(points.values())
            if self._connection.is_open:
                with suppress(Exception):
                    self._connection.client.cancel([point.future for point in points.values() if point.future])

    def _stop(self, points: dict[str, _Point], feed: Feed) -> list[_Point]:
        """Stop unwanted points. Return, and remove, those of them that do not run now."""
        unwanted = [points[name] for name in feed.unwanted() if name in points]
        self._lease.stop(frozenset(point.attempt for point in unwanted if point.attempt))
        idle = [point for point in unwanted if not point.attempt]
        for point in idle:
            del points[point.job.name]
        return idle

    def _submit(self, points: Sequence[_Point], sent: _Sent, running: Path, shared: Path | None) -> bool:
        """Submit points; return False if the scheduler or the workers are lost."""
        if not points:
            return True
        client, packed = self._connection.client, [packed_job(point.job) for point in points]
        try:
            data, task = sent.on(client)
            for point, job in zip(points, packed, strict=True):
                name = f"airfl-{self._lease.name}-{point.job.name}-{secrets.token_hex(4)}"
                of = point.job.settings.task.dataset
                start = carried(running / point.job.name)
                order = Order(
                    lease=self._lease.name,
                    attempt=name,
                    name=point.job.name,
                    dataset=sent.names.get(of, ""),
                    devices=self._pool.devices,
                    start=start,
                    shared=None if shared is None else str(shared),
                )
                point.rounds = rounds_of(start)
                dataset = data.get(of)
                point.future = client.submit(
                    run_point, order, job, dataset, task, pure=False, key=name, retries=0, **self._pool.options
                )
                point.attempt, self._current[name] = name, point
                self._await(point)
        except Exception as error:  # Dask raises various errors
            log.debug("--cluster: points cannot be submitted (%s)", cause_of(error))
            self._refused += 1
            if self._refused >= MOST_REFUSALS:
                raise MachineError(
                    f"--cluster: points cannot be submitted to {self._connection.address} ({cause_of(error)})"
                ) from None
            self._drop(points)
            return False
        self._refused = 0
        return True

    def _await(self, point: _Point) -> None:
        name = point.attempt
        point.future.add_done_callback(lambda _: self._ended.put(name))

    def _next(self) -> list[_Point]:
        """Wait a moment for attempts to end, and return their points."""
        names = []
        with suppress(queue.Empty):
            names.append(self._ended.get(timeout=SECONDS_BETWEEN_LOOKS))
            if any(point.future.status in LOST for point in self._of(names)):
                time.sleep(SECONDS_TO_GATHER)
            while True:
                names.append(self._ended.get_nowait())
        return self._of(names)

    def _of(self, names: Sequence[str]) -> list[_Point]:
        """Return the points that belong to these attempts."""
        return [self._current[name] for name in names if name in self._current]

    def _keeps(self, point: _Point, files: Files, running: Path) -> bool:
        """Keep a checkpoint that was sent back, and return whether it is newer than that of the present attempt."""
        if rounds_of(files) <= point.rounds:
            return False
        put_checkpoint(point.job.name, files, running)
        point.rounds, point.lost = rounds_of(files), 0  # it does go on
        return True

    def _forget(self, point: _Point) -> None:
        """Take a point away from an attempt that Dask still knows."""
        self._drop([point])
        with suppress(Exception):  # of a scheduler that is lost
            self._connection.client.cancel([point.future])

    def _replies(self) -> list[Reply]:
        """Return what processes have sent back that were asked to stop."""
        try:
            client = self._connection.client
            if self._box is None or self._box[0] is not client:
                self._box = client, box(client, self._lease.name)
            return replies(self._box[1])
        except Exception as error:  # the scheduler is lost, which is noticed soon
            log.debug("--cluster: %s", cause_of(error))
            return []

    def _outcome(self, point: _Point, running: Path) -> Outcome | Literal["gone", "later"]:
        """Return the outcome of a point whose attempt has ended: `GONE` if Dask has dropped it, `LATER` if it is tried
        again."""
        if point.future.status in LOST:
            return GONE
        try:
            outcome = checked(point.future.result(timeout=SECONDS_TO_FETCH), point.job.name)
        except TimeoutError:  # its worker is lost with the result, and another one computes it
            self._await(point)
            return LATER
        except Exception as error:
            if point.future.status in LOST or not self._connection.is_open:
                return GONE
            point.lost += 1
            outcome = Outcome(point.job.name, f"lost by the cluster ({cause_of(error)})", again=Again.DIED)
        else:
            point.lost += outcome.again is Again.DIED
            if outcome.again and outcome.files:
                self._keeps(point, outcome.files, running)
                outcome = replace(outcome, files=None)
        if outcome.again and point.lost <= self._patience.retries:
            self._drop([point])
            return LATER
        del self._current[point.attempt]
        # Release the result, so that it does not stay in the memory of the cluster.
        point.future.release()
        return replace(outcome, retried=self._retried(point))

    def _retried(self, point: _Point) -> int:
        """Return how often a point was run again. When it was lost for the last time, it was not."""
        return min(point.lost, self._patience.retries)

    def _drop(self, points: Iterable[_Point]) -> None:
        """Take points away from the attempts to which they belong, and end those."""
        gone = []
        for point in points:
            if self._current.pop(point.attempt, None):
                gone.append(point.attempt)
            point.attempt = ""
        if gone:
            self._lease.revoke(gone)

    def _recover(self, points: Collection[_Point]) -> None:
        """Wait until there are a scheduler and workers, and take points away from attempts that are lost."""
        begun, lost_scheduler = time.monotonic(), False
        while True:
            try:
                lost_scheduler = self._connection.reach() or lost_scheduler
                self._connection.wait_for_a_worker(MachineError)
                break
            except (UserError, MachineError):
                raise
            except Exception as error:  # lost again
                log.debug("--cluster: %s", cause_of(error))
                time.sleep(SECONDS_BETWEEN_LOOKS)
        lost = [point for point in points if point.attempt and (lost_scheduler or point.future.status in LOST)]
        for point in lost:
            point.lost += point.attempt in self._lease.running
        self._drop(lost)
        what = "the scheduler was" if lost_scheduler else "all workers with the data were"
        again = f"{len(lost)} of {len(points)} points are submitted again"
        tell(f"--cluster: {what} lost, and back after {duration(time.monotonic() - begun)}; {again}")

    def _look(self, points: Collection[_Point]) -> None:
        """Update the pool of workers when they have answered, and wait if none can be used."""
        if not self._lease.has_news():
            return
        moved = False

        def is_usable(workers: Collection[str]) -> bool:
            nonlocal moved
            moved = self._pool.look(self._connection.client, workers) or moved
            return not self._pool.is_empty

        try:
            self._connection.wait_for_a_worker(MachineError, is_usable)
            if moved:
                waiting = [point for point in points if point.attempt and point.attempt not in self._lease.running]
                self._drop(waiting)
                self._connection.client.cancel([point.future for point in waiting])
        except (UserError, MachineError):
            raise
        except Exception as error:  # the scheduler is lost, which is noticed soon
            log.debug("--cluster: %s", cause_of(error))


class _Sent:
    """Data sets and a task on the workers of a cluster."""

    def __init__(self, data: Mapping[str | Dataset, RawData], task: bytes | None) -> None:
        self._data = data
        self._packed: dict[str | Dataset | None, bytes] = {} if task is None else {None: task}
        self.names: dict[str | Dataset, str] = {}
        self._pack()
        self._client: Any = None
        self._futures: dict[str | Dataset | None, Any] = {}

    def _pack(self) -> None:
        """Serialise the data sets that have been added since."""
        for name, raw in self._data.items():
            if name not in self.names:
                self._packed[name], self.names[name] = pickle.dumps(raw), secrets.token_hex(6)

    def on(self, client: Any) -> tuple[dict[str | Dataset, Any], Any]:
        """Return Dask's futures of the data sets by name and of the task, and send what is not there."""
        self._pack()
        for name, content in self._packed.items():
            there = self._futures.get(name)
            if client is not self._client or there is None or there.status in LOST:
                self._futures[name] = client.scatter(content, broadcast=True, hash=False)
        self._client = client
        return {name: one for name, one in self._futures.items() if name is not None}, self._futures.get(None)
