"""The numbers of kernel.c in numpy, for machines without a C compiler and for tests.

Counters are (block, round, device's low word, device's high word), and a block has four words. All operations on floats
are in float32 and in the order of kernel.c, so that the results are the same bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.streams import Address

Words = NDArray[np.uint32]
Floats = NDArray[np.float32]

ROUNDS = 10
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85

# Cephes: logf, sinf and cosf.
LOGARITHM = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
SINE = -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1
COSINE = 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2
LN_2 = np.float32(0.693147180559945)
SQRT_HALF_BITS = np.uint32(0x3F3504F3)
EIGHTH_TURN = np.float32(9.362675e-8)  # pi/2^25: half a quarter turn in steps of the 24 bits


def words_of_blocks(address: Address, device: int, blocks: NDArray[np.int64]) -> Words:
    """Return the four words of each block, uint32 [blocks, 4]; device: its word of the counter, 0 for none."""
    a = blocks.astype(np.uint64)
    b = np.full_like(a, address.round_word)
    c, d = np.full_like(a, device & 0xFFFFFFFF), np.full_like(a, device >> 32)
    key = [np.uint64(word) for word in address.key]
    for _ in range(ROUNDS):
        p, q = np.uint64(MULTIPLIERS[0]) * a, np.uint64(MULTIPLIERS[1]) * c
        a, b, c, d = (q >> HALF) ^ b ^ key[0], q & LOW, (p >> HALF) ^ d ^ key[1], p & LOW
        key = [np.uint64((int(word) + step) & 0xFFFFFFFF) for word, step in zip(key, KEY_STEPS, strict=True)]
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


def normals_of(words: Words) -> Floats:
    """Return the normal numbers of pairs of words, float32 in the same shape."""
    radius = _radius(words[..., 0::2])
    numbers = np.empty(words.shape, dtype=np.float32)
    numbers[..., 0::2], numbers[..., 1::2] = _on_circle(radius, words[..., 1::2])
    return numbers


def uniforms_of(words: Words) -> Floats:
    """Return (24 high bits + 1/2)/2^24 of each word, float32."""
    return np.asarray(((words >> np.uint32(8)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24))


def ones_of(words: Words, trials: int) -> Floats:
    """Return how many of the first `trials` bits of each row are ones, uint32 [numbers, ceil(trials/32)] -> float32."""
    bits = words.copy()
    bits[:, -1] >>= np.uint32(32 * words.shape[1] - trials)
    return np.asarray(np.bitwise_count(bits).sum(axis=1, dtype=np.int64), dtype=np.float32)


def _radius(words: Words) -> Floats:
    """Return sqrt(-2 ln u) for u = (word + 1/2)/2^32."""
    u = words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    bits = u.view(np.uint32)
    exponent = (bits - SQRT_HALF_BITS).view(np.int32) >> np.int32(23)
    x = (bits - (exponent.view(np.uint32) << np.uint32(23))).view(np.float32) - np.float32(1.0)
    square = x * x
    logarithm = _polynomial(LOGARITHM, x) * x * square - np.float32(0.5) * square + x
    logarithm = logarithm + exponent.astype(np.float32) * LN_2
    return np.asarray(np.sqrt(np.float32(-2.0) * np.minimum(logarithm, np.float32(0.0))))


def _on_circle(radius: Floats, words: Words) -> tuple[Floats, Floats]:
    """Return the radius times cosine and sine of the angle of a word."""
    place = ((words >> np.uint32(6)) & np.uint32(0xFFFFFF)).astype(np.int32) - np.int32(0x800000)
    t = (place.astype(np.float32) + np.float32(0.5)) * EIGHTH_TURN
    w = t * t
    sine = _polynomial(SINE, w) * w * t + t
    cosine = _polynomial(COSINE, w) * w * w - np.float32(0.5) * w + np.float32(1.0)
    quarter = words >> np.uint32(30)
    odd = (quarter & np.uint32(1)).astype(np.bool_)
    first, second = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    first = (first.view(np.uint32) ^ (((quarter + np.uint32(1)) & np.uint32(2)) << np.uint32(30))).view(np.float32)
    second = (second.view(np.uint32) ^ ((quarter & np.uint32(2)) << np.uint32(30))).view(np.float32)
    return radius * first, radius * second


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    value = np.full_like(x, np.float32(coefficients[0]))
    for coefficient in coefficients[1:]:
        value = value * x + np.float32(coefficient)
    return value
