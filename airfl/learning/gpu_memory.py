"""How many devices are trained at once on a GPU, found by measuring the memory that one and two of them take."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from airfl.errors import UserError

SHARE_OF_FREE = 0.5
"""Of the free memory, for the training of a run: encoding, the channel and evaluation need the rest."""
SHARE_OF_ALL = 0.125
"""Of the whole memory, for the training of a sweep's point, so that it does not depend on what else runs there."""
LARGEST_OF_FREE = 0.9
"""Of the free memory, at most, also for a point of a sweep."""
log = logging.getLogger(__name__)


class Memory(Protocol):
    """The memory of a device."""

    def free_and_all(self) -> tuple[int, int]:
        """Return the free bytes and all bytes of the device."""
        ...

    def peak_of(self, work: Callable[[], object]) -> int:
        """Do the work, and return the most bytes that it had allocated at a time."""
        ...

    def release(self) -> None:
        """Give cached memory back to the device."""
        ...


@dataclass(frozen=True)
class GpuMemory:
    """The memory of a GPU.

    Attributes:
        device: Its torch device.
    """

    device: torch.device

    def free_and_all(self) -> tuple[int, int]:
        """Return the free bytes, those of torch's cache included, and all bytes of the GPU."""
        self.release()
        free, whole = torch.cuda.mem_get_info(self.device)
        return free, whole

    def peak_of(self, work: Callable[[], object]) -> int:
        """Do the work, and return the most bytes that it had allocated at a time, beyond those allocated before."""
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        work()
        torch.cuda.synchronize(self.device)
        return torch.cuda.max_memory_allocated(self.device) - before

    def release(self) -> None:
        """Give what torch has cached back to the GPU."""
        torch.cuda.empty_cache()


def measured_chunk(train: Callable[[int], object], most: int, device: torch.device, measure: bool) -> int:
    """Return `fitting_chunk` for a GPU; the arguments are those of `fitting_chunk` and `allowed_bytes`."""
    memory = GpuMemory(device)
    return fitting_chunk(train, most, memory, allowed_bytes(memory, measure))


def allowed_bytes(memory: Memory, measure: bool) -> int:
    """Return how much memory training may take.

    Args:
        memory: The GPU's.
        measure: Whether the choice may depend on what is free now. It may not for a point of a sweep (local.measure).
    """
    free, whole = memory.free_and_all()
    return int(SHARE_OF_FREE * free if measure else min(SHARE_OF_ALL * whole, LARGEST_OF_FREE * free))


def fitting_chunk(train: Callable[[int], object], most: int, memory: Memory, limit: int) -> int:
    """Return the largest number of devices that can be trained at once within a limit, 1 to `most`.

    The peak is measured with one device and with two. The line through both gives the number, which is then tried, and
    halved where it takes more than the limit or does not fit.

    Args:
        train: Trains so many devices, with the largest data sets; what it returns is not used.
        most: Largest number.
        memory: The GPU's.
        limit: Bytes that training may take.

    Raises UserError if the memory does not suffice for a single device.
    """
    _tried(train, 1, memory)  # the first call also allocates what libraries keep, which is not part of the slope
    one = _tried(train, 1, memory)
    if one is None:
        free = memory.free_and_all()[0]
        raise UserError(
            f"--device: training one device does not fit into the GPU's free memory of {free / 1e6:,.0f} MB; end what "
            "else runs there, or use a smaller model, a smaller local.batch_size, or --device cpu"
        )
    two = _tried(train, 2, memory) if most > 1 else None
    if two is None:
        return 1
    slope = max(two - one, 0)
    fixed = one - slope
    chunk = most if not slope else max(1, min(most, (limit - fixed) // slope))
    while chunk > 2:
        peak = _tried(train, chunk, memory)
        if peak is not None and peak <= limit:
            break
        chunk //= 2
    else:
        chunk = 2 if chunk > 1 and two <= limit else 1
    memory.release()
    return int(chunk)


def _tried(train: Callable[[int], object], chunk: int, memory: Memory) -> int | None:
    """Return the peak of training so many devices, None if there was not enough memory."""
    try:
        return memory.peak_of(lambda: train(chunk))
    except torch.cuda.OutOfMemoryError:
        pass  # the exception holds on to the tensors of the failed call until here
    memory.release()
    return None


class Halved:
    """Computes updates of devices in parts, which are halved for the rest of the run if the GPU's memory is exhausted.

    The parts give the same updates up to rounding. `most` is the number of devices in a part, None for all at once.
    """

    def __init__(self) -> None:
        self.most: int | None = None

    def __call__(self, updates_of: Callable[[slice], Tensor], devices: int) -> Tensor:
        """Return the updates of all devices, [devices, d].

        updates_of: rows of the devices -> their updates; it must change nothing, because it may be called again.
        """
        parts: list[Tensor] = []
        done = 0
        while done < devices or not parts:
            part = slice(done, min(done + (self.most or devices), devices))
            found = self._without_failing(updates_of, part)
            if found is not None:
                parts.append(found)
                done = part.stop
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _without_failing(self, updates_of: Callable[[slice], Tensor], part: slice) -> Tensor | None:
        """Return the updates of a part; None, with smaller parts from here on, if there was not enough memory."""
        several = part.stop - part.start
        try:
            return updates_of(part)
        except torch.cuda.OutOfMemoryError:
            if several <= 1:
                raise
        self.most = several // 2
        torch.cuda.empty_cache()
        log.warning("the GPU's memory does not suffice for %d devices at once; now %d are", several, self.most)
        return None
