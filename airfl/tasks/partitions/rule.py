"""What a partition is: a part that divides the training samples among the devices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from channels.part import Part

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """Which samples each device has.

    Attributes:
        indices: Sample numbers, those of device i at indices[offsets[i]:offsets[i + 1]].
        offsets: Where each device's begin and end, [N + 1]; every device has at least one sample.
        writers: Whose samples device i has, [N], where a device is a writer.
    """

    indices: Indices
    offsets: Indices
    writers: Indices | None = None

    @classmethod
    def of(cls, shares: Sequence[NDArray[np.integer[Any]]]) -> Partition:
        """Of the sample numbers of each device, an array a device."""
        sizes = [len(share) for share in shares]
        together = np.concatenate([np.zeros(0, dtype=np.int64), *shares])
        return cls(together.astype(np.int64), np.cumsum([0, *sizes]).astype(np.int64))

    @cached_property
    def sizes(self) -> Indices:
        """Samples of each device, [N]; a round must not go through all N again."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Pool:
    """What is divided.

    Attributes:
        samples: Numbers of the training samples that are not held out, [n], in random order.
        labels: The target of each, [n].
        writers: Who made each, [n]; None where the data set does not say.
        devices: Among how many devices, N.
        all_writers: Who made each sample of the whole data set, for training and for testing, held out or not.
    """

    samples: Indices
    labels: NDArray[Any]
    writers: NDArray[np.int64] | None
    devices: int
    all_writers: NDArray[np.int64] | None = None


class PartitionRule(Part):
    """How the training samples are divided among the devices.

    Attributes:
        name: What settings call it, lower case with hyphens.
        by_class: Whether it needs targets that are class numbers.
        by_writer: Whether it needs to know who made each sample.
        equal: Whether it gives every device as many samples as any other, so that sizes are known without the data.
    """

    by_class: ClassVar[bool] = False
    by_writer: ClassVar[bool] = False
    equal: ClassVar[bool] = False

    @abstractmethod
    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """The samples of each device.

        Args:
            pool: What is divided, among how many.
            generator: Of all that is random in it, so that the same seed gives the same partition.

        Returns:
            Sample numbers out of `pool.samples`, none of them twice, at least one a device; `Partition.of` makes it of
            an array a device.
        """


def by_owner(samples: Indices, owner: Indices, devices: int) -> Partition:
    """By the device of each sample."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=devices))]).astype(np.int64)
    return Partition(samples[np.argsort(owner, kind="stable")], offsets)
