"""What a stage is, and how stages are chained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.streams import Streams

if TYPE_CHECKING:
    from torch import Tensor, device


@dataclass(frozen=True)
class Batch:
    """Messages of a chunk of devices: row i is scale[i] * values[i].

    values: [chunk, m]; scale: [chunk]. A factor for a whole device (a clip, a weight) goes into `scale`, so that no
    stage copies the values for it and the superposition applies all factors in its one pass. known_norms: l2 norms of
    the rows of values, [chunk], where somebody has computed them already.
    """

    values: Tensor
    scale: Tensor
    known_norms: Tensor | None = None

    @property
    def norms(self) -> Tensor:
        """l2 norms of the rows of values, [chunk]."""
        return self.values.norm(dim=1) if self.known_norms is None else self.known_norms

    def scaled(self, factors: Tensor) -> Batch:
        """Every message times its factor, [chunk]."""
        return replace(self, scale=self.scale * factors)


@dataclass(frozen=True)
class MessageBound:
    """Known of a message before training: its length m, its l2 norm <= peak, sqrt(E norm^2) <= rms."""

    entries: int
    peak: float
    rms: float


@dataclass(frozen=True)
class Coder:
    """A stage in one round.

    encode: chunk of messages -> chunk of messages; decode: the mean message [m_after] -> [m_before]; noise_gain: what
    decode multiplies noise on an entry by; coordinates: the entries of the update that are sent, where the stage
    chooses them.
    """

    encode: Callable[[Batch], Batch]
    decode: Callable[[Tensor], Tensor]
    noise_gain: float = 1.0
    coordinates: NDArray[np.int64] | None = None


class Stage(Protocol):
    """One step of the encoder."""

    def bound(self, before: MessageBound) -> MessageBound:
        """What is known of the message after this stage, given what is known before it."""
        ...

    def open(self, streams: Streams, round_index: int, device: device) -> Coder:
        """The stage in round t: what server and devices share (a mask) is drawn here."""
        ...


def bound_after(stages: Sequence[Stage], dimension: int) -> MessageBound:
    """The bound on the message that leaves the last stage; an update as trained has none."""
    bound = MessageBound(dimension, float("inf"), float("inf"))
    for stage in stages:
        bound = stage.bound(bound)
    return bound


def open_encoder(stages: Sequence[Stage], streams: Streams, round_index: int, device: device) -> Coder:
    """All stages of a round as one: encode left to right, decode right to left."""
    coders = [stage.open(streams, round_index, device) for stage in stages]

    def encode(batch: Batch) -> Batch:
        for coder in coders:
            batch = coder.encode(batch)
        return batch

    def decode(mean: Tensor) -> Tensor:
        for coder in reversed(coders):
            mean = coder.decode(mean)
        return mean

    chosen = [coder.coordinates for coder in coders if coder.coordinates is not None]
    return Coder(
        encode=encode,
        decode=decode,
        noise_gain=float(np.prod([coder.noise_gain for coder in coders])),
        coordinates=chosen[0] if chosen else None,
    )
