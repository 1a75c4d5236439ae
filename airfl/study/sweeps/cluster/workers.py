"""Which workers of a cluster are given points: those with this version of airfl and, if asked for, a GPU each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airfl.core.device import is_gpu
from airfl.errors import MachineError, UserError, one_line
from airfl.study.sweeps.gpus import RESOURCE, Seen, Workers, seen, workers_for
from airfl.study.sweeps.job import cause_of
from airfl.version import __version__

log = logging.getLogger(__name__)

NOBODY = "tcp://0.0.0.0:0"
"""An address that no worker has. Dask takes an empty list of workers for all workers."""

Versions = Mapping[str, "str | BaseException"]
"""The version of airfl of each worker by address, or the error of a worker that cannot import it."""


def asking_the_version() -> Callable[[], str]:
    """Return a function that returns the version of airfl where it is called. It does not need this module there."""

    def version() -> str:  # Dask sends what is defined inside a function as code
        from airfl.version import __version__

        return __version__

    return version


class Pool:
    """The workers to which points are given.

    Attributes:
        devices: The GPU of each by address; {} if points run on CPUs.
        options: Options of Dask's `submit` that keep points on these workers; {} for all workers, later ones included.
    """

    def __init__(self, client: Any, device: str) -> None:
        """Look at the workers that are there. Raises UserError if one has another version, or none has the device."""
        self._device, self._seen = device, dict[str, Seen]()
        self._others = set[str]()  # workers of another version
        self.devices: Mapping[str, str] = {}
        self.options: Mapping[str, object] = {}
        versions: Versions = client.run(asking_the_version(), on_error="return")
        for where, version in versions.items():
            if isinstance(version, BaseException):
                raise MachineError(f"--cluster: a worker cannot import airfl ({cause_of(version)}); install it there")
            if version != __version__:
                raise UserError(
                    f"--cluster: the worker {where} must have airfl {__version__}, got {version}; install the same "
                    "version"
                )
        self._good = set(versions)
        self._settle(client)

    @property
    def is_empty(self) -> bool:
        """Whether none of the workers that are there has this version."""
        return not self._good

    @property
    def size(self) -> int:
        """Number of workers. Each runs one point at a time."""
        return len(self.devices) or len(self._good)

    def look(self, client: Any, workers: Iterable[str]) -> bool:
        """Update the pool to the workers that are there now, given by address.

        A new worker of another version is given no points, and is reported once in a line. Return whether points that
        have been submitted must be submitted again to reach the right workers.
        """
        there = set(workers)
        self._good, self._others = self._good & there, self._others & there
        unknown = sorted(there - self._good - self._others)
        new: Versions = client.run(asking_the_version(), workers=unknown, on_error="return") if unknown else {}
        for where, version in new.items():
            if version == __version__:
                self._good.add(where)
            elif not isinstance(version, OSError):  # else it is lost already
                self._others.add(where)
                found = cause_of(version) if isinstance(version, BaseException) else f"airfl {version}"
                log.warning(
                    "%s",
                    one_line(
                        f"--cluster: the worker {where} must have airfl {__version__}, got {found}; it is given no "
                        "points"
                    ),
                )
        before = dict(self.options)
        self._settle(client)
        return bool(before or self.options) and before != dict(self.options)

    def _settle(self, client: Any) -> None:
        good = sorted(self._good)
        if is_gpu(self._device):
            gpus = self._gpus(client, good)
            if gpus is not None:
                self.devices, self.options = gpus.devices, gpus.options
            good = sorted(self.devices)
        else:
            self.options = {}
        if self._others:
            self.options = {**self.options, "workers": good or [NOBODY], "allow_other_workers": False}

    def _gpus(self, client: Any, good: list[str]) -> Workers | None:
        """Return the workers that have a GPU, each with its own; None if no worker is there any more."""
        new = [where for where in good if where not in self._seen]
        if new:
            found = client.run(seen, workers=new, on_error="ignore")
            self._seen.update(found)
        described = client.scheduler_info(n_workers=-1)["workers"]
        declared = [where for where in good if (described.get(where, {}).get("resources") or {}).get(RESOURCE)]
        there = {where: self._seen[where] for where in good if where in self._seen}
        if self.devices and not any(one.count for one in there.values()):
            return None
        return workers_for(self._device, there, declared, before=self.devices)
