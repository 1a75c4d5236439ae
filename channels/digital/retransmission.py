"""Retransmission of failed blocks, drawn as binomial numbers for all blocks of a message at once."""

from __future__ import annotations

import numpy as np

from channels.digital.task import Array

EXACT = 2.0**40


def retransmit(blocks: Array, failure: Array, uniforms: Array) -> tuple[Array, Array]:
    """Return the total number of transmitted blocks, and of blocks that failed in all transmissions; both [devices].

    blocks: number of blocks of each message, [devices]; failure: probability that a block fails in transmission j,
    given that it failed in all previous ones, [devices, transmissions]; uniforms: in the shape of `failure`. Blocks
    fail independently, so the number of failures is Binomial(transmitted, failure), drawn by inversion of one uniform
    number per transmission.
    """
    # Imported here, because importing scipy.stats takes half a second.
    from scipy.stats import binom

    waiting, sent = blocks, np.zeros_like(blocks)
    for failing, uniform in zip(failure.T, uniforms.T, strict=True):
        sent = sent + waiting
        # The quantile at 0 is -1 by convention. Above EXACT blocks, the mean is used instead of a draw.
        drawn = binom.ppf(np.maximum(uniform, np.finfo(float).tiny), np.minimum(waiting, EXACT), failing)
        waiting = np.where(waiting > EXACT, np.rint(waiting * failing), drawn)
    return sent, waiting
