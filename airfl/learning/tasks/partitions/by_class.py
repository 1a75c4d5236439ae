"""Equal shares of the samples sorted by class."""

from __future__ import annotations

import numpy as np

from airfl.learning.tasks.partitions.rule import Partition, PartitionRule, Pool


class ByClass(PartitionRule):
    """Equal shares of the samples sorted by class, in random order within a class.

    A random remainder is left out if the number of samples is not divisible. This is the most heterogeneous partition:
    most devices have a single class (as in SoteriaFL's public code).
    """

    name = "class"
    by_class = True
    equal = True

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Return shares of floor(n/N) samples."""
        share = len(pool.samples) // pool.devices
        order = generator.permutation(len(pool.samples))[: share * pool.devices]
        order = order[np.argsort(pool.labels[order], kind="stable")]
        return Partition(pool.samples[order], np.arange(pool.devices + 1, dtype=np.int64) * share)
