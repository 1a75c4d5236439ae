"""Work of a GPU beside its usual queue, and numbers that come to the CPU without making it wait for the whole queue.

A GPU executes operations in the order in which the CPU gives them to a stream; different streams are independent unless
one waits for an event of the other. On a CPU, everything here happens at once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor


@functools.cache
def _stream_of(number: int, purpose: str) -> torch.cuda.Stream:
    return torch.cuda.Stream(number)  # type: ignore[no-untyped-call]


def _own_stream(device: torch.device, purpose: str) -> torch.cuda.Stream:
    return _stream_of(torch.cuda.current_device() if device.index is None else device.index, purpose)


def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the second stream of a GPU, one for the whole process.

    torch hands out its streams in turn, 32 of a kind, and keeps freed memory and a workspace for each of them. With one
    stream there is one such memory, and it is never the stream on which torch records CUDA graphs.
    """
    return _own_stream(device, "beside")


def recording_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream of a GPU on which CUDA graphs are recorded.

    Left to itself, `torch.cuda.graph` records all graphs of a process on a stream of the GPU of the first one, where
    the operations of another GPU are not recorded.
    """
    return _own_stream(device, "recording")


@contextmanager
def beside(device: torch.device, *read: Tensor) -> Iterator[None]:
    """Give the operations of the block to the second stream of a GPU; a CPU computes them as always.

    They begin after everything that the current stream was given before the block. What it is given later does not wait
    for them, so it must not write into a tensor that the block reads.

    Args:
        device: Where the operations are computed.
        read: Tensors of the current stream that the block reads. Their memory is not reused before it has done so.
    """
    if device.type != "cuda":
        yield
        return
    side = side_stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    for tensor in read:
        tensor.record_stream(side)
    with torch.cuda.stream(side):
        yield


@dataclass(frozen=True)
class Reading:
    """Numbers that a GPU may still be computing, on their way to the CPU.

    They are not accessible before they are there: `numbers` waits for them.
    """

    _place: Tensor
    _arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, numbers: Tensor) -> Reading:
        """Begin to read a tensor of any shape, in the current stream of its GPU."""
        if not numbers.is_cuda:
            return cls(numbers, None)
        place = torch.zeros(numbers.shape, dtype=numbers.dtype).pin_memory()
        place.copy_(numbers, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return cls(place, arrived)

    @property
    def under_way(self) -> bool:
        """Whether the CPU may have to wait for the numbers."""
        return self._arrived is not None

    def numbers(self) -> Tensor:
        """Return the numbers in the CPU's memory, after waiting for those of a GPU."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._place
