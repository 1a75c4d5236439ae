"""Blocks in error are sent again: how often, drawn as binomial numbers, all blocks of a message at once."""

from __future__ import annotations

import numpy as np

from channels.digital.task import Array

EXACT = 2.0**40


def retransmit(blocks: Array, failure: Array, uniforms: Array) -> tuple[Array, Array]:
    """Transmissions of all blocks together, and blocks still wrong after the last; both [devices].

    blocks: of each message, [devices]; failure: probability that a block fails in transmission j if it failed in all
    before, [devices, transmissions]; uniforms: as `failure`. Blocks fail independently of each other, so those that
    fail are Binomial(those that were sent, failure), by inversion of one uniform number a transmission.
    """
    # Not scipy.stats at import: it takes half a second.
    from scipy.stats import binom

    waiting, sent = blocks, np.zeros_like(blocks)
    for failing, uniform in zip(failure.T, uniforms.T, strict=True):
        sent = sent + waiting
        # The quantile at 0 is -1 by convention. Of more than can be drawn exactly, the mean fails.
        drawn = binom.ppf(np.maximum(uniform, np.finfo(float).tiny), np.minimum(waiting, EXACT), failing)
        waiting = np.where(waiting > EXACT, np.rint(waiting * failing), drawn)
    return sent, waiting
