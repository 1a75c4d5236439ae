"""The SNR that every device has on its own subcarriers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from channels.digital.task import Array, Counts, DigitalTask


@dataclass(frozen=True)
class OwnElements:
    """A device's subcarriers are contiguous, in the devices' order within a turn.

    energy: transmitted on a resource element, [devices]; known, true: SNR as believed and as it is, device after
    device, [n]; counts: how many of the n are a device's, [devices]: its subcarriers, or 1 of a flat channel.
    """

    subcarriers: Counts
    energy: Array
    known: Array
    true: Array
    counts: Counts

    def mean(self, values: Array) -> Array:
        """Over each device's own elements, [..., n] -> [..., devices]."""
        if len(self.counts) == values.shape[-1]:
            return values
        return np.asarray(np.add.reduceat(values, self.starts, axis=-1) / self.counts)

    def least(self, values: Array) -> Array:
        """As `mean`, the smallest."""
        return np.asarray(np.minimum.reduceat(values, self.starts, axis=-1)) if len(self.counts) else values

    @property
    def starts(self) -> Counts:
        """Where each device's elements begin, [devices]."""
        return np.cumsum(self.counts) - self.counts


def own_elements(task: DigitalTask, subcarriers: Counts) -> OwnElements:
    """Elements of every device from its share."""
    energy = task.symbol_energy / (subcarriers if task.concentrate else task.subcarriers)
    per_gain = energy / task.noise_energy
    if task.known.shape[1] == 1:
        counts = np.ones(len(subcarriers), dtype=np.int64)
        return OwnElements(subcarriers, energy, task.known[:, 0] * per_gain, task.true[:, 0] * per_gain, counts)
    owner = np.repeat(np.arange(len(subcarriers)), subcarriers)
    # Every turn uses the K subcarriers once, so its first lies at a multiple of K.
    column = np.arange(len(owner)) % task.subcarriers
    return OwnElements(
        subcarriers=subcarriers,
        energy=energy,
        known=task.known[owner, column] * per_gain[owner],
        true=task.true[owner, column] * per_gain[owner],
        counts=subcarriers,
    )
