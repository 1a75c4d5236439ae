"""Indices as sequences that all devices share, and the number of devices that sent each, from their superposition
(Qiao, Gao, Boloursaz Mashhadi and Gunduz 2024, "Massive digital over-the-air computation")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from airfl.runtime.streams import Purpose
from airfl.uplinks.stages import kernels
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round
from channels.count_detection import detect_counts, sequences
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.runtime.streams import Streams


@dataclass(frozen=True)
class IndexSequences:
    """An index q of each block is sent as the q-th of Q sequences of norm 1; the receiver counts the devices of each.

    Decoding gives the share of the devices that sent each index in each block, [blocks Q]. Nobody tells the receiver
    how many send: it is what the rounded counts of most blocks add up to.

    Attributes:
        words: Q, the number of sequences.
        length: Entries of a sequence, two of which share a resource element with grid.packing = iq.
        iterations: Largest number of iterations of `detect_counts`.
        most: Largest count that is considered. It must not depend on a sample whose size is secret. None for the number
            of selected devices.
    """

    words: int
    length: int
    iterations: int
    most: int | None = None

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the norm sqrt(B) of every message; a device without data would send none."""
        norm = math.sqrt(before.entries)
        return replace(
            before,
            entries=before.entries * self.length,
            peak=norm,
            rms=norm,
            sensitivity=norm,
            values=-1,
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder. The sequences are the same in all rounds; noise_gain is nan, as counting is not linear."""
        import torch

        matrix = _sequences(opened.streams, self.words, self.length)
        columns = on_device(matrix, opened.device, torch.float32)
        rows = columns.T.contiguous()
        selected = len(opened.devices)
        most = selected if self.most is None else self.most
        divisor = selected if opened.divisor is None else opened.divisor

        def encode(batch: Batch) -> Batch:
            indices = batch.values.long()
            sent = rows.index_select(0, indices.view(-1)).view(len(indices), -1)
            norms = sent.new_full((len(sent),), math.sqrt(indices.shape[1]))
            return Batch(sent, batch.scale, norms, batch.rows)

        def decode(mean: Tensor) -> Tensor:
            received = (mean * divisor).view(-1, self.length)
            steps = kernels.steps_for(received, columns)
            counts = detect_counts(received, columns, most, self.iterations, steps=steps).counts
            return (counts / max(total_of(counts), 1)).view(-1)

        def expand(messages: Tensor) -> Tensor:
            found = (messages.reshape(-1, self.length) @ columns).argmax(dim=1)
            return found.view(len(messages), -1).to(messages.dtype)

        return Coder(encode, decode, noise_gain=math.nan, expand=expand)


def total_of(counts: Tensor) -> int:
    """Return what the rounded counts of most blocks add up to, the least of equally frequent sums."""
    import torch

    if not len(counts):
        return 0
    sums = counts.round().sum(dim=1).clamp(min=0).long()
    return int(torch.bincount(sums).argmax())


@lru_cache(maxsize=8)
def _sequences(streams: Streams, words: int, length: int) -> np.ndarray:
    matrix = sequences(words, length, streams.generator(Purpose.SEQUENCES))
    matrix.flags.writeable = False
    return matrix
