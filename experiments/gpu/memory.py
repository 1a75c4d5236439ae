"""Memory and operations of a round without training, from encoding to superposition and back, at any size.

The tensors are those of the imitated GPU without numbers (`imitation.imitated_gpu`), so that d = 10^7 needs no memory.
After each operation, the bytes of all tensors that are alive are added up. What an operation allocates and frees within
itself is not seen. Random numbers are drawn in place, as Triton's kernels do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from airfl.core.round import exchange
from airfl.core.state import State
from airfl.runtime.philox import gpu
from experiments.gpu.imitation import CUDA, OnGpu, imitated_gpu
from experiments.gpu.recording import is_view
from experiments.gpu.rows import IMITATED, Given, Row, figure, guarded
from experiments.gpu.worlds import short_settings, untrained_world

SCHEMES = ("fedavg", "pfels", "wfl-p", "dp-fedavg", "fed-smp-randk", "obda")
"""Those whose encoders select no coordinates by the updates themselves, which have no numbers here."""
FLOAT_BYTES = 4
SAMPLES = 50


@dataclass
class Meter(TorchDispatchMode):  # type: ignore[misc]
    """Counts operations, and the bytes of the imitated GPU's tensors that are alive after each of them.

    Attributes:
        operations: Operations so far, without those that only return a view.
        peak_bytes: Most bytes that were alive.
        at_peak: Bytes of each tensor that was alive then.
    """

    operations: int = 0
    peak_bytes: int = 0
    at_peak: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        on_gpu = [part for part in tree_flatten((args, kwargs, result))[0] if isinstance(part, OnGpu)]
        self.operations += bool(on_gpu) and not is_view(operation)
        self.meet(on_gpu)
        return result

    def meet(self, tensors: Sequence[Tensor]) -> None:
        """Take tensors into account, and see what is alive."""
        for tensor in tensors:
            storage = cast(OnGpu, tensor).held.untyped_storage()
            held = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            self._alive[held.cdata] = (held, storage.nbytes())
        self._alive = {key: one for key, one in self._alive.items() if not one[0].expired()}  # type: ignore[no-untyped-call]
        alive = tuple(size for _, size in self._alive.values())
        if sum(alive) > self.peak_bytes:
            self.peak_bytes, self.at_peak = sum(alive), alive


@dataclass(frozen=True)
class Use:
    """What a round without training uses on a GPU.

    Attributes:
        dimension: d.
        updates: Devices in a chunk, whose updates [chunk, d] lie there all the time.
        peak_bytes: Most bytes alive, the updates and the model among them.
        at_peak: Bytes of each tensor alive then.
        operations: Operations that the GPU is given.
    """

    dimension: int
    updates: int
    peak_bytes: int
    at_peak: tuple[int, ...]
    operations: int

    @property
    def vectors_beside(self) -> float:
        """Bytes at the peak beside the updates, as multiples of d numbers."""
        return self.peak_bytes / (FLOAT_BYTES * self.dimension) - self.updates

    @property
    def matrices(self) -> float:
        """Bytes at the peak as multiples of the updates."""
        return self.peak_bytes / (FLOAT_BYTES * self.dimension * self.updates)


@contextmanager
def kernels_of_random_numbers() -> Iterator[None]:
    """Let an operation in place stand for each kernel of Triton that draws random numbers, as on a GPU that has it."""

    def in_place(rows: Tensor) -> None:
        rows.add_(0.0)

    with (
        mock.patch.object(gpu, "kernels_for", return_value=gpu),
        mock.patch.object(gpu, "put", lambda _kernels, _kind, rows, *_, **__: in_place(rows)),
        mock.patch.object(gpu, "add_fair_binomials", lambda _kernels, rows, *_, **__: in_place(rows)),
    ):
        yield


def use_of(scheme: str, dimension: int, devices: int, *overrides: str) -> Use:
    """Return what the exchange of a round of a scheme uses, all devices in one chunk."""
    settings = short_settings(scheme, f"run.selected={devices}", f"run.devices={4 * devices}", *overrides)
    with imitated_gpu(hollow=True), kernels_of_random_numbers():
        same, parameters = (torch.zeros(size, device=CUDA) for size in ((devices, dimension), (dimension,)))
        world = untrained_world(settings, same, 4 * devices, SAMPLES)
        with Meter() as meter:
            meter.meet([same, parameters])
            exchange(world, State(0, parameters, world.scenario.memory))
    return Use(dimension, devices, meter.peak_bytes, meter.at_peak, meter.operations)


def memory(given: Given) -> Iterator[Row]:
    """Yield bytes at the peak and operations of a round at d = 10^7 and r = 32, for schemes of all kinds."""
    if given.place == IMITATED:
        yield figure("memory", "as on the CPU, where the imitated GPU is one without numbers")
        return
    dimension, devices = given.pick((10_000_000, 32), (100_000, 8))
    for scheme in SCHEMES:
        yield from guarded(scheme, functools.partial(_used, scheme, dimension, devices))


def _used(scheme: str, dimension: int, devices: int) -> Iterator[Row]:
    use = use_of(scheme, dimension, devices)
    what = f"{scheme}, d = {dimension:,}, r = {devices}"
    peak = f"{use.matrices:.3f} r d, which is the updates and {use.vectors_beside:.2f} d"
    yield figure(f"{what}: numbers of 4 bytes alive at the peak", peak)
    yield figure(f"{what}: operations from encoding to the decoded mean", use.operations)
