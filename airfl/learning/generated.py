"""The samples of devices that a data set generates: held as tensors if they are few, else generated when needed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.part_keys import name_of
from airfl.config.task import OWN, TaskSettings
from airfl.errors import UserError
from airfl.learning.samples import Samples
from airfl.learning.tasks.datasets.generated import GeneratedDataset
from airfl.learning.tasks.partitions.rule import Consecutive, Partition
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.storage.fingerprint import is_own

STORED_BYTES = 1 << 28
"""Most memory of the devices' training samples; where they need more, they are generated when a device is selected."""
TEST_DEVICES = 1000
"""Test and held-out samples are those of the first devices, at most so many."""
TARGET_BYTES = 8
PIECE = 1000
"""Rows that are generated at a time where their samples are kept."""

Ids = NDArray[np.int64]
Arrays = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True)
class Population:
    """The devices of a run and the law of their samples, which depend on the seed and the device alone.

    Attributes:
        dataset: The law.
        streams: Random streams of the run.
        devices: Number of devices, N.
        held_share: Share of each device's training samples that is held out for validation.
    """

    dataset: GeneratedDataset
    streams: Streams
    devices: int
    held_share: float = 0.0

    @cached_property
    def sizes(self) -> Ids:
        """Number of training samples of each device that are not held out, [N]."""
        return self.sizes_of(np.arange(self.devices, dtype=np.int64))

    def sizes_of(self, devices: Ids) -> Ids:
        """Return how many training samples that are not held out these devices have, [n]."""
        train, _ = self._counts(devices)
        return train - self._held(train)

    @cached_property
    def partition(self) -> Partition:
        """Samples of the devices, which hold consecutive rows of the training data."""
        offsets = np.zeros(self.devices + 1, dtype=np.int64)
        np.cumsum(self.sizes, out=offsets[1:])
        return Partition(Consecutive(int(offsets[-1])), offsets)

    def samples(self, device: int, part: Literal["train", "validation", "test"]) -> Arrays:
        """Return inputs and targets of a part of a device's samples."""
        train, test = (int(one[0]) for one in self._counts(np.array([device])))
        ends = {"train": train - int(self._held(np.array([train]))[0]), "validation": train, "test": train + test}
        begin = {"train": 0, "validation": ends["train"], "test": train}[part]
        generator = self.streams.device_generator(Purpose.DEVICE_DATA, None, device)
        inputs, targets = self.dataset.draw(generator, train + test, self._common)
        return inputs[begin : ends[part]], targets[begin : ends[part]]

    @cached_property
    def _common(self) -> dict[str, NDArray[np.float64]]:
        return dict(self.dataset.common(self.streams.generator(Purpose.COMMON_DATA)))

    def _counts(self, devices: Ids) -> tuple[Ids, Ids]:
        uniforms = device_uniforms.draw(self.streams, Purpose.DEVICE_SIZE, None, devices, 1)[:, 0]
        return self.dataset.counts(uniforms)

    def _held(self, train: Ids) -> Ids:
        """Return how many training samples are held out: the share, but at least one is left for training."""
        return np.minimum(np.round(self.held_share * train).astype(np.int64), train - 1)


class SamplesOnDemand:
    """Training samples that are generated when their rows are read.

    Attributes:
        inputs: Read like a tensor [n, *shape].
        targets: Read like a tensor [n].
    """

    def __init__(self, population: Population, device: torch.device) -> None:
        self._population, self._device, self._held = population, device, threading.local()
        self.inputs, self.targets = RowsOnDemand(self, "inputs", device), RowsOnDemand(self, "targets", device)
        self._kept: tuple[Ids, Samples] | None = None

    def __len__(self) -> int:
        return int(self._population.partition.offsets[-1])

    def to(self, device: torch.device) -> SamplesOnDemand:
        """Return the samples such that rows that are read come to another torch device."""
        return SamplesOnDemand(self._population, device)

    def kept(self, rows: Ids) -> Samples:
        """Return the samples of these rows [n], which are generated once and kept for the next call with them."""
        if self._kept is None or not np.array_equal(self._kept[0], rows):
            pieces = torch.split(torch.from_numpy(rows), PIECE)
            inputs, targets = zip(*((self.inputs[some], self.targets[some]) for some in pieces), strict=True)
            self._kept = rows, Samples(torch.cat(inputs), torch.cat(targets))
        return self._kept[1]

    def around(self, rows: Ids) -> tuple[Samples, Ids]:
        """Return all samples of the devices that these rows belong to, on the CPU, and the rows' places in them.

        The devices of the latest call are kept for each thread, so that the steps of a round generate them once.
        """
        offsets = self._population.partition.offsets
        owners = np.searchsorted(offsets, rows, side="right") - 1
        devices, owner = np.unique(owners, return_inverse=True)
        held = getattr(self._held, "pool", None)
        if held is None or not np.isin(devices, held.devices).all():
            held = self._held.pool = _Pool.of(self._population, devices)
        starts = held.starts[np.searchsorted(held.devices, devices)]
        return held.samples, starts[owner.reshape(rows.shape)] + rows - offsets[owners]


