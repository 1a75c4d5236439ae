"""The numbers of kernel.c in Triton, for GPUs. Importing this module needs Triton.

Every operation on floats is one of IEEE 754 in the order of kernel.c: a product and a sum are not fused
(`enable_fp_fusion` is off), small numbers are not flushed to zero, and the square root is the rounded one. The bits are
therefore those of a CPU. A program computes `BLOCK` numbers or blocks of four of one row; programs are numbered row
after row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import triton
import triton.language as tl

from airfl.runtime.philox import reference

BLOCK: Final = 256
"""Blocks of four numbers, or numbers at given positions, that a program computes."""
OPTIONS: Final = {"enable_fp_fusion": False, "num_warps": 4}
"""How the kernels are compiled."""

MULTIPLIER_0, MULTIPLIER_1 = map(tl.constexpr, reference.MULTIPLIERS)
KEY_STEP_0, KEY_STEP_1 = map(tl.constexpr, reference.KEY_STEPS)
ROUNDS = tl.constexpr(reference.ROUNDS)
LN_2, EIGHTH_TURN = tl.constexpr(float(reference.LN_2)), tl.constexpr(float(reference.EIGHTH_TURN))
SQRT_HALF_BITS = tl.constexpr(int(reference.SQRT_HALF_BITS))


def _jit(function: Callable[..., Any]) -> Any:
    """Compile a function for each kind of its arguments. What only counts is no kind of its own."""
    counted = [name for name in ("parts", "first", "round_word", "key_0", "key_1") if name in _names(function)]
    return triton.jit(function, do_not_specialize=counted)


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


@_jit
def _words_of(block, round_word, device, key_0, key_1):
    """Return the four words of each block; block: uint32, device: the word of the device, int64."""
    a, b = block, tl.zeros_like(block) + round_word.to(tl.uint32)
    c, d = tl.zeros_like(block) + device.to(tl.uint32), tl.zeros_like(block) + (device >> 32).to(tl.uint32)
    key_0, key_1 = key_0.to(tl.uint32), key_1.to(tl.uint32)
    for _ in tl.static_range(ROUNDS):
        high_a, low_a = tl.umulhi(a, tl.full(a.shape, MULTIPLIER_0, tl.uint32)), a * MULTIPLIER_0
        high_c, low_c = tl.umulhi(c, tl.full(a.shape, MULTIPLIER_1, tl.uint32)), c * MULTIPLIER_1
        a, b, c, d = high_c ^ b ^ key_0, low_c, high_a ^ d ^ key_1, low_a
        key_0, key_1 = key_0 + KEY_STEP_0, key_1 + KEY_STEP_1
    return a, b, c, d


@_jit
def _radius(word):
    """Return sqrt(-2 ln u) for u = (word + 1/2)/2^32."""
    u = word.to(tl.float32) * 2.0**-32 + 2.0**-33
    bits = u.to(tl.int32, bitcast=True)
    exponent = (bits - SQRT_HALF_BITS) >> 23
    x = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1.0
    square = x * x
    p = x * 7.0376836292e-2 + -1.1514610310e-1
    p = p * x + 1.1676998740e-1
    p = p * x + -1.2420140846e-1
    p = p * x + 1.4249322787e-1
    p = p * x + -1.6668057665e-1
    p = p * x + 2.0000714765e-1
    p = p * x + -2.4999993993e-1
    p = p * x + 3.3333331174e-1
    logarithm = p * x * square - 0.5 * square + x
    logarithm = logarithm + exponent.to(tl.float32) * LN_2
    return tl.sqrt_rn(-2.0 * tl.where(logarithm < 0.0, logarithm, 0.0))


@_jit
def _on_circle(radius, word):
    """Return the radius times cosine and sine of the angle of a word."""
    place = ((word >> 6) & 0xFFFFFF).to(tl.int32) - 0x800000
    t = (place.to(tl.float32) + 0.5) * EIGHTH_TURN
    w = t * t
    sine = ((-1.9515295891e-4 * w + 8.3321608736e-3) * w + -1.6666654611e-1) * w * t + t
    cosine = (2.443315711809948e-5 * w + -1.388731625493765e-3) * w + 4.166664568298827e-2
    cosine = cosine * w * w - 0.5 * w + 1.0
    quarter = word >> 30
    odd = (quarter & 1) != 0
    first, second = tl.where(odd, sine, cosine), tl.where(odd, cosine, sine)
    return radius * _turned(first, quarter + 1), radius * _turned(second, quarter)


@_jit
def _turned(x, sign):
    """Return x, or -x where bit 1 of `sign` is set."""
    return (x.to(tl.uint32, bitcast=True) ^ ((sign & 2) << 30)).to(tl.float32, bitcast=True)


@_jit
def _uniform(word):
    return ((word >> 8).to(tl.float32) + 0.5) * 2.0**-24


@_jit
def _in_order(a, b, c, d):
    """Return the four numbers of each block one after another."""
    return tl.interleave(tl.interleave(a, c), tl.interleave(b, d))


@_jit
def _ones(word):
    """Return how many bits of a word are ones."""
    pairs = word - ((word >> 1) & 0x55555555)
    fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    eights = (fours + (fours >> 4)) & 0x0F0F0F0F
    return ((eights * 0x01010101) >> 24).to(tl.int32)


@_jit
def _put(pointers, words, numbers, scale, kept, KIND: tl.constexpr):
    """Write words or numbers, or add scaled numbers, where `kept` is true."""
    if KIND == "words":
        tl.store(pointers, words.to(tl.int32, bitcast=True), mask=kept)
    elif KIND == "uniforms":
        tl.store(pointers, numbers, mask=kept)
    else:
        tl.store(pointers, tl.load(pointers, mask=kept, other=0.0) + scale * numbers, mask=kept)


@_jit
def numbers(
    rows, stride, devices, count, parts, scale, first, round_word, key_0, key_1,
    SKIPPED: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Give each row [count] the numbers from the SKIPPED-th of the block `first` on: KIND is "words", "uniforms", or
    "add" for normal numbers times `scale`. devices: their words, int64 [rows]. parts: programs of a row."""
    program = tl.program_id(0)
    row, part = program // parts, program % parts
    block = (first + part * BLOCK).to(tl.uint32) + tl.arange(0, BLOCK).to(tl.uint32)
    a, b, c, d = _words_of(block, round_word, tl.load(devices + row), key_0, key_1)
    words = _in_order(a, b, c, d)
    drawn = words
    if KIND == "uniforms":
        drawn = _uniform(words)
    elif KIND == "add":
        x, y = _on_circle(_radius(a), b)
        z, w = _on_circle(_radius(c), d)
        drawn = _in_order(x, y, z, w)
    place = part.to(tl.int64) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK) - SKIPPED
    kept = place < count
    if SKIPPED > 0:
        kept = kept & (place >= 0)
    _put(rows + row.to(tl.int64) * stride + place, words, drawn, scale, kept, KIND)


