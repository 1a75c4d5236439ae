"""Runs points on a cluster through a Dask scheduler. Needs `pip install "airfl[cluster]"`.

The workers need airfl, but neither the data nor the sweep's folder: a data set is sent to each worker once, and the
files of a finished point are sent back. If a worker is lost, other workers run its points.
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

from airfl.analysis.results.sweep_folder import check_running, is_point
from airfl.core.device import is_gpu
from airfl.core.run_folder import remove_run
from airfl.errors import MachineError, UserError, one_line
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.storage.output_files import DIGEST_NAME, TRACE_NAME
from airfl.storage.own_files import not_own, open_own
from airfl.study.sweeps.gpus import RESOURCE, Workers, seen, workers_for
from airfl.study.sweeps.job import Job, Outcome, cause_of, packed_job, unpacked_job, unpacked_task
from airfl.version import __version__

SENT = (TRACE_NAME, DIGEST_NAME)
"""The files of a point that are sent back; others are rejected."""
log = logging.getLogger(__name__)

SECONDS_TO_ANSWER = 15
SECONDS_TO_WAIT_FOR_WORKERS = 60
TLS = "tls://"
NEEDED = {"ca-file": "tls_ca_file", "client.cert": "tls_client_cert", "client.key": "tls_client_key"}
"""Keys of the configuration distributed.comm.tls, and the attributes of `distributed.Security` that hold them."""
# A process runs one point at a time, because thread count and precision are settings of the process.
_one_at_a_time = threading.Lock()


class Cluster:
    """A connection to a scheduler whose workers have this version of airfl. Closing it cancels unfinished points."""

    def __init__(self, address: str, device: str = "cpu") -> None:
        """Connect to the scheduler.

        Raises UserError if it does not answer, or its workers have another version, or none of them has the device.
        """
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
            # Not the default client, so that the caller's own use of Dask is not affected.
            self._client = client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False, security=security)
        except Exception as error:  # Dask raises various errors if what answers is not a scheduler
            cause = cause_of(error)
        if cause:
            # A client that failed to connect closes when it is collected, which can hang after another one has started.
            gc.collect()
            remedy = (
                "check that it was started with TLS, and trusts the authority of this client's certificate"
                if address.startswith(TLS)
                else "start one with `dask scheduler --host 127.0.0.1` and give its address, for instance "
                "tcp://127.0.0.1:8786, or tls://... if it was started with certificates"
            )
            raise UserError(f"--cluster: no scheduler answers at {address} ({cause}); {remedy}")
        try:
            self._check_workers(address)
            self._gpus = self._given_gpus(device) if is_gpu(device) else None
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        """Number of workers at the beginning. Each runs one point at a time."""
        return self._workers if self._gpus is None else len(self._gpus.devices)

    def run_jobs(
        self, jobs: Sequence[Job], data: Mapping[str | Dataset, RawData], task: bytes | None = None
    ) -> Iterator[Outcome]:
        """Run every job, and yield outcomes with their files as they arrive.

        Args:
            jobs: The points.
            data: Data sets by name, except that of a user-defined task.
            task: A serialised user-defined task.
        """
        import distributed

        as_completed: Any = distributed.as_completed
        client = self._client
        sent = {name: client.scatter(raw, broadcast=True, hash=False) for name, raw in data.items()}
        own = None if task is None else client.scatter(task, broadcast=True, hash=False)
        devices, options = ({}, {}) if self._gpus is None else (self._gpus.devices, self._gpus.options)
        futures = {
            client.submit(
                _run,
                packed_job(job),
                sent.get(job.settings.task.dataset),
                own,
                devices,
                pure=False,
                key=f"airfl-{job.name}-{id(sent)}",
                **options,
            ): job
            for job in jobs
        }
        for future in as_completed(list(futures), loop=client.loop):
            name = futures[future].name
            try:
                outcome = _checked(future.result(), name)
            except Exception as error:  # its workers or the scheduler are lost
                outcome = Outcome(name, f"lost by the cluster ({cause_of(error)})")
            # Release the result, so that it does not stay in the memory of the cluster.
            del futures[future]
            future.release()
            yield outcome

    def close(self) -> None:
        """Cancel unfinished points and disconnect."""
        self._client.close(timeout=SECONDS_TO_ANSWER)

    def _check_workers(self, address: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=SECONDS_TO_WAIT_FOR_WORKERS)
        except TimeoutError:
            raise UserError(
                f"--cluster: the scheduler at {address} has no workers; start some with `dask worker {address} "
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
            raise UserError(
                f"--cluster: the worker {where} must have airfl {__version__}, got {version}; install the same version"
            )

    def _given_gpus(self, device: str) -> Workers:
        """Return the workers that have a GPU, each with its own."""
        described = self._client.scheduler_info(n_workers=-1)["workers"]
        declared = [where for where, one in described.items() if (one.get("resources") or {}).get(RESOURCE)]
        return workers_for(device, self._client.run(seen), declared)


def _security(address: str) -> Any:
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


def _version() -> str:
    from airfl.version import __version__

    return __version__


def _run(
    packed: bytes, data: RawData | None, task: bytes | None = None, devices: Mapping[str, str] | None = None
) -> Outcome:
    """Run a point on a worker, in a temporary folder, and return its files as bytes.

    devices: the GPUs of the workers by address; a later worker uses the first GPU that it sees.
    """
    from airfl.analysis.results.digest import keep
    from airfl.simulation import run

    job = unpacked_job(packed)
    device = devices.get(_own_address(), job.device) if devices else job.device
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="airfl-") as parent:
        folder, begun = Path(parent) / job.name, time.monotonic()
        try:
            run(job.settings, folder, device, data=data, task=unpacked_task(task) if task else None)
            keep(folder)
        except Exception as error:
            return Outcome(job.name, cause_of(error))
        return Outcome(job.name, files=_files(folder), seconds=time.monotonic() - begun)


def _own_address() -> str:
    import distributed

    get_worker: Any = distributed.get_worker
    return str(get_worker().address)


def _files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in SENT}


def _checked(outcome: Outcome, name: str) -> Outcome:
    """Return what a worker has sent, which may be anything, as an outcome of the point with this name."""
    if not isinstance(outcome, Outcome) or outcome.name != name:
        return Outcome(name, "its worker did not send back the outcome of this point")
    if outcome.cause is not None:
        return Outcome(name, one_line(str(outcome.cause)))
    return outcome


def put(outcome: Outcome, running: Path) -> Outcome:
    """Write the files of an outcome that a worker has sent into running/NAME, and return the outcome.

    The returned outcome has failed if the worker has sent other files than those of a point. Files are written nowhere
    else, not through links, and replace only an earlier attempt.
    """
    if outcome.cause is not None:
        return outcome
    files: Mapping[str, Any] = outcome.files or {}
    folder = running / outcome.name
    unexpected = [name for name in files if name not in SENT]
    if unexpected or TRACE_NAME not in files or not all(isinstance(content, bytes) for content in files.values()):
        what = f"a file named {str(unexpected[0])!r}" if unexpected else f"no {TRACE_NAME}"
        return Outcome(
            outcome.name, one_line(f"its worker sent {what} instead of {' and '.join(SENT)}; all files are discarded")
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
