"""Checks of partitions on a pool of samples of ten classes and 25 writers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from airfl.learning.tasks.partitions.own import checked_partition
from airfl.learning.tasks.partitions.rule import Partition, PartitionRule, Pool
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from channels.part import Part

SAMPLES, CLASSES, WRITERS = 1000, 10, 25
DEVICES = (1, 7, 20)


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a partition."""
    assert isinstance(part, PartitionRule)
    del overrides
    return [
        Check("divides", "every sample is on at most one device, every device has a sample", lambda: divides(part)),
        Check("seed", "the same seed gives the same partition", lambda: seed(part), ("divides",)),
        Check("equal", "devices have equally many samples if the class says so", lambda: equal(part), ("divides",)),
        Check("parameters", "every parameter is read", lambda: parameters(part), ("divides",)),
    ]


def pool(devices: int) -> Pool:
    """Return samples with indices in steps of 3, so that positions and indices cannot be confused."""
    writers = np.arange(SAMPLES) % WRITERS + 100
    return Pool(np.arange(SAMPLES) * 3, np.arange(SAMPLES) % CLASSES, writers, devices, writers)


def partition(part: PartitionRule, devices: int, seed: int = 1) -> Partition:
    """Return a partition of the pool after checking it as a run does."""
    samples = pool(devices)
    return checked_partition(part, part.divide(samples, np.random.default_rng(seed)), samples)


def divides(part: PartitionRule) -> str | None:
    """Check partitions among few and many devices."""
    for devices in DEVICES:
        partition(part, devices)
    return None


def seed(part: PartitionRule) -> str | None:
    """Compare two partitions with equal generators."""
    first, again = partition(part, DEVICES[-1]), partition(part, DEVICES[-1])
    same = np.array_equal(first.indices, again.indices) and np.array_equal(first.offsets, again.offsets)
    return None if same else "gives another partition when called again; draw only from the given generator"


def equal(part: PartitionRule) -> str | None:
    """Check that sizes are equal if the class declares it."""
    sizes = partition(part, DEVICES[1]).sizes
    if part.equal and sizes.min() < sizes.max():
        return f"equal is true, but devices have {sizes.min()} to {sizes.max()} samples"
    return None


def parameters(part: PartitionRule) -> str | None:
    """Check that one partition reads all parameters."""
    spied, read = recording(part)
    partition(spied, DEVICES[-1])
    return unread(part, read)
