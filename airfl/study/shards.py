"""Processes that share one folder, each a shard: `airfl sweep ... --shard 2/10`.

A shard is where a process begins, and no fixed part of the work: shard 2/10 begins with the points 2, 12, 22, ..., then
takes points of the others that no process has claimed, and points whose claims have ended. So a shard that never
starts, or is killed, leaves nothing undone, as long as one process runs. A process ends when every point is finished,
has failed, or was seen to be run by another one.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from airfl.errors import MachineError, UserError
from airfl.storage.claim import RENEW_S, Claim, look, take_away, time_of
from airfl.storage.lock import check_unlocked
from airfl.storage.output_files import LOCK_NAME, SHARDS_NAME
from airfl.storage.own_files import check_no_link, is_folder, not_own
from airfl.storage.shards import claim_of, read_shards, remove_ended

LOOK_S = 2.0
"""Time between two looks at the claims of others."""
MOST_SHARDS = 100_000

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """One of several processes that share the work in a folder.

    Attributes:
        index: Its number, from 1 to `of`.
        of: How many there are.
    """

    index: int
    of: int

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    def part(self, points: Sequence[T]) -> list[T]:
        """Return the points with which it begins."""
        return list(points[self.index - 1 :: self.of])

    def order(self, points: Sequence[T]) -> list[T]:
        """Return all points in the order in which it tries them.

        Its own come first. Of those of other shards it begins at the end, where their own process comes last.
        """
        others = (Shard((self.index - 1 + ahead) % self.of + 1, self.of) for ahead in range(1, self.of))
        return [*self.part(points), *(point for shard in others for point in reversed(shard.part(points)))]


def shard_of(given: str | Shard | None) -> Shard | None:
    """Return the shard that a text such as "2/10" names; UserError for other texts."""
    if given is None or isinstance(given, Shard):
        return given
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", given.strip()) if isinstance(given, str) else None
    if found is None:
        raise UserError(f"--shard: must be I/N, for instance 2/10 for the second of ten, got {given!r}")
    index, of = int(found[1]), int(found[2])
    if not 1 <= index <= of <= MOST_SHARDS:
        raise UserError(f"--shard: I/N counts from 1/N to N/N, with N at most {MOST_SHARDS:,}; got {given}")
    return Shard(index, of)


def hash_of(texts: Sequence[str]) -> str:
    """Return a hash of several texts in order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class Sharing:
    """The claims of this process in a folder that it shares with others."""

    def __init__(self, root: Path, own: Claim) -> None:
        self._root, self._own = root, own
        self._held: dict[str, Claim] = {}
        self._over, self._mutex = threading.Event(), threading.Lock()
        self._lost = False
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether other processes have taken this one for ended."""
        return self._lost

    def take(self, point: str, what: str) -> bool:
        """Claim a point, and return whether this process has it now.

        Raises MachineError if other processes have taken this one for ended.
        """
        if self._lost:
            raise MachineError(
                f"{self._root}: this process gave no sign of life for long, and others have taken it for ended; run "
                "the same command again"
            )
        path = claim_of(self._root, point)
        seen = look(path)
        if seen is not None and not (seen.has_ended(self._now()) and take_away(path, seen)):
            return False
        claim = Claim.take(path, what)
        if claim is None:
            return False
        with self._mutex:
            self._held[point] = claim
        return True

    def drop(self, point: str) -> None:
        """Give up the claim to a point."""
        with self._mutex:
            claim = self._held.pop(point, None)
        if claim:
            claim.release()

    def wait(self, points: Sequence[str], has_ended: Callable[[str], bool]) -> bool:
        """Wait until a point may be claimed, and return True; or until each has ended or was seen to be
        run by another process, and return False.

        A claim is that of a running process if it is renewed while this one waits, or if its process can be looked up
        here. So the last process that runs never leaves a point to a claim whose process was killed.
        """
        first: dict[str, tuple[str, int]] = {}
        alive: set[str] = set()
        while True:
            now = self._now()
            for point in points:
                if point in alive:
                    continue
                seen = look(claim_of(self._root, point))
                if has_ended(point):
                    alive.add(point)
                elif seen is None or seen.has_ended(now):
                    return True
                elif seen.runs_here or first.setdefault(point, (seen.token, seen.renewed_ns)) != (
                    seen.token,
                    seen.renewed_ns,
                ):
                    alive.add(point)
            if alive.issuperset(points):
                return False
            self._over.wait(LOOK_S)

    def close(self) -> None:
        """Give up all claims."""
        self._over.set()
        self._thread.join()
        for point in list(self._held):
            with suppress(OSError, UserError):
                self.drop(point)
        with suppress(OSError, UserError):
            self._own.release()

    def _now(self) -> int:
        now = time_of(self._root / SHARDS_NAME)
        if now is None:
            raise MachineError(f"{self._root / SHARDS_NAME}: cannot be written to any more")
        return now

    def _keep(self) -> None:
        while not self._over.wait(RENEW_S):
            with self._mutex:
                held = list(self._held.values())
            for claim in held:
                with suppress(OSError, UserError):
                    claim.renew()
            with suppress(OSError, UserError):
                self._lost = self._lost or self._own.renew() is None


@contextmanager
def sharing(root: Path, shard: Shard, work: str, check: Callable[[], None]) -> Iterator[Sharing]:
    """Share the folder with the other shards of the same work during the block.

    Args:
        root: The folder.
        shard: The shard that this process is.
        work: A hash of what all shards work on, in the same order.
        check: Raises UserError if the folder has other contents. Called when processes that use the folder for
            something else can see that this one is there.

    Raises UserError if a process without --shard, or with other points, is writing there.
    """
    own = _enter(root, shard, work)
    try:
        busy = "another process is writing into it without --shard; wait for it, or choose another --out"
        check_unlocked(root / LOCK_NAME, f"{root}: {busy}")
        check()
        for one in read_shards(root).processes:
            if one.work != work:
                raise UserError(
                    f"{root}: {one.owner} writes other points into it with --shard {one.what}; wait for it, or choose "
                    "another --out"
                )
        shared = Sharing(root, own)
        try:
            yield shared
        finally:
            shared.close()
    finally:
        with suppress(OSError, UserError):
            own.release()
            remove_ended(root)


def _enter(root: Path, shard: Shard, work: str) -> Claim:
    """Claim that this process writes into the folder."""
    folder = root / SHARDS_NAME
    check_no_link(folder)
    if os.path.lexists(folder) and not is_folder(folder):
        raise not_own(folder)
    for last in (False, False, True):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            claim = Claim.take(folder / f"process-{secrets.token_hex(8)}", str(shard), work)
            if claim:
                return claim
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not last:
                continue  # the last process of others has removed the empty folder
            raise MachineError(f"{folder}: cannot be written to ({error.strerror})") from None
    raise MachineError(f"{folder}: changes too often; run the same command again")
