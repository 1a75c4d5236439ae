"""The interface of partitions, which divide the training samples among the devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from channels.part import Part

MOST_AT_ONCE = 1 << 24
"""Most computed sample indices that are ever held as an array: what reads so many samples takes minutes."""
Indices = NDArray[np.int64]


class ComputedIndices(ABC):
    """Sample indices that are computed when they are asked for, and read like an array of one dimension.

    With them, the memory of a partition does not grow with the number of samples that its devices hold.
    """

    def __init__(self, length: int) -> None:
        """length: number of indices, all devices together."""
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, places: slice | Indices) -> Indices:
        """Return the indices at these places, of the shape of `places`."""
        if isinstance(places, slice):
            places = np.arange(*places.indices(self._length), dtype=np.int64)
        return self.at(np.asarray(places, dtype=np.int64))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self._length > MOST_AT_ONCE:
            raise UserError(
                f"task: all {self._length:,} samples of the devices are needed at once, and at most {MOST_AT_ONCE:,} "
                "are possible; decrease run.devices or the samples of a device"
            )
        return self[:].astype(dtype or np.int64)

    @abstractmethod
    def at(self, places: Indices) -> Indices:
        """Return the indices at places from 0 to length - 1, of the shape of `places`."""


class Consecutive(ComputedIndices):
    """The indices 0, 1, 2, ...: device after device holds the next samples."""

    def at(self, places: Indices) -> Indices:
        """Return the places themselves."""
        return places


@dataclass(frozen=True)
class Partition:
    """The samples of each device.

    Attributes:
        indices: Sample indices; those of device i are indices[offsets[i]:offsets[i + 1]]. They may be computed when
            they are asked for.
        offsets: Offsets into `indices`, [N + 1]; every device has at least one sample.
        writers: The writer of each device's samples, [N], if a device corresponds to a writer.
    """

    indices: Indices | ComputedIndices
    offsets: Indices
    writers: Indices | None = None

    @classmethod
    def of(cls, shares: Sequence[NDArray[np.integer[Any]]]) -> Partition:
        """Return the partition with these sample indices, one array per device."""
        sizes = [len(share) for share in shares]
        indices = np.concatenate([np.zeros(0, dtype=np.int64), *shares])
        return cls(indices.astype(np.int64), np.cumsum([0, *sizes]).astype(np.int64))

    @cached_property
    def sizes(self) -> Indices:
        """Number of samples of each device, [N]; cached, so that a round does not compute it for all N again."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Pool:
    """The samples to divide.

    Attributes:
        samples: Indices of the training samples that are not held out, [n], in random order.
        labels: Their targets, [n].
        writers: Their writers, [n]; None if the data set does not name them.
        devices: Number of devices, N.
        all_writers: The writer of each training and test sample of the data set, including held-out ones.
    """

    samples: Indices
    labels: NDArray[Any]
    writers: NDArray[np.int64] | None
    devices: int
    all_writers: NDArray[np.int64] | None = None


class PartitionRule(Part):
    """A rule that divides the training samples among the devices.

    Attributes:
        name: Name in the settings, lower case with hyphens.
        by_class: Whether it needs targets that are class indices.
        by_writer: Whether it needs the writer of each sample.
        equal: Whether all devices get the same number of samples, so that sizes are known without the data.
        shares: Whether a sample may belong to several devices, so that one record may change several messages.
    """

    by_class: ClassVar[bool] = False
    by_writer: ClassVar[bool] = False
    equal: ClassVar[bool] = False
    shares: ClassVar[bool] = False

    def samples_of_a_device(self, samples: int, devices: int) -> int:
        """Return how many samples a device has if all have the same number, at least 1.

        Args:
            samples: Number of training samples that are not held out.
            devices: Number of devices.
        """
        return max(samples // devices, 1)

    @abstractmethod
    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Divide the samples among the devices.

        Args:
            pool: The samples, and the number of devices.
            generator: Source of all randomness, so that the same seed gives the same partition.

        Returns:
            Distinct elements of `pool.samples`, at least one per device; `Partition.of` builds it from one array per
            device. Only with `shares` may different devices have the same samples.
        """


def by_owner(samples: Indices, owner: Indices, devices: int) -> Partition:
    """Return the partition, given the device of each sample."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=devices))]).astype(np.int64)
    return Partition(samples[np.argsort(owner, kind="stable")], offsets)
