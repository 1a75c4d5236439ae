"""Equal shares of an order sorted by class."""

from __future__ import annotations

import numpy as np

from airfl.tasks.partitions.rule import Partition, PartitionRule, Pool


class ByClass(PartitionRule):
    """Equal shares of an order sorted by class, random within one; what does not divide is left out at random.

    The harshest division there is: most devices see one class (SoteriaFL's public code divides so).
    """

    name = "class"
    by_class = True
    equal = True

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Shares of floor(n/N) samples."""
        share = len(pool.samples) // pool.devices
        order = generator.permutation(len(pool.samples))[: share * pool.devices]
        order = order[np.argsort(pool.labels[order], kind="stable")]
        return Partition(pool.samples[order], np.arange(pool.devices + 1, dtype=np.int64) * share)
