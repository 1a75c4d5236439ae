"""Points on a cluster, through a Dask scheduler: `pip install "airfl[cluster]"`.

The scheduler's workers need airfl, and neither the data nor the sweep's folder: a data set is sent to each worker once,
a finished point's files come back. A worker that goes away loses the points it was at to the others.
"""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from airfl.errors import MachineError, UserError, one_line
from airfl.output import TRACE_NAME
from airfl.own import not_own, open_own
from airfl.results.digest import DIGEST_NAME
from airfl.run_folder import remove_run
from airfl.sweeps.folder import check_running, is_point
from airfl.sweeps.task import Job, Outcome, cause_of, packed_job, unpacked_job, unpacked_task
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.raw import RawData
from airfl.version import __version__

SENT = (TRACE_NAME, DIGEST_NAME)
"""The files of a point that come back; no worker names others."""
log = logging.getLogger(__name__)

SECONDS_TO_ANSWER = 15
SECONDS_TO_WAIT_FOR_WORKERS = 60
TLS = "tls://"
NEEDED = {"ca-file": "tls_ca_file", "client.cert": "tls_client_cert", "client.key": "tls_client_key"}
"""Of distributed.comm.tls, and where `distributed.Security` has it."""
# One run at a time in a process: a run's thread count and precision are the process's own.
_one_at_a_time = threading.Lock()


class Cluster:
    """A scheduler that answers and has workers of this version. Closing it cancels what has not been done."""

    def __init__(self, address: str) -> None:
        """UserError where there is no scheduler, or its workers are of another version."""
        try:
            import distributed
        except ImportError:
            raise UserError(
                '--cluster: the package distributed is not installed; pip install "airfl[cluster]"'
            ) from None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        security, cause = _security(address), ""
        try:
            client: Any = distributed.Client
            # The caller's own use of Dask, if any, goes on as it was.
            self._client = client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False, security=security)
        except Exception as error:  # what answers need not be a scheduler: Dask then fails in whatever way
            cause = cause_of(error)
        if cause:
            # A client that came to nothing closes itself when it is collected, which can hang once another starts.
            gc.collect()
            other = (
                "see that it was started with TLS, and trusts the authority of this client's certificate"
                if address.startswith(TLS)
                else "start one with `dask scheduler --host 127.0.0.1` and give its address, for instance "
                "tcp://127.0.0.1:8786, or tls://... where it was started with certificates"
            )
            raise UserError(f"--cluster: no scheduler answers at {address} ({cause}); {other}")
        try:
            self._check_workers(address)
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        """How many there were at the beginning; each runs one point at a time."""
        return self._workers

    def run_jobs(
        self, jobs: Sequence[Job], data: Mapping[str | Dataset, RawData], task: bytes | None = None
    ) -> Iterator[Outcome]:
        """Run every job; outcomes with their files, as they come.

        Args:
            jobs: The points.
            data: By the name of the data set, those that no task brings.
            task: Of the user's own, packed.
        """
        import distributed

        as_completed: Any = distributed.as_completed
        client = self._client
        sent = {name: client.scatter(raw, broadcast=True, hash=False) for name, raw in data.items()}
        own = None if task is None else client.scatter(task, broadcast=True, hash=False)
        futures = {
            client.submit(
                _run,
                packed_job(job),
                sent.get(job.settings.task.dataset),
                own,
                pure=False,
                key=f"airfl-{job.name}-{id(sent)}",
            ): job
            for job in jobs
        }
        for future in as_completed(list(futures), loop=client.loop):
            name = futures[future].name
            try:
                outcome = _checked(future.result(), name)
            except Exception as error:  # lost with its workers, or with the scheduler
                outcome = Outcome(name, f"lost by the cluster ({cause_of(error)})")
            # What has come back need not stay there.
            del futures[future]
            future.release()
            yield outcome

    def close(self) -> None:
        """Cancel what has not been done and say goodbye."""
        self._client.close(timeout=SECONDS_TO_ANSWER)

    def _check_workers(self, address: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=SECONDS_TO_WAIT_FOR_WORKERS)
        except TimeoutError:
            raise UserError(
                f"--cluster: the scheduler at {address} has no worker; start some with `dask worker {address} "
                "--nthreads 1`"
            ) from None
        try:
            versions = self._client.run(_version)
        except Exception as error:
            raise MachineError(
                f"--cluster: a worker cannot import airfl ({cause_of(error)}); install it there"
            ) from None
        self._workers = len(versions)
        other = {where: version for where, version in versions.items() if version != __version__}
        for where, version in other.items():
            raise UserError(f"--cluster: the worker {where} has airfl {version}, not {__version__}; install the same")


