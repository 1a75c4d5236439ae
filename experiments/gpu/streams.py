"""Streams of the imitated GPU, which keep what they are given until somebody waits for it.

A real GPU executes the operations of a stream in their order, and those of different streams in any order that the
events allow. Here each stream is as late as it may be: an operation happens only when the CPU, or a stream that the CPU
waits for, waits for it. Until then its result holds nan, or 0 for integers. Where a wait is missing, the numbers are
wrong; on a real GPU they would be wrong now and then.

Memory is imitated as torch's allocator gives it out: when the last tensor of some memory is gone, the stream on which
it was made may overwrite it, unless `record_stream` has named a stream that still reads it.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass
class _Given:
    """Something that a stream was given: an operation, or to wait for an event. reads: the memory that it uses."""

    happen: Callable[[], None]
    reads: frozenset[int] = frozenset()


@dataclass
class _Memory:
    """Some memory: a tensor of it, how many others there are, where it was made, and which streams still read it."""

    held: Tensor
    home: Stream
    count: int = 0
    recorded: set[int] = field(default_factory=set)


class Streams:
    """The streams of an imitated GPU."""

    def __init__(self, late: bool, note: Callable[[str], None]) -> None:
        """late: whether operations are kept until somebody waits for them. note: is told when the CPU waits."""
        self.late, self.note = late, note
        self.all: list[Stream] = []
        self.usual = Stream(self)
        self.current = self.usual
        self._memory: dict[int, _Memory] = {}

    def synchronize(self, *_: object) -> None:
        """Let everything happen that any stream was given."""
        for stream in self.all:
            stream.synchronize()

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        """Give the operations of the block to a stream."""
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def give(self, happen: Callable[[], None], tensors: Sequence[Tensor] = ()) -> None:
        """Give the current stream something that uses these tensors."""
        if not self.late:
            happen()
            return
        self.current.give(_Given(happen, frozenset(map(_memory_of, tensors))))

    def result(self, compute: Callable[[], Any], found: Any, tensors: Sequence[Tensor]) -> None:
        """Give the current stream the computation of a result whose tensors exist. They hold nothing until then."""
        parts = tensors_of(found)
        for part in parts:
            spoil(part)

        def happen() -> None:
            for into, part in zip(parts, tensors_of(compute()), strict=True):
                into.copy_(part)

        self.give(happen, [*tensors, *parts])

    def own(self, owner: object, held: Tensor) -> None:
        """Note that the owner, a tensor of the GPU, uses the memory of `held`."""
        if self.late:
            key = _memory_of(held)
            memory = self._memory.setdefault(key, _Memory(held, self.current))
            memory.count += 1
            weakref.finalize(owner, self._release, key)

    def record(self, held: Tensor, stream: Stream) -> None:
        """Imitate `Tensor.record_stream`."""
        if self.late:
            self._memory[_memory_of(held)].recorded.add(id(stream))

    def _release(self, key: int) -> None:
        memory = self._memory[key]
        memory.count -= 1
        if memory.count:
            return
        del self._memory[key]
        others = (one for one in self.all if one is not memory.home and id(one) not in memory.recorded)
        if any(one.is_to_read(key) for one in others):
            memory.home.give(_Given(functools.partial(spoil, memory.held)))


class Stream:
    """A stream; its methods are those of `torch.cuda.Stream`."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._waiting: deque[_Given] = deque()
        self._happened = 0
        streams.all.append(self)

    def give(self, given: _Given) -> None:
        """Take something that is to happen after everything before it."""
        self._waiting.append(given)

    def is_to_read(self, key: int) -> bool:
        """Whether something that has not happened uses this memory."""
        return any(key in one.reads for one in self._waiting)

    def wait_stream(self, other: Stream) -> None:
        """Let what follows happen after everything that the other stream was given so far."""
        self.wait_event(other.record_event())

    def wait_event(self, event: Event) -> None:
        """Let what follows happen after the event."""
        self.give(_Given(event.happen))

    def record_event(self) -> Event:
        """Return an event after everything that the stream was given so far."""
        event = Event(self._streams)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """Let everything happen."""
        self.happen(self.position)

    @property
    def position(self) -> int:
        """How much the stream was given so far."""
        return self._happened + len(self._waiting)

    @torch.no_grad()
    def happen(self, position: int) -> None:
        """Let everything happen that was given up to a position."""
        while self._happened < position:
            self._happened += 1
            self._waiting.popleft().happen()


class Event:
    """An event in a stream; its methods are those of `torch.cuda.Event`."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._recorded: tuple[Stream, int] | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Place the event after everything that the stream, by default the current one, was given so far."""
        stream = stream or self._streams.current
        self._recorded = stream, stream.position

    def happen(self) -> None:
        """Let everything happen that is before the event."""
        if self._recorded:
            self._recorded[0].happen(self._recorded[1])

    def synchronize(self) -> None:
        """Wait for the event."""
        self._streams.note("Event.synchronize")
        self.happen()


def spoil(tensor: Tensor) -> None:
    """Overwrite a tensor with nan, or with 0, which is an index of everything, if it is of integers."""
    tensor.fill_(torch.nan if tensor.is_floating_point() or tensor.is_complex() else 0)


def tensors_of(values: Any) -> list[Tensor]:
    """Return the tensors of a result of an operation."""
    several = values if isinstance(values, tuple | list) else (values,)
    return [part for part in several if isinstance(part, Tensor)]


def _memory_of(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
