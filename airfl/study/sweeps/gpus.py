"""Which GPU each process or worker of a sweep uses, and how many processes share one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airfl.core.device import CUDA, check_among, is_gpu, number_of
from airfl.errors import UserError
from airfl.study.sweeps.job import GpuUse

CONTEXT_BYTES = 600_000_000
"""What CUDA takes of a GPU's memory for each process, beyond what torch reserves."""
SHARE_OF_ROOM = 0.9
"""Of a GPU's memory, for all processes of a sweep together."""
MOST_PER_GPU = 8
"""More processes than this take turns on a GPU without being faster together."""
RESOURCE = "GPU"
"""The resource that a Dask worker declares to be given points for a GPU (`dask worker --resources GPU=1`)."""


@dataclass(frozen=True)
class Processes:
    """The processes of a sweep on this machine.

    Attributes:
        devices: The devices among which they are spread in turn.
        number: How many there are; 0 for as many as fit on the GPUs by the memory of the first point.
        cores: Number of cores that they share.
    """

    devices: tuple[str, ...]
    number: int
    cores: int = 1

    def device(self, index: int) -> str:
        """Return the device of the process with this number."""
        return self.devices[index % len(self.devices)]

    @property
    def first(self) -> int:
        """How many processes to start with."""
        return self.number or len(self.devices)

    def fitting(self, use: GpuUse) -> int:
        """Return how many processes to have after a point of one that was alone on its GPU. use: what it took."""
        if self.number:
            return self.number
        taken = use.taken + CONTEXT_BYTES
        fitting = int(SHARE_OF_ROOM * (use.free + taken) // taken)
        a_core_each = self.cores // len(self.devices)
        return len(self.devices) * max(1, min(fitting, MOST_PER_GPU, a_core_each))


def processes_for(jobs: int, device: str, threads: int) -> Processes:
    """Return the processes of a sweep on this machine.

    With the device `cuda` they are spread over all visible GPUs, with `cuda:k` all are on that one.

    Args:
        jobs: How many the user asks for; 0 for as many as fit.
        device: cpu, cuda or cuda:k, which exists.
        threads: CPU threads of a point.
    """
    cores = max(1, _cores() // max(threads, 1))
    if not is_gpu(device):
        return Processes((device,), jobs or cores, cores)
    return Processes(_spread(device, jobs), jobs, cores)


def _spread(device: str, jobs: int) -> tuple[str, ...]:
    import torch

    count = torch.cuda.device_count()
    if number_of(device) is not None or count < 2 or jobs == 1:
        return (device,)
    return tuple(f"{CUDA}:{number}" for number in range(count))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_of(device: str) -> GpuUse | None:
    """Return what this process has taken of a GPU's memory at most, and what is free beside it; None for the CPU."""
    if not is_gpu(device):
        return None
    import torch

    number = number_of(device) or 0
    free, _ = torch.cuda.mem_get_info(number)
    now, peak = torch.cuda.memory_reserved(number), torch.cuda.max_memory_reserved(number)
    return GpuUse(peak, free + now - peak)


@dataclass(frozen=True)
class Seen:
    """The GPUs that a worker of a cluster sees.

    Attributes:
        host: Its machine.
        visible: Its CUDA_VISIBLE_DEVICES, "" if that is not set.
        count: Number of GPUs.
    """

    host: str
    visible: str
    count: int


def seen() -> Seen:
    """Return the GPUs that this process sees."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return Seen(socket.gethostname(), os.environ.get("CUDA_VISIBLE_DEVICES", ""), count)


@dataclass(frozen=True)
class Workers:
    """The workers of a cluster that have a GPU.

    Attributes:
        devices: The device of each by address.
        by_resource: Whether Dask finds workers by the resource GPU, later ones among them; else only these are used.
    """

    devices: Mapping[str, str]
    by_resource: bool

    @property
    def options(self) -> dict[str, object]:
        """Options of Dask's `submit` that keep points on these workers."""
        if self.by_resource:
            return {"resources": {RESOURCE: 1}}
        return {"workers": list(self.devices), "allow_other_workers": False}


def workers_for(
    device: str, found: Mapping[str, Seen], declared: Iterable[str] = (), before: Mapping[str, str] | None = None
) -> Workers:
    """Give every worker a GPU.

    Workers on one machine that see the same GPUs share them in turn. A worker that sees only its own, as those of
    dask-cuda and those that were started with CUDA_VISIBLE_DEVICES do, has the first that it sees.

    Args:
        device: cuda or cuda:k, which is then that of every worker.
        found: What each worker sees, by address.
        declared: Addresses of the workers that declare the resource GPU; if there are any, the others are not used.
        before: The GPUs that workers have already, by address. They keep them.

    Raises UserError if no worker has a GPU, or one has no GPU number k.
    """
    declared = set(declared)
    usable = {where: one for where, one in found.items() if one.count and (not declared or where in declared)}
    if not usable:
        raise UserError(
            "--device: no worker of the cluster has a GPU; start one worker for each GPU, with `dask cuda worker` or "
            "with CUDA_VISIBLE_DEVICES=0 dask worker, or use --device cpu"
        )
    if number_of(device) is not None:
        for where, one in usable.items():
            check_among(device, one.count, where=f"at the worker {where}")
        return Workers(dict.fromkeys(usable, device), bool(declared))
    return Workers(_in_turn(usable, sorted(usable), before or {}), bool(declared))


def _in_turn(usable: Mapping[str, Seen], order: Sequence[str], before: Mapping[str, str]) -> dict[str, str]:
    devices = {where: before[where] for where in order if where in before}
    for where in order:
        if where in devices:
            continue
        one = usable[where]
        near = [other for other in devices if (usable[other].host, usable[other].visible) == (one.host, one.visible)]
        taken = [devices[other] for other in near]
        devices[where] = min((f"{CUDA}:{number}" for number in range(one.count)), key=taken.count)
    return devices
