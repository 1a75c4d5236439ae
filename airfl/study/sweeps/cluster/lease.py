"""The lease of a client. Its points run as long as it renews the lease, every few seconds on every worker.

A client that was killed, or is cut off from its cluster, renews nothing, and what it has left running ends by itself.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

RENEW_S = 7.0
"""Time between two renewals, if there is no news."""
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

    def renew(self, lease: str, revoked: frozenset[str] = frozenset()) -> None:
        """Renew a lease, or begin it. revoked: attempts under it that are no longer wanted."""
        now = time.monotonic()
        self._renewed = {name: at for name, at in self._renewed.items() if now - at < LEASE_S}
        self._renewed[lease] = now
        self._revoked = {name: one for name, one in self._revoked.items() if name in self._renewed}
        self._revoked[lease] = revoked

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


HERE = Leases()
"""The leases that this process, a worker, knows."""


def renew(lease: str, revoked: frozenset[str]) -> frozenset[str]:
    """Renew a lease on this worker, and return the attempts that run here under it."""
    HERE.renew(lease, revoked)
    return HERE.running(lease)


# At the client


class Lease:
    """A client's lease, which is renewed until it is closed.

    Attributes:
        name: Its name.
        running: The attempts that were running by the last answer.
    """

    def __init__(self, client: Callable[[], Any]) -> None:
        """Begin to renew. client: returns Dask's client, which may be another one after the scheduler was lost."""
        self.name, self._client = secrets.token_hex(6), client
        self._answered = False
        self.running: frozenset[str] = frozenset()
        self._revoked: dict[str, float] = {}
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
            self._wake.wait(RENEW_S)
            self._wake.clear()

    def _renew(self) -> None:
        try:
            answers = self._client().run(renew, self.name, frozenset(self._revoked), on_error="return")
            self.running = frozenset().union(*(one for one in answers.values() if isinstance(one, frozenset)))
            self._answered = True
        except Exception:  # the scheduler is lost
            pass
        finally:
            self._under_way.release()
