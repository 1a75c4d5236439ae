"""What a stage is, and how stages are chained."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.store import Kept, Store
from airfl.streams import Streams

if TYPE_CHECKING:
    from torch import Tensor, device

Ids = NDArray[np.int64]

BITS_PER_VALUE = 32


@dataclass(frozen=True)
class Batch:
    """Messages of a chunk of devices: row i is scale[i] * values[i].

    Attributes:
        values: The messages before `scale`, [chunk, m].
        scale: Factor of each device, [chunk]. A factor for a whole device (a clip, a weight) goes in here, so that no
            stage copies the values for it and the superposition applies all factors in its one pass.
        known_norms: l2 norms of the rows of `values`, of whole messages, [chunk]; None where nobody has computed them
            yet.
        rows: Which devices of the round they are.
        coordinates: Coordinates of the update that the values belong to, [m]; None for all d.
        part: Which entries of the messages the values are, where they come a slab at a time (`Coder.by_entry`); None
            for all m.
    """

    values: Tensor
    scale: Tensor
    known_norms: Tensor | None = None
    rows: slice = field(default_factory=lambda: slice(None))
    coordinates: NDArray[np.int64] | None = None
    part: slice | None = None

    @property
    def norms(self) -> Tensor:
        """l2 norms of the rows of values, [chunk]; of whole messages, so that a part needs to be told them."""
        assert self.known_norms is not None or self.part is None
        return self.values.norm(dim=1) if self.known_norms is None else self.known_norms

    @property
    def messages(self) -> Tensor:
        """The messages themselves, scale applied, [chunk, m]."""
        return self.values * self.scale.unsqueeze(1)

    def scaled(self, factors: Tensor) -> Batch:
        """Every message times its factor, [chunk]."""
        return replace(self, scale=self.scale * factors)

    def of(self, messages: Tensor) -> Batch:
        """The same devices and coordinates with other messages, [chunk, m], scale 1."""
        return replace(self, values=messages, scale=self.scale.new_ones(len(messages)), known_norms=None)


@dataclass(frozen=True)
class MessageBound:
    """What is known of a message before training.

    Attributes:
        entries: m, its length as it is added up.
        peak: Bound on its l2 norm.
        rms: Bound on sqrt(E norm^2) of its l2 norm.
        sensitivity: How far a device's data moves it, in l2 norm; inf for no bound.
        noise_std: Standard deviation of the noise that the device itself has put on an entry, Gaussian unless its stage
            says otherwise.
        values: Numbers that a device sends, fewer than m where each has coordinates of its own; -1 for m.
        value_bits: Bits of each of them on a digital link.
        side_bits: Bits of what else a message needs on a digital link, such as the names of its coordinates.
        mask_bits: Bits that the server sends down to name the coordinates.
        kept: What a device keeps between rounds for it.
    """

    entries: int
    peak: float
    rms: float
    sensitivity: float = math.inf
    noise_std: float = 0.0
    values: int = -1
    value_bits: float = BITS_PER_VALUE
    side_bits: int = 0
    mask_bits: int = 0
    kept: tuple[Kept, ...] = ()

    @property
    def sent_values(self) -> int:
        """Numbers that a device sends."""
        return self.entries if self.values < 0 else self.values

    @property
    def payload_bits(self) -> int:
        """Bits of a message on a digital link."""
        return math.ceil(self.sent_values * self.value_bits) + self.side_bits


@dataclass(frozen=True)
class Round:
    """What a stage is opened with.

    Attributes:
        streams: Random numbers of the run.
        index: t, from 0.
        device: Torch device on which the messages are.
        devices: S^t, ids of the selected devices, [r].
        heard: Whose messages will arrive, [r]; known before training since it depends on the channel alone.
        store: What devices and server keep.
        public_update: The server's own update of theta^t on public data, [d], computed when asked for.
        own_noise: Factor of this round on the noise that the stages put on messages by themselves.
    """

    streams: Streams
    index: int
    device: device
    devices: Ids
    heard: NDArray[np.bool_]
    store: Store
    public_update: Callable[[], Tensor]
    own_noise: float = 1.0


@dataclass(frozen=True)
class Coder:
    """A stage in one round.

    Attributes:
        encode: Chunk of messages -> chunk of messages.
        decode: The mean message [m_after] -> [m_before].
        noise_gain: What `decode` multiplies noise on an entry by.
        coordinates: Coordinates of the update that are sent, [m], where the stage chooses them for all devices; None
            elsewhere.
        expand: What single messages stand for, [chunk, m_after] -> [chunk, m_before]; None where they stand for
            themselves.
        by_entry: Whether a slab of entries may be encoded without the others, and needs no more than their norms.
        needs_norms: Whether it needs the norms of whole messages.
    """

    encode: Callable[[Batch], Batch]
    decode: Callable[[Tensor], Tensor]
    noise_gain: float = 1.0
    coordinates: NDArray[np.int64] | None = None
    expand: Callable[[Tensor], Tensor] | None = None
    by_entry: bool = False
    needs_norms: bool = False


class Stage(Protocol):
    """One step of the encoder."""

    def bound(self, before: MessageBound) -> MessageBound:
        """What is known of the message after this stage, given what is known before it."""
        ...

    def open(self, opened: Round) -> Coder:
        """The stage in round t: what server and devices share (a mask) is drawn here."""
        ...


def bound_after(stages: Sequence[Stage], dimension: int) -> MessageBound:
    """The bound on the message that leaves the last stage; an update as trained has none."""
    bound = MessageBound(dimension, math.inf, math.inf)
    for stage in stages:
        bound = stage.bound(bound)
    return bound


def open_encoder(stages: Sequence[Stage], opened: Round) -> Coder:
    """All stages of a round as one: encode left to right, decode right to left."""
    coders = [stage.open(opened) for stage in stages]

    def encode(batch: Batch) -> Batch:
        for coder in coders:
            batch = coder.encode(batch)
        return batch

    def decode(mean: Tensor) -> Tensor:
        for coder in reversed(coders):
            mean = coder.decode(mean)
        return mean

    def expand(messages: Tensor) -> Tensor:
        for coder in reversed(coders):
            messages = messages if coder.expand is None else coder.expand(messages)
        return messages

    chosen = [coder.coordinates for coder in coders if coder.coordinates is not None]
    return Coder(
        encode=encode,
        decode=decode,
        noise_gain=float(np.prod([coder.noise_gain for coder in coders])),
        coordinates=chosen[0] if chosen else None,
        expand=expand,
        # After the first stage norms of whole messages are no longer known.
        by_entry=all(coder.by_entry for coder in coders) and not any(coder.needs_norms for coder in coders[1:]),
        needs_norms=any(coder.needs_norms for coder in coders),
    )
