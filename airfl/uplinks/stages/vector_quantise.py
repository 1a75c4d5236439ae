"""Vector quantisation of an update, block by block, with a codebook that all devices share (Qiao, Gao, Boloursaz
Mashhadi and Gunduz 2024, "Massive digital over-the-air computation for communication-efficient federated edge
learning")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from airfl.runtime.streams import Purpose
from airfl.uplinks.stages.clip import clip_factor
from airfl.uplinks.stages.codebooks import (
    blocks_of,
    gaussian_codebook,
    nearest_words_of_rows,
    trained_codebook,
    word_std,
)
from airfl.uplinks.stages.stage import BITS_PER_VALUE, Batch, Coder, MessageBound, Round
from channels.transfer import on_device

if TYPE_CHECKING:
    from torch import Tensor

Codebook = Literal["public", "fixed"]


@dataclass(frozen=True)
class VectorQuantise:
    """x -> the index of the nearest of Q words for each of B = ceil(d/V) blocks of V entries, [B].

    Decoding takes the share of the devices that chose each word in each block, [B Q], to the mean of their words.

    Attributes:
        dimension: d, the number of entries of an update.
        words: Q, words of the codebook.
        length: V, entries of a word.
        limit: C, the norm of an update that words are drawn or scaled for.
        codebook: What the words are: "public" = trained by k-means on the server's update on public data, clipped to C;
            "fixed" = drawn once, normal with the rms entry of an update of norm C, and the word 0.
    """

    dimension: int
    words: int
    length: int
    limit: float
    codebook: Codebook = "public"

    @property
    def blocks(self) -> int:
        """B, blocks of an update."""
        return math.ceil(self.dimension / self.length)

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the bound on indices. A codebook that is trained is broadcast, 32 bits for every entry of a word."""
        norm = (self.words - 1) * math.sqrt(self.blocks)
        trained = self.codebook != "fixed"
        return replace(
            before,
            entries=self.blocks,
            peak=norm,
            rms=norm,
            sensitivity=norm,
            noise_std=0.0,
            values=-1,
            value_bits=math.log2(self.words),
            mask_bits=before.mask_bits + trained * self.words * self.length * BITS_PER_VALUE,
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder, for which the codebook of the round is made."""
        import torch

        words = self._codebook(opened)

        def encode(batch: Batch) -> Batch:
            indices = nearest_words_of_rows(batch.values, batch.scale, words)
            return Batch(indices, torch.ones_like(batch.scale), rows=batch.rows)

        def decode(shares: Tensor) -> Tensor:
            means = shares.view(self.blocks, self.words) @ words.to(shares.dtype)
            return means.reshape(-1)[: self.dimension]

        def expand(indices: Tensor) -> Tensor:
            return words[indices.long()].reshape(len(indices), -1)[:, : self.dimension]

        return Coder(encode, decode, noise_gain=math.nan, expand=expand)

    def _codebook(self, opened: Round) -> Tensor:
        """Return the words of this round, [Q, V]."""
        import torch

        if self.codebook == "fixed":
            drawn = gaussian_codebook(
                self.words,
                self.length,
                word_std(self.limit, self.dimension),
                opened.streams.generator(Purpose.CODEBOOK),
            )
            return on_device(drawn, opened.device, torch.float32)
        update = opened.public_update()
        clipped = update * clip_factor(update.norm(), self.limit)
        generator = opened.streams.generator(Purpose.CODEBOOK, opened.index)
        # On a CPU, which reads a number for every seed.
        return trained_codebook(blocks_of(clipped.cpu(), self.length), self.words, generator).to(opened.device)
