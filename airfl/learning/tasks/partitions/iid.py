"""Equal shares of the samples in random order."""

from __future__ import annotations

import numpy as np

from airfl.learning.tasks.partitions.rule import Partition, PartitionRule, Pool


class Iid(PartitionRule):
    """Equal shares of the samples in random order; a remainder is left out."""

    name = "iid"
    equal = True

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Return shares of floor(n/N) samples."""
        share = len(pool.samples) // pool.devices
        order = generator.permutation(len(pool.samples))[: share * pool.devices]
        return Partition(pool.samples[order], np.arange(pool.devices + 1, dtype=np.int64) * share)
