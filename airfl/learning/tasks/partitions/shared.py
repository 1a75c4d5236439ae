"""Devices that share samples: each has a random subset of all samples, drawn independently of the other devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.partitions.rule import ComputedIndices, Indices, Partition, PartitionRule, Pool
from channels.part import parameter


class Shared(PartitionRule):
    """Every device has a random subset of all samples, so that there may be more devices than samples.

    A device's samples are drawn without replacement, independently of the other devices', and do not depend on the
    number of devices. They are drawn when the device is selected, so that memory does not grow with the number of
    samples that all devices hold together. As a sample may belong to several devices, there are no guarantees for
    records.
    """

    name = "shared"
    equal = True
    shares = True

    device_samples: int = parameter(
        default=100,
        ge=1,
        description="training samples of each device, for partition = shared and for generated data sets with devices "
        "of equal size",
        key="device_samples",
    )

    def samples_of_a_device(self, samples: int, devices: int) -> int:
        """Return `device_samples`, whatever the numbers of samples and devices are."""
        return self.device_samples

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Return N subsets of `device_samples` samples each. Raises UserError if there are not so many samples."""
        if len(pool.samples) < self.device_samples:
            raise UserError(
                f"task.device_samples: a device cannot have {self.device_samples:,} different samples of "
                f"{len(pool.samples):,}; set at most {len(pool.samples)}"
            )
        key = generator.integers(np.iinfo(np.uint64).max, size=2, dtype=np.uint64, endpoint=True)
        indices = RandomSubsets(pool.samples, self.device_samples, pool.devices, key)
        return Partition(indices, np.arange(pool.devices + 1, dtype=np.int64) * self.device_samples)


class RandomSubsets(ComputedIndices):
    """A random subset of the samples for each device, every subset equally likely.

    A device's subset consists of the positions of the `count` smallest of n uniform numbers from its own Philox stream.
    """

    def __init__(self, samples: Indices, count: int, devices: int, key: NDArray[np.uint64]) -> None:
        """Describe the subsets.

        Args:
            samples: Indices of the samples, [n].
            count: Samples of each device.
            devices: Number of devices, N.
            key: Key of the devices' streams, two words.
        """
        super().__init__(count * devices)
        self._samples, self._count, self._key = samples, count, key

    def at(self, places: Indices) -> Indices:
        """Return the indices at these places: those of device i are at places i count to (i + 1) count - 1."""
        device, position = np.divmod(places, self._count)
        devices, row = np.unique(device, return_inverse=True)
        subsets = np.array([self._subset(one) for one in devices.tolist()], dtype=np.int64)
        return subsets.reshape(-1, self._count)[row.reshape(places.shape), position]

    def _subset(self, device: int) -> Indices:
        """Return the samples of a device, in the order of `samples`."""
        stream = np.random.Generator(np.random.Philox(key=self._key, counter=[0, 0, 0, device + 1]))
        uniforms = stream.random(len(self._samples))
        if self._count < len(uniforms):
            return self._samples[np.sort(np.argpartition(uniforms, self._count - 1)[: self._count])]
        return self._samples
