"""Runs points of a sweep in a folder that several processes share, each a shard."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airfl.analysis.results.sweep_folder import (
    RUNNING_NAME,
    Listing,
    open_folder,
    place,
    write_failed,
    write_points,
)
from airfl.core.checkpoint.carried import carried
from airfl.core.run_folder import remove_run
from airfl.errors import UserError
from airfl.storage.output_files import SHARDS_NAME, SWEEP_NAME
from airfl.storage.shards import failure_file, read_shards, remove_failures, write_failure
from airfl.study.attempts import Attempts
from airfl.study.shards import Shard, Sharing, hash_of, sharing
from airfl.study.sweeps.attempt import clear_attempts
from airfl.study.sweeps.job import Job, Outcome
from airfl.study.sweeps.points import SweepPoint
from airfl.study.sweeps.status import Report, Status

Work = Callable[[Iterable[Job], Path], Generator[Outcome, None, None]]


@dataclass
class ShardedSweep:
    """The points of a sweep that several processes share.

    Attributes:
        root: The sweep's folder.
        points: All points, in the order of the sweep.
        shared: The claims of this process.
        shard: The shard that it is.
        request: Returns what is written next to a finished run.
        job: Returns the job of a point.
    """

    root: Path
    points: Sequence[SweepPoint]
    shared: Sharing
    shard: Shard
    request: Callable[[SweepPoint], Mapping[str, Any]]
    job: Callable[[SweepPoint], Job]

    def __post_init__(self) -> None:
        listing = open_folder(self.root)
        entries = {point.folder: point for point in self.points}
        self._by_name = entries
        failed = {name for name in listing.failed if name in entries}
        self._again = failed & {point.folder for point in self.shard.part(self.points)}
        """Points whose failure this process does not accept: those of its own part, which it tries once more."""
        self._failed_before = failed

    def run(self, work: Work, tell: Report, at_once: int) -> None:
        """Run points until each has ended or is run by another process."""
        attempts: dict[str, Path] = {}
        status = Status(len(self.points), before=len(self._finished()), at_once=at_once)
        tell(status)
        try:
            while True:
                with closing(work(self._claimed(attempts), self.root / SHARDS_NAME)) as outcomes:
                    for outcome in outcomes:
                        cause = self._settle(outcome, attempts.pop(outcome.name))
                        status = status.after(self._by_name[outcome.name].name, cause, outcome.seconds, outcome.retried)
                        status = replace(status, before=max(len(self._finished()) - status.done, 0))
                        tell(status)
                left = self.left()
                if not left or not self.shared.wait(left, self._has_ended):
                    break
        finally:
            for name in attempts:
                self.shared.drop(name)
        if not self.left() and not self.shared.lost:
            self._conclude()

    def left(self) -> list[str]:
        """Return the folders of the points that have not ended."""
        finished = self._finished()
        return [name for name in self._by_name if name not in finished and not self._has_ended(name)]

    def _claimed(self, attempts: dict[str, Path]) -> Iterator[Job]:
        """Claim one point after the other, and yield its job when it is wanted."""
        for point in self.shard.order(self.points):
            name = point.folder
            if self._has_ended(name) or not self.shared.take(name, point.name):
                continue
            if self._has_ended(name):  # another process has finished it before this one had the claim
                self.shared.drop(name)
                continue
            self._again.discard(name)
            attempts[name] = Attempts(self.root / SHARDS_NAME, name).begin(carried(self.root / RUNNING_NAME / name))
            yield replace(self.job(point), attempt=attempts[name].name)

    def _settle(self, outcome: Outcome, attempt: Path) -> str | None:
        """Move a finished run to its folder, or record the error of a failed one, and return that error."""
        name, cause = outcome.name, outcome.cause
        if cause is None:
            place(self.root, name, self.request(self._by_name[name]), attempt)
        elif self._is_finished(name):
            cause = None  # by another process, which had taken this one for ended and has removed its attempt
        elif not self.shared.lost:
            write_failure(self.root, name, cause)
            if outcome.again is None:
                with suppress(OSError, UserError):
                    remove_run(attempt)
                    attempt.parent.rmdir()
        if cause is None:
            remove_failures(self.root, [name])
            Attempts(self.root / SHARDS_NAME, name).clear()
            with suppress(OSError, UserError):
                remove_run(self.root / RUNNING_NAME / name)
        self.shared.drop(name)
        return cause

    def _conclude(self) -> None:
        """Move the errors to the file of all errors, when every point has ended. Others may do so too."""
        of_shards = list(read_shards(self.root).failed)
        write_failed(open_folder(self.root))
        remove_failures(self.root, of_shards)
        for name in self._finished():
            Attempts(self.root / SHARDS_NAME, name).clear()
        clear_attempts(self.root / RUNNING_NAME, {*self._by_name} - self._finished())

    def _finished(self) -> set[str]:
        """Return the folders of the finished points. A network file system asks for the state of a folder that is
        listed, and may answer from memory otherwise."""
        return {
            entry.name for entry in self.root.iterdir() if entry.name in self._by_name and self._is_finished(entry.name)
        }

    def _is_finished(self, name: str) -> bool:
        return Listing(self.root).has(name)

    def _has_ended(self, name: str) -> bool:
        if self._is_finished(name):
            return True
        return name not in self._again and (name in self._failed_before or failure_file(self.root, name).exists())


def run_shared(
    points: Sequence[SweepPoint],
    root: Path,
    shard: Shard,
    command: str,
    work: Work,
    tell: Report,
    at_once: int,
    request: Callable[[SweepPoint], Mapping[str, Any]],
    job: Callable[[SweepPoint], Job],
) -> None:
    """Run points of a sweep as one of the shards that share its folder.

    Args:
        points: All points of the sweep.
        root: Its folder.
        shard: The shard that this process is.
        command: As in `run_points`.
        work: Runs jobs in folders below the one that it is given.
        tell: Called at the beginning and after every point.
        at_once: Number of jobs that it runs at a time.
        request: Returns what is written next to a finished run.
        job: Returns the job of a point.
    """
    work_hash = hash_of([command, *(point.folder for point in points)])

    def check() -> None:
        open_folder(root, command)

    with sharing(root, shard, work_hash, check) as shared:
        begun = open_folder(root, command)
        listing = replace(begun.joined([point.entry() for point in points]), root=root, command=command)
        if (listing.entries, listing.command) != (begun.entries, begun.command) or not (root / SWEEP_NAME).exists():
            write_points(listing)
        ShardedSweep(root, points, shared, shard, request, job).run(work, tell, at_once)
