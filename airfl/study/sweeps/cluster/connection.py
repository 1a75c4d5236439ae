"""A connection to a scheduler that outlives it: waits for the scheduler and its workers, and connects again."""

from __future__ import annotations

import gc
import ipaddress
import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from airfl.errors import MachineError, UserError
from airfl.runtime.text import tell
from airfl.runtime.time_left import duration
from airfl.study.sweeps.job import cause_of
from airfl.study.sweeps.place import Patience

log = logging.getLogger(__name__)

SECONDS_TO_ANSWER = 15
SECONDS_BETWEEN_TRIES = 0.5
SECONDS_BEFORE_A_LINE = 10.0
"""A wait that is shorter is not reported."""
SECONDS_BETWEEN_LINES = 60.0
TLS = "tls://"
NEEDED = {"ca-file": "tls_ca_file", "client.cert": "tls_client_cert", "client.key": "tls_client_key"}
"""Keys of the configuration distributed.comm.tls, and the attributes of `distributed.Security` that hold them."""


class Connection:
    """A connection to a scheduler.

    Attributes:
        address: The scheduler's address.
        client: Dask's client; another one after `reach`.
    """

    def __init__(self, address: str, patience: Patience) -> None:
        """Connect. Raises UserError if no scheduler answers, or certificates are missing."""
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise UserError(
                '--cluster: the package distributed is not installed; pip install "airfl[cluster]"'
            ) from None
        for name in ("distributed", "distributed.client"):  # Dask gives the second a level of its own
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.address, self._patience = address, patience
        self._security = security_for(address)
        self.client, cause = self._connected()
        if cause:
            remedy = (
                "check that it was started with TLS, and trusts the authority of this client's certificate"
                if address.startswith(TLS)
                else "start one with `dask scheduler --host 127.0.0.1` and give its address, for instance "
                "tcp://127.0.0.1:8786, or tls://... if it was started with certificates"
            )
            raise UserError(f"--cluster: no scheduler answers at {address} ({cause}); {remedy}")

    @property
    def is_open(self) -> bool:
        """Whether the scheduler was there a moment ago."""
        return str(self.client.status) == "running"

    def workers(self) -> dict[str, Any]:
        """Return what the scheduler knows of each worker, by address. Dask's errors if it is lost."""
        return dict(self.client.scheduler_info(n_workers=-1)["workers"])

    def reach(self) -> bool:
        """Connect again if the scheduler was lost, which may take a while.

        Return whether there is a new connection, which knows of nothing that was submitted before.

        Raises MachineError if the scheduler does not come back in time.
        """
        if self.is_open:
            return False
        threading.Thread(target=self._left, args=(self.client,), daemon=True).start()
        limit = self._patience.scheduler_wait_s
        wait = _Wait(limit, f"--cluster: the scheduler at {self.address} is lost; waiting for it to come back")
        while True:
            client, _ = self._connected()
            if client is not None:
                self.client = client
                return True
            if wait.is_over():
                raise MachineError(
                    f"--cluster: the scheduler at {self.address} was lost and did not come back within "
                    f"{duration(limit)}; run the same command to continue"
                )

    def wait_for_a_worker(
        self, kind: type[UserError | MachineError] = UserError, is_usable: Callable[[Collection[str]], bool] = bool
    ) -> None:
        """Wait until there is a worker.

        Args:
            kind: The error to raise if none comes in time.
            is_usable: Whether a worker that can be used is among those with these addresses.

        Raises `kind`; Dask's errors if the scheduler is lost.
        """
        limit = self._patience.worker_wait_s
        start = f"start some with `dask worker {self.address} --nthreads 1`"
        wait = _Wait(limit, f"--cluster: waiting for a worker of {self.address}; {start}")
        while not is_usable(self.workers()):
            if wait.is_over():
                raise kind(
                    f"--cluster: the scheduler at {self.address} has no workers after {duration(limit)}; {start}, or "
                    "wait longer with --worker-wait-s"
                )

    def close(self) -> None:
        """Disconnect."""
        self._left(self.client)

    @staticmethod
    def _left(client: Any) -> None:
        with suppress(Exception):  # of a scheduler that is lost
            client.close(timeout=SECONDS_TO_ANSWER)

    def _connected(self) -> tuple[Any, str]:
        """Return a client, or None and why there is none."""
        import distributed

        client: Any = distributed.Client
        try:
            # Not the default client, so that the caller's own use of Dask is not affected.
            return (
                client(self.address, timeout=SECONDS_TO_ANSWER, set_as_default=False, security=self._security),
                "",
            )
        except Exception as error:  # Dask raises various errors if what answers is not a scheduler
            cause = cause_of(error)
        # A client that failed to connect closes when it is collected, which can hang after another one has started.
        gc.collect()
        return None, cause


class _Wait:
    """A wait of at most some seconds, reported from time to time in one line."""

    def __init__(self, limit_s: float, what: str) -> None:
        self._begun, self._limit, self._what = time.monotonic(), limit_s, what
        self._next = SECONDS_BEFORE_A_LINE

    def is_over(self) -> bool:
        """Wait for a moment, and return whether the time is over."""
        waited = time.monotonic() - self._begun
        if waited >= self._limit:
            return True
        if waited >= self._next:
            self._next = waited + SECONDS_BETWEEN_LINES
            tell(f"{self._what} ({duration(waited)} of at most {duration(self._limit)})")
        time.sleep(min(SECONDS_BETWEEN_TRIES, self._limit - waited))
        return False


def security_for(address: str) -> Any:
    """Return the certificates for a tls:// address from Dask's configuration; UserError if they cannot be used.

    For any other address that is not on this machine, warn that the connection is not secure and return None.
    """
    import dask.config
    import distributed

    if not address.startswith(TLS):
        if not _is_of_this_machine(address):
            log.warning(
                "--cluster: %s is neither encrypted nor authenticated: anyone who can reach this scheduler can run "
                "code as the user of its workers; start it with certificates and give tls://...",
                address,
            )
        return None
    if dask.config.get("distributed.client.security-loader", None):
        return None  # Dask uses this loader by itself
    security_of: Any = distributed.Security
    security = security_of()
    missing = [name for name, field in NEEDED.items() if not getattr(security, field)]
    if missing:
        raise UserError(
            f"--cluster: {address} needs certificates, but Dask's configuration has none for "
            f"{', '.join(f'distributed.comm.tls.{name}' for name in missing)}; set {', '.join(map(_variable, missing))}"
        )
    try:
        security.get_connection_args("client")
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
        files = ", ".join(str(getattr(security, field)) for field in NEEDED.values())
        raise UserError(f"--cluster: the certificates {files} cannot be used ({cause_of(error)})") from None
    return security


def _variable(name: str) -> str:
    """Return the environment variable that sets a key of Dask's TLS configuration."""
    return f"DASK_DISTRIBUTED__COMM__TLS__{name.upper().replace('.', '__').replace('-', '_')}"


def _is_of_this_machine(address: str) -> bool:
    scheme, _, location = address.rpartition("://")
    host = location.rpartition(":")[0].strip("[]") or location
    try:
        return scheme == "inproc" or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a host name
        return False
