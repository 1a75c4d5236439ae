"""The mini-batches of a device: shuffled passes over its data, or independent draws in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.philox import device_uniforms
from airfl.runtime.sampling import distinct
from airfl.runtime.streams import Purpose, Streams

NOBODY = -1
DRAWN_AT_ONCE = 1 << 22
"""Most random numbers that are drawn at a time, unless a single device needs more."""


@dataclass(frozen=True)
class BatchRule:
    """How much of its data a device processes in a round: a number of epochs or of steps; the other is 0.

    Attributes:
        epochs: Passes over the device's data; 0 if steps are given.
        steps: Mini-batches; 0 if epochs are given.
        batch_size: Samples in a mini-batch; the last one of a pass may be smaller.
    """

    epochs: int
    steps: int
    batch_size: int

    def steps_of(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of SGD steps of devices with `sizes` samples."""
        per_epoch = -(-sizes // self.batch_size)
        return self.epochs * per_epoch if self.epochs else np.full_like(sizes, self.steps)

    def samples_of(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many samples devices with `sizes` samples process in a round, counting repetitions."""
        if self.epochs:
            return self.epochs * sizes
        per_epoch = -(-sizes // self.batch_size)
        passes, rest = np.divmod(self.steps, per_epoch)
        return np.asarray(passes * sizes + np.minimum(rest * self.batch_size, sizes), dtype=np.int64)

    def epochs_for(self, largest: int, smallest: int) -> int:
        """Return the largest number of passes over its data that any device may need."""
        if self.epochs:
            return self.epochs
        return -(-self.steps // -(-smallest // self.batch_size))


def plan_batches(
    rule: BatchRule,
    streams: Streams,
    round_index: int,
    devices: NDArray[np.int64],
    sizes: NDArray[np.int64],
    largest: int,
) -> NDArray[np.int64]:
    """Return positions within each device's own samples, [devices, steps, batch], padded with -1.

    sizes: number of samples of each of `devices`; largest: the same of the largest device in the population. The draws
    have that length, so that a device's order does not depend on the other devices of the chunk. A device with fewer
    steps than another has whole steps of -1.
    """
    epochs = rule.epochs_for(largest, int(sizes.min(initial=largest)))
    most = int(sizes.max(initial=1))
    uniforms = _uniforms(streams, round_index, devices, epochs, largest, most)
    uniforms[np.broadcast_to(np.arange(most) >= sizes[:, None, None], uniforms.shape)] = np.inf
    orders = np.argsort(uniforms, axis=-1, kind="stable")

    per_epoch = -(-sizes // rule.batch_size)
    steps_of = rule.steps_of(sizes)
    step = np.arange(steps_of.max(initial=0))[None, :]
    epoch = np.minimum(step // per_epoch[:, None], epochs - 1)
    width = min(rule.batch_size, largest)
    position = (step % per_epoch[:, None])[..., None] * rule.batch_size + np.arange(width)
    valid = (position < sizes[:, None, None]) & (step < steps_of[:, None])[..., None]
    row = np.arange(len(devices))[:, None, None]
    chosen = orders[row, epoch[..., None], np.minimum(position, most - 1)]
    return np.where(valid, chosen, NOBODY)


def _uniforms(
    streams: Streams, round_index: int, devices: NDArray[np.int64], epochs: int, largest: int, most: int
) -> NDArray[np.float64]:
    """Return the first `most` of the `largest` numbers that every device draws for each pass, [devices, epochs, most].

    The last pass is drawn no further than is needed, and devices are drawn in parts, so that memory is in proportion to
    the chunk's samples and not to those of the largest device.
    """
    uniforms = np.empty((len(devices), epochs, most))
    count = (epochs - 1) * largest + most
    at_once = max(1, DRAWN_AT_ONCE // count)
    for start in range(0, len(devices), at_once):
        some = slice(start, start + at_once)
        drawn = device_uniforms.draw(streams, Purpose.BATCH, round_index, devices[some], count)
        for epoch in range(epochs):
            uniforms[some, epoch] = drawn[:, epoch * largest : epoch * largest + most]
    return uniforms


def independent_batches(
    streams: Streams,
    round_index: int,
    devices: NDArray[np.int64],
    sizes: NDArray[np.int64],
    largest: int,
    steps: int,
    batch_size: int,
    replacement: bool = False,
) -> NDArray[np.int64]:
    """Draw min(batch_size, m_i) of a device's own samples without replacement, independently in every step.

    This is what privacy amplification by sampling assumes (Fed-SPA theorem 1; SoteriaFL algorithm 3). Returns positions
    [devices, steps, batch], ascending within a batch and padded with -1 at its end. sizes: m_i of each of `devices`;
    largest: the largest m_i in the population, so that all chunks have the same width; replacement: draw every sample
    from all m_i, so that one may be in a batch several times.
    """
    plan = np.full((len(devices), steps, min(batch_size, largest)), NOBODY)
    for row, (device, size) in enumerate(zip(devices.tolist(), sizes.tolist(), strict=True)):
        own = min(batch_size, size)
        generator = streams.device_generator(Purpose.BATCH, round_index, device)
        if replacement:
            plan[row, :, :own] = np.sort(generator.integers(size, size=(steps, own)))
        else:
            plan[row, :, :own] = distinct(generator, size, steps, own)
    return plan