class RowsOnDemand:
    """Inputs or targets of samples that are generated when they are read."""

    def __init__(self, samples: SamplesOnDemand, part: Literal["inputs", "targets"], device: torch.device) -> None:
        self._samples, self._part, self.device = samples, part, device

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, rows: Tensor | slice | int) -> Tensor:
        """Return the rows, of the shape of `rows` and then of a sample."""
        if isinstance(rows, slice):
            wanted = np.arange(*rows.indices(len(self)), dtype=np.int64)
        else:
            wanted = torch.as_tensor(rows).cpu().numpy()
        samples, places = self._samples.around(wanted)
        tensor: Tensor = getattr(samples, self._part)
        return tensor[torch.from_numpy(np.asarray(places))].to(self.device)

    @cached_property
    def shape(self) -> torch.Size:
        """Shape of the tensor that it is read like."""
        return torch.Size((len(self), *self[0].shape))

    @cached_property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        return self[0].dtype

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class _Pool:
    """Training samples of some devices.

    Attributes:
        devices: The devices, ascending, [n].
        starts: Where the samples of each begin, [n].
        samples: Their samples, one device after the other, on the CPU.
    """

    devices: Ids
    starts: Ids
    samples: Samples

    @classmethod
    def of(cls, population: Population, devices: Ids) -> _Pool:
        """Generate the samples of these devices."""
        sizes = population.sizes_of(devices)
        arrays = [population.samples(device, "train") for device in devices.tolist()]
        return cls(devices, np.cumsum(sizes) - sizes, _joined(population.dataset, arrays))


@dataclass(frozen=True)
class RunData:
    """The samples of a run.

    Attributes:
        train: Training samples of all devices.
        validation: Held-out samples.
        public: Public samples, which belong to no device.
        test: Test samples.
        partition: The rows of `train` that belong to each device.
    """

    train: Samples | SamplesOnDemand
    validation: Samples
    public: Samples
    test: Samples
    partition: Partition


def population_of(task: TaskSettings, devices: int, streams: Streams) -> Population | None:
    """Return the devices of a run if its data set is generated, else None.

    Raises UserError if settings of the task are not possible with a generated data set.
    """
    dataset = None if task.dataset == OWN else task.dataset_part
    if not isinstance(dataset, GeneratedDataset):
        return None
    if is_own(dataset):
        raise UserError(
            f"task.dataset: {dataset!r} is generated by a user-defined class, which a run cannot use; give the samples "
            "as an airfl.Task, or return them from a Dataset"
        )
    if task.partition != "writer":
        raise UserError(
            f"task.partition: data set {dataset.name!r} is generated for each device, got {name_of(task.partition)!r}; "
            "set task.partition=writer"
        )
    if task.min_samples:
        raise UserError(
            f"task.min_samples: must be 0 with data set {dataset.name!r}, whose devices all take part, got "
            f"{task.min_samples:,}"
        )
    return Population(dataset, streams, devices, task.validation_share)


def generate(population: Population, public_samples: int) -> RunData:
    """Generate the data of a run.

    Args:
        population: The devices.
        public_samples: Number of public samples, the training samples of further devices N, N + 1, ...
    """
    dataset, first = population.dataset, range(min(population.devices, TEST_DEVICES))
    row_bytes = 4 * int(np.prod(dataset.input_shape)) + TARGET_BYTES
    train: Samples | SamplesOnDemand = SamplesOnDemand(population, torch.device("cpu"))
    if len(train) * row_bytes <= STORED_BYTES:
        train = _joined(dataset, (population.samples(device, "train") for device in range(population.devices)))
    validation = first if population.held_share else ()
    return RunData(
        train=train,
        validation=_joined(dataset, [population.samples(device, "validation") for device in validation]),
        public=_public(population, public_samples),
        test=_joined(dataset, [population.samples(device, "test") for device in first]),
        partition=population.partition,
    )


def _public(population: Population, count: int) -> Samples:
    """Return the first training samples of the devices after the last one."""
    arrays: list[Arrays] = []
    device, left = population.devices, count
    while left > 0:
        inputs, targets = population.samples(device, "train")
        arrays.append((inputs[:left], targets[:left]))
        device, left = device + 1, left - len(targets)
    return _joined(population.dataset, arrays)


def _joined(dataset: GeneratedDataset, arrays: Iterable[Arrays]) -> Samples:
    none = np.zeros((0, *dataset.input_shape), dtype=np.float32), np.zeros(0, dtype=np.int64)
    inputs, targets = zip(none, *arrays, strict=True)
    return Samples(torch.from_numpy(np.concatenate(inputs)), torch.from_numpy(np.concatenate(targets)))
