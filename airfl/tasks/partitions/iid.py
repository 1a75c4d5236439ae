"""Equal shares of a random order."""

from __future__ import annotations

import numpy as np

from airfl.tasks.partitions.rule import Partition, PartitionRule, Pool


class Iid(PartitionRule):
    """Equal shares of a random order; what does not divide is left out."""

    name = "iid"
    equal = True

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Shares of floor(n/N) samples."""
        share = len(pool.samples) // pool.devices
        order = generator.permutation(len(pool.samples))[: share * pool.devices]
        return Partition(pool.samples[order], np.arange(pool.devices + 1, dtype=np.int64) * share)
