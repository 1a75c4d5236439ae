"""What a partition has to hold: on a pool of samples of ten classes and 25 writers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from airfl.check.finding import Check
from airfl.check.reading import recording
from airfl.tasks.partitions.own import checked_partition
from airfl.tasks.partitions.rule import Partition, PartitionRule, Pool
from channels.part import Part

SAMPLES, CLASSES, WRITERS = 1000, 10, 25
DEVICES = (1, 7, 20)


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one partition."""
    assert isinstance(part, PartitionRule)
    del overrides
    return [
        Check("divides", "every sample goes to one device at most, every device has one", lambda: divides(part)),
        Check("seed", "the same seed gives the same partition", lambda: seed(part), ("divides",)),
        Check("equal", "devices have equally many samples where the class says so", lambda: equal(part), ("divides",)),
        Check("parameters", "every parameter is read", lambda: parameters(part), ("divides",)),
    ]


def pool(devices: int) -> Pool:
    """Samples that are numbered in steps of 3, so that places and sample numbers cannot be confused."""
    writers = np.arange(SAMPLES) % WRITERS + 100
    return Pool(np.arange(SAMPLES) * 3, np.arange(SAMPLES) % CLASSES, writers, devices, writers)


def partition(part: PartitionRule, devices: int, seed: int = 1) -> Partition:
    """Of that pool, held to what is promised of it."""
    given = pool(devices)
    return checked_partition(part, part.divide(given, np.random.default_rng(seed)), given)


def divides(part: PartitionRule) -> str | None:
    """Among few and many devices."""
    for devices in DEVICES:
        partition(part, devices)
    return None


def seed(part: PartitionRule) -> str | None:
    """Twice with equal generators."""
    first, again = partition(part, DEVICES[-1]), partition(part, DEVICES[-1])
    same = np.array_equal(first.indices, again.indices) and np.array_equal(first.offsets, again.offsets)
    return None if same else "another partition the second time; draw from the generator that is given alone"


def equal(part: PartitionRule) -> str | None:
    """Sizes."""
    sizes = partition(part, DEVICES[1]).sizes
    if part.equal and sizes.min() < sizes.max():
        return f"equal is true, and devices have {sizes.min()} to {sizes.max()} samples"
    return None


def parameters(part: PartitionRule) -> str | None:
    """In one division."""
    spied, read = recording(part)
    partition(spied, DEVICES[-1])
    unread = sorted(part.values().keys() - read)
    return f"{', '.join(unread)} is never read" if unread else None