def _security(address: str) -> Any:
    """The certificates for a tls:// address, from Dask's own configuration; UserError where they cannot be used. Of any
    other address that is not this machine's it is said what that means."""
    import dask.config
    import distributed

    if not address.startswith(TLS):
        if not _is_of_this_machine(address):
            log.warning(
                "--cluster: %s is neither encrypted nor asks who comes: whoever reaches that scheduler runs code as "
                "the user of its workers; start it with certificates and give tls://...",
                address,
            )
        return None
    if dask.config.get("distributed.client.security-loader", None):
        return None  # which Dask asks by itself
    security_of: Any = distributed.Security
    security = security_of()
    missing = [name for name, field in NEEDED.items() if not getattr(security, field)]
    if missing:
        raise UserError(
            f"--cluster: {address} needs certificates, and Dask's configuration names none for "
            f"{', '.join(f'distributed.comm.tls.{name}' for name in missing)}; set {', '.join(map(_variable, missing))}"
        )
    try:
        security.get_connection_args("client")
    except (OSError, ValueError) as error:  # ssl's own errors are OSErrors
        files = ", ".join(str(getattr(security, field)) for field in NEEDED.values())
        raise UserError(f"--cluster: the certificates {files} cannot be used ({cause_of(error)})") from None
    return security


def _variable(name: str) -> str:
    """Of the environment, by which Dask is told this part of its configuration of TLS."""
    return f"DASK_DISTRIBUTED__COMM__TLS__{name.upper().replace('.', '__').replace('-', '_')}"


def _is_of_this_machine(address: str) -> bool:
    scheme, _, place = address.rpartition("://")
    host = place.rpartition(":")[0].strip("[]") or place
    try:
        return scheme == "inproc" or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _version() -> str:
    from airfl.version import __version__

    return __version__


def _run(packed: bytes, data: RawData | None, task: bytes | None = None) -> Outcome:
    """On a worker: the run in a folder of its own, its files as bytes."""
    from airfl.results.digest import keep
    from airfl.simulation import run

    job = unpacked_job(packed)
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="airfl-") as parent:
        folder, begun = Path(parent) / job.name, time.monotonic()
        try:
            run(job.settings, folder, job.device, data=data, task=unpacked_task(task) if task else None)
            keep(folder)
        except Exception as error:
            return Outcome(job.name, cause_of(error))
        return Outcome(job.name, files=_files(folder), seconds=time.monotonic() - begun)


def _files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in SENT}


def _checked(outcome: Outcome, name: str) -> Outcome:
    """What a worker has sent, which may be anything, as the outcome of the point of this name."""
    if not isinstance(outcome, Outcome) or outcome.name != name:
        return Outcome(name, "its worker sent back something else than the outcome of this point")
    if outcome.cause is not None:
        return Outcome(name, one_line(str(outcome.cause)))
    return outcome


def put(outcome: Outcome, running: Path) -> Outcome:
    """Write the files of an outcome that came from elsewhere into running/NAME; the outcome, failed where a worker has
    sent other files than a point's. They go nowhere else, through no link, and over nothing but an earlier attempt."""
    if outcome.cause is not None:
        return outcome
    files: Mapping[str, Any] = outcome.files or {}
    folder = running / outcome.name
    strange = [name for name in files if name not in SENT]
    if strange or TRACE_NAME not in files or not all(isinstance(content, bytes) for content in files.values()):
        what = f"a file called {str(strange[0])!r}" if strange else f"no {TRACE_NAME}"
        return Outcome(
            outcome.name, one_line(f"its worker sent {what} instead of {' and '.join(SENT)}; nothing is kept")
        )
    try:
        if not is_point(outcome.name):
            raise not_own(folder)
        check_running(running)
        remove_run(folder)
    except UserError as error:
        return Outcome(outcome.name, str(error))
    folder.mkdir(parents=True)
    for name, content in files.items():
        with os.fdopen(open_own(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
    return outcome
