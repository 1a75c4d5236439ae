"""The mini-batches of a device: shuffled passes over its data, or independent draws in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.philox import device_uniforms
from airfl.runtime.sampling import distinct
from airfl.runtime.streams import Purpose, Streams

NOBODY = device_uniforms.NOTHING


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
    orders = device_uniforms.orders(streams, Purpose.BATCH, round_index, devices, sizes, largest, epochs)
    nowhere = orders.shape[2] - 1  # where an order has nobody, for places beyond a device's samples or steps
    alike = sizes[:1] if len(sizes) and (sizes == sizes[0]).all() else sizes  # one row for all devices is enough
    per_epoch, steps_of = -(-alike // rule.batch_size)[:, None], rule.steps_of(alike)[:, None]
    step = np.arange(steps_of.max(initial=0))
    epoch, within = np.divmod(step, per_epoch)
    first = np.where(step < steps_of, within * rule.batch_size, nowhere)
    place = np.minimum(first[..., None] + np.arange(min(rule.batch_size, largest)), nowhere)
    place += np.minimum(epoch, epochs - 1)[..., None] * orders.shape[2]
    rows = np.arange(len(devices)) * (orders.shape[1] * orders.shape[2])
    return np.asarray(orders.reshape(-1).take(rows[:, None, None] + place))


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
