"""The lease of a client. Its points run as long as it renews the lease, every few seconds on every worker.

A client that was killed, or is cut off from its cluster, renews nothing, and what it has left running ends by itself.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

RENEW_S = 7.0
"""Time between two renewals, if there is no news."""
RENEW_FOR_REPORTS_S = 2.0
"""The same while figures of running points are reported, which come with the answers."""
LEAST_RENEW_S = 0.5
LEASE_S = 30.0
"""A lease that was not renewed for this long has ended."""
MOST_AT_A_TIME = 4
"""Renewals under way at a time. One may be held up by a worker that does not answer."""


# On a worker


class Leases:
    """The leases that a worker knows, the attempts that run under them, and those that their clients have revoked."""

    def __init__(self) -> None:
        self._renewed: dict[str, float] = {}
        self._running: dict[str, str] = {}
        self._revoked: dict[str, frozenset[str]] = {}
        self._unwanted: dict[str, frozenset[str]] = {}
        self._reported: dict[str, dict[int, float]] = {}

    def renew(self, lease: str, revoked: frozenset[str] = frozenset(), unwanted: frozenset[str] = frozenset()) -> None:
        """Renew a lease, or begin it.

        Args:
            lease: Its name.
            revoked: Attempts under it that end at once, with their process.
            unwanted: Attempts under it whose points are no longer wanted. They end after the round.
        """
        now = time.monotonic()
        self._renewed = {name: at for name, at in self._renewed.items() if now - at < LEASE_S}
        self._renewed[lease] = now
        self._revoked = {name: one for name, one in self._revoked.items() if name in self._renewed}
        self._revoked[lease] = revoked
        self._unwanted = {name: one for name, one in self._unwanted.items() if name in self._renewed}
        self._unwanted[lease] = unwanted

    def end(self, lease: str) -> None:
        """End a lease."""
        self._renewed[lease] = -LEASE_S

    def begin(self, lease: str, attempt: str) -> None:
        """Note that an attempt runs. A lease that is not known begins."""
        if lease not in self._renewed:
            self.renew(lease)
        self._running[attempt] = lease

    def done(self, attempt: str) -> None:
        """Note that an attempt has ended."""
        self._running.pop(attempt, None)
        self._reported.pop(attempt, None)

    def report(self, attempt: str, rounds: int, value: float) -> None:
        """Keep a figure of a running attempt, until the attempt ends."""
        self._reported[attempt] = {**self._reported.get(attempt, {}), rounds: value}

    def reported(self, lease: str) -> dict[str, dict[int, float]]:
        """Return the figures of the attempts that run under a lease: attempt -> finished rounds -> figure."""
        figures = {attempt: self._reported.get(attempt) for attempt in self.running(lease)}
        return {attempt: one for attempt, one in figures.items() if one is not None}

    def running(self, lease: str) -> frozenset[str]:
        """Return the attempts that run under a lease."""
        return frozenset(attempt for attempt, of in list(self._running.items()) if of == lease)

    def renewed(self, lease: str) -> float:
        """Return when a lease was renewed last, by the monotonic clock."""
        return self._renewed.get(lease, -LEASE_S)

    def holds(self, lease: str, attempt: str = "") -> bool:
        """Whether a lease has not ended, and its client has not revoked this attempt."""
        revoked = self._revoked.get(lease, frozenset())
        return time.monotonic() - self.renewed(lease) < LEASE_S and attempt not in revoked

    def is_unwanted(self, lease: str, attempt: str) -> bool:
        """Whether the client of a lease no longer wants the point of this attempt."""
        return attempt in self._unwanted.get(lease, frozenset())


HERE = Leases()
"""The leases that this process, a worker, knows."""


@dataclass(frozen=True)
class Answer:
    """The answer of a worker when a lease is renewed.

    Attributes:
        running: The attempts that run there under the lease.
        reported: Figures of these: attempt -> finished rounds -> figure.
    """

    running: frozenset[str]
    reported: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


def renew(lease: str, revoked: frozenset[str], unwanted: frozenset[str] = frozenset()) -> Answer:
    """Renew a lease on this worker."""
    HERE.renew(lease, revoked, unwanted)
    return Answer(HERE.running(lease), HERE.reported(lease))


# At the client


class Lease:
    """A client's lease, which is renewed until it is closed.

    Attributes:
        name: Its name.
        running: The attempts that were running by the last answer.
        reported: Their figures: attempt -> finished rounds -> figure.
        renew_s: Time between two renewals, if there is no news.
    """

    def __init__(self, client: Callable[[], Any]) -> None:
        """Begin to renew. client: returns Dask's client, which may be another one after the scheduler was lost."""
        self.name, self._client = secrets.token_hex(6), client
        self._answered = False
        self.running: frozenset[str] = frozenset()
        self.reported: Mapping[str, Mapping[int, float]] = {}
        self.renew_s = RENEW_S
        self._revoked: dict[str, float] = {}
        self._unwanted: frozenset[str] = frozenset()
        self._under_way, self._over = threading.Semaphore(MOST_AT_A_TIME), threading.Event()
        self._wake = threading.Event()
        threading.Thread(target=self._keep, daemon=True).start()

    def has_news(self) -> bool:
        """Whether the workers have answered since the last call."""
        news, self._answered = self._answered, False
        return news

    def revoke(self, attempts: Iterable[str]) -> None:
        """End attempts where they run, if they do."""
        now = time.monotonic()
        self._revoked = {one: at for one, at in self._revoked.items() if now - at < LEASE_S} | dict.fromkeys(
            attempts, now
        )
        self._wake.set()

    def stop(self, attempts: frozenset[str]) -> None:
        """Stop these attempts after the round, and no others: nobody wants their points any more."""
        if attempts != self._unwanted:
            self._unwanted = attempts
            self._wake.set()

    def close(self) -> None:
        """Stop renewing. What runs under the lease ends within `LEASE_S`."""
        self._over.set()
        self._wake.set()

    def _keep(self) -> None:
        while not self._over.is_set():
            # Each in a thread of its own, as an answer may take longer than until the next renewal.
            if self._under_way.acquire(blocking=False):
                threading.Thread(target=self._renew, daemon=True).start()
            self._over.wait(LEAST_RENEW_S)
            self._wake.wait(self.renew_s)
            self._wake.clear()

    def _renew(self) -> None:
        try:
            revoked, unwanted = frozenset(self._revoked), self._unwanted
            answers = self._client().run(renew, self.name, revoked, unwanted, on_error="return")
            sound = [one for one in answers.values() if isinstance(one, Answer)]
            self.running = frozenset().union(*(one.running for one in sound))
            self.reported = {attempt: values for one in sound for attempt, values in one.reported.items()}
            self._answered = True
        except Exception:  # the scheduler is lost
            pass
        finally:
            self._under_way.release()