@_jit
def numbers_at(
    rows, stride, devices, positions, count, parts, scale, round_word, key_0, key_1,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """As `numbers`, for the numbers at `positions`, int64 [count], of each stream."""
    program = tl.program_id(0)
    row, part = program // parts, program % parts
    place = part.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    kept = place < count
    position = tl.load(positions + place, mask=kept, other=0)
    a, b, c, d = _words_of((position >> 2).to(tl.uint32), round_word, tl.load(devices + row), key_0, key_1)
    late, odd = (position & 2) != 0, (position & 1) != 0
    even_word, odd_word = tl.where(late, c, a), tl.where(late, d, b)
    words = tl.where(odd, odd_word, even_word)
    drawn = words
    if KIND == "uniforms":
        drawn = _uniform(words)
    elif KIND == "add":
        x, y = _on_circle(_radius(even_word), odd_word)
        drawn = tl.where(odd, y, x)
    _put(rows + row.to(tl.int64) * stride + place, words, drawn, scale, kept, KIND)


@_jit
def add_fair_binomials(
    rows, stride, devices, positions, count, parts, scale, round_word, key_0, key_1,
    TRIALS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add scale * (B - TRIALS/2) to each row [count], where B is how many of TRIALS bits are ones, for the numbers at
    `positions`, or from 0 on if that is None. A number takes ceil(TRIALS/32) words, the low bits of the last one
    unused."""
    EACH: tl.constexpr = (TRIALS + 31) // 32
    program = tl.program_id(0)
    row, part = program // parts, program % parts
    place = part.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    kept = place < count
    position = place
    if positions is not None:
        position = tl.load(positions + place, mask=kept, other=0)
    word, device = position * EACH, tl.load(devices + row)
    skipped = (word & 3).to(tl.int32)
    total = tl.zeros([BLOCK], tl.int32)
    for i in tl.static_range((EACH + 6) // 4):  # the blocks that EACH words can lie in, of which 3 may be skipped
        a, b, c, d = _words_of((word >> 2).to(tl.uint32) + i, round_word, device, key_0, key_1)
        total += _counted(a, 4 * i - skipped, TRIALS) + _counted(b, 4 * i + 1 - skipped, TRIALS)
        total += _counted(c, 4 * i + 2 - skipped, TRIALS) + _counted(d, 4 * i + 3 - skipped, TRIALS)
    centred = total.to(tl.float32) - 0.5 * TRIALS
    _put(rows + row.to(tl.int64) * stride + place, total, centred, scale, kept, "add")


@_jit
def _counted(word, index, TRIALS: tl.constexpr):
    """Return the ones of the word with this index among those of its number; 0 if it is another number's."""
    EACH: tl.constexpr = (TRIALS + 31) // 32
    used = tl.where(index == EACH - 1, word >> (32 * EACH - TRIALS), word)
    return tl.where((index >= 0) & (index < EACH), _ones(used), 0)
