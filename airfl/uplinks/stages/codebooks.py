"""Codebooks of vector quantisers: Q words that server and devices share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from airfl.uplinks.stages import kernels

if TYPE_CHECKING:
    from torch import Tensor

LLOYD = 3
"""Iterations of Lloyd's algorithm after the seeding."""


def blocks_of(updates: Tensor, length: int) -> Tensor:
    """Return updates in blocks, [..., d] -> [..., ceil(d/length), length], the last one filled up with zeros."""
    import torch

    missing = -updates.shape[-1] % length
    whole = torch.nn.functional.pad(updates, (0, missing)) if missing else updates
    return whole.reshape(*updates.shape[:-1], -1, length)


def gaussian_codebook(words: int, length: int, std: float, generator: np.random.Generator) -> np.ndarray:
    """Return words with independent normal entries, the first of which is 0, [words, length]."""
    drawn = generator.standard_normal((words, length)) * std
    drawn[0] = 0.0
    return drawn


def trained_codebook(blocks: Tensor, words: int, generator: np.random.Generator) -> Tensor:
    """Return the words of k-means for these blocks, [words, length].

    Seeds are drawn with probabilities in proportion to the squared distance from the nearest seed so far (k-means++,
    Arthur and Vassilvitskii 2007), then moved by Lloyd's algorithm; a word that no block chooses stays where it is.
    Where there are fewer different blocks than words, the rest are zero.

    Args:
        blocks: [blocks, length].
        words: Q.
        generator: Draws the seeds, one uniform number each.
    """
    import torch

    uniforms = generator.random(words)
    seeds = _seeds(blocks, uniforms)
    for _ in range(LLOYD):
        nearest = nearest_words(blocks, seeds)
        sums = torch.zeros_like(seeds).index_add_(0, nearest, blocks)
        counts = torch.bincount(nearest, minlength=words).to(seeds)[:, None]
        seeds = torch.where(counts > 0, sums / counts.clamp(min=1), seeds)
    return seeds


def _seeds(blocks: Tensor, uniforms: np.ndarray) -> Tensor:
    """Return the blocks that k-means begins with, one for each uniform number, [words, length]."""
    import torch

    words = len(uniforms)
    seeds = blocks.new_zeros(words, blocks.shape[1])
    if (found := kernels.seeds_of(blocks, uniforms)) is not None:
        seeds[: len(found)] = blocks[found]
        return seeds
    distances = blocks.double().square().sum(dim=1).add_(1e-300)  # the first seed by its energy: from the word 0
    for word in range(words):
        reached = distances.cumsum(0)
        total = float(reached[-1])
        if not total > 1e-290:
            break
        chosen = int(torch.searchsorted(reached, uniforms[word] * total).clamp(max=len(blocks) - 1))
        seeds[word] = blocks[chosen]
        distances = distances.minimum((blocks - blocks[chosen]).double().square().sum(dim=1))
    return seeds


def nearest_words(blocks: Tensor, words: Tensor) -> Tensor:
    """Return the index of the nearest word of every block, int64 [blocks]: the largest b'c - |c|^2/2."""
    return nearest_words_of_rows(blocks.reshape(1, -1), blocks.new_ones(1), words)[0].long()


def nearest_words_of_rows(rows: Tensor, factors: Tensor, words: Tensor) -> Tensor:
    """Return the index of the nearest word of every block of factors * rows, float32 [rows, blocks].

    Args:
        rows: [rows, d]; the last of their blocks is filled up with zeros.
        factors: Factor of each row, [rows].
        words: [words, length].
    """
    import torch

    offsets = words.square().sum(dim=1).div(-2)
    if (found := kernels.nearest_of(rows, factors, words, offsets)) is not None:
        return found
    length = words.shape[1]
    indices = [
        _largest(torch.addmm(offsets, blocks_of(row, length) * factor, words.T))
        for row, factor in zip(rows, factors, strict=True)
    ]
    return torch.stack(indices).to(words.dtype) if indices else words.new_zeros(0, -(-rows.shape[1] // length))


def _largest(scores: Tensor) -> Tensor:
    """Return the column of the largest number of each row."""
    import torch

    if scores.device.type == "cpu":  # numpy's is faster than torch's
        return torch.from_numpy(scores.numpy().argmax(axis=1))
    return scores.argmax(dim=1)


def word_std(limit: float, dimension: int) -> float:
    """Return the rms entry C/sqrt(d) of an update of norm C."""
    return limit / math.sqrt(dimension)
