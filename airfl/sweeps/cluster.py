"""Points on a cluster, through a Dask scheduler: `pip install "airfl[cluster]"`.

The scheduler's workers need airfl, and neither the data nor the sweep's folder: a data set is sent to each worker once,
a finished point's files come back. A worker that goes away loses the points it was at to the others.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from airfl.errors import MachineError, UserError
from airfl.sweeps.task import Job, Outcome, cause_of
from airfl.tasks.datasets.raw import RawData
from airfl.version import __version__

SECONDS_TO_ANSWER = 15
SECONDS_TO_WAIT_FOR_WORKERS = 60
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
        try:
            client: Any = distributed.Client
            # The caller's own use of Dask, if any, goes on as it was.
            self._client = client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UserError(
                f"--cluster: no scheduler answers at {address} ({cause_of(error)}); start one with `dask scheduler` "
                "and give its address, for instance tcp://10.0.0.1:8786"
            ) from None
        try:
            self._check_workers(address)
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        """How many there were at the beginning; each runs one point at a time."""
        return self._workers

    def run_jobs(self, jobs: Sequence[Job], data: Mapping[str, RawData]) -> Iterator[Outcome]:
        """Run every job; outcomes with their files, as they come. data: by the name of the data set."""
        import distributed

        as_completed: Any = distributed.as_completed
        client = self._client
        sent = {name: client.scatter(raw, broadcast=True, hash=False) for name, raw in data.items()}
        futures = {
            client.submit(
                _run, job, sent[job.settings.task.dataset], pure=False, key=f"airfl-{job.name}-{id(sent)}"
            ): job
            for job in jobs
        }
        for future in as_completed(list(futures), loop=client.loop):
            name = futures[future].name
            try:
                outcome: Outcome = future.result()
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


def _version() -> str:
    from airfl.version import __version__

    return __version__


def _run(job: Job, data: RawData) -> Outcome:
    """On a worker: the run in a folder of its own, its files as bytes."""
    from airfl.results.digest import keep
    from airfl.simulation import run

    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="airfl-") as parent:
        folder, begun = Path(parent) / job.name, time.monotonic()
        try:
            run(job.settings, folder, job.device, data=data)
            keep(folder)
        except Exception as error:
            return Outcome(job.name, cause_of(error))
        return Outcome(job.name, files=_files(folder), seconds=time.monotonic() - begun)


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def put(outcome: Outcome, running: Path) -> None:
    """Write the files of an outcome that came from elsewhere into running/NAME."""
    files: Mapping[str, Any] = outcome.files or {}
    folder = running / outcome.name
    if files:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
