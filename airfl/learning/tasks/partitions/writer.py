"""One writer per device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from airfl.errors import UserError
from airfl.learning.tasks.partitions.rule import Partition, PartitionRule, Pool, by_owner
from channels.part import parameter


class Writer(PartitionRule):
    """One writer per device, drawn at random; the test samples are those of the same writers."""

    name = "writer"
    by_writer = True

    min_samples: int = parameter(
        default=0,
        ge=0,
        description="writers with fewer samples, training and test together, are left out, for partition = writer",
        key="min_samples",
    )

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Return the samples of each device's writer; those of other writers belong to no device."""
        if pool.writers is None:
            raise UserError(
                "task.partition: this data set does not name the writers of its samples; choose a partition other than "
                "'writer'"
            )
        eligible = self._with_enough(pool.writers, pool.writers if pool.all_writers is None else pool.all_writers)
        samples = pool.samples[eligible]
        names, index = np.unique(pool.writers[eligible], return_inverse=True)
        if len(names) < pool.devices:
            enough = f" with at least {self.min_samples:,} samples" if self.min_samples else ""
            remedy = f"set run.devices={len(names)} or less" if len(names) else "decrease task.min_samples"
            raise UserError(
                f"task.partition: run.devices = {pool.devices:,}, but there are only {len(names):,} writers{enough}; "
                f"{remedy}"
            )
        order = generator.permutation(len(names))[: pool.devices]
        device_of = np.full(len(names), -1, dtype=np.int64)
        device_of[order] = np.arange(pool.devices)
        owner = device_of[index]
        partition = by_owner(samples[owner >= 0], owner[owner >= 0], pool.devices)
        return replace(partition, writers=names[order])

    def _with_enough(self, writers: np.ndarray, all_writers: np.ndarray) -> np.ndarray:
        """Whether the writer of each sample has min_samples, training and test together (PFELS section 8.1)."""
        names, counts = np.unique(all_writers, return_counts=True)
        return np.isin(writers, names[counts >= self.min_samples])
