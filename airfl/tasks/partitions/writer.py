"""One writer a device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from airfl.errors import UserError
from airfl.tasks.partitions.rule import Partition, PartitionRule, Pool, by_owner
from channels.part import parameter


class Writer(PartitionRule):
    """One writer a device, the devices' writers drawn at random; the test samples are those of the same writers."""

    name = "writer"
    by_writer = True

    min_samples: int = parameter(
        default=0,
        ge=0,
        description="writers with fewer samples, training and test together, are left out, for partition = writer",
        key="min_samples",
    )

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Samples of other writers are nobody's."""
        if pool.writers is None:
            raise UserError("task.partition: this data set does not say who wrote what; other partitions are possible")
        kept = self._with_enough(pool.writers, pool.writers if pool.all_writers is None else pool.all_writers)
        samples = pool.samples[kept]
        names, place = np.unique(pool.writers[kept], return_inverse=True)
        if len(names) < pool.devices:
            enough = f" with at least {self.min_samples:,} samples" if self.min_samples else ""
            mend = f"at most that many (run.devices={len(names)})" if len(names) else "fewer samples (task.min_samples)"
            raise UserError(
                f"task.partition: there are {len(names):,} writers{enough} for run.devices = {pool.devices:,}; ask for "
                f"{mend}"
            )
        order = generator.permutation(len(names))[: pool.devices]
        device_of = np.full(len(names), -1, dtype=np.int64)
        device_of[order] = np.arange(pool.devices)
        owner = device_of[place]
        partition = by_owner(samples[owner >= 0], owner[owner >= 0], pool.devices)
        return replace(partition, writers=names[order])

    def _with_enough(self, writers: np.ndarray, everybody: np.ndarray) -> np.ndarray:
        """Whether the writer of each sample has so many, training and test together (PFELS section 8.1)."""
        names, counts = np.unique(everybody, return_counts=True)
        return np.isin(writers, names[counts >= self.min_samples])
