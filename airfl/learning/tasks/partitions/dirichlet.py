"""Shares of each class drawn from a Dirichlet distribution."""

from __future__ import annotations

import numpy as np

from airfl.learning.tasks.partitions.rule import Partition, PartitionRule, Pool, by_owner
from channels.part import parameter


class Dirichlet(PartitionRule):
    """Each class is divided among the devices in proportions drawn from a symmetric Dirichlet(alpha) distribution.

    (Yurochkin et al. 2019; Li et al. 2022.) The devices get different numbers of samples. A device without any gets one
    from the largest device, so that every device can be selected.
    """

    name = "dirichlet"
    by_class = True

    alpha: float = parameter(
        default=0.5,
        gt=0,
        description="concentration of the Dirichlet distribution of label shares, for partition = dirichlet",
        key="dirichlet_alpha",
    )

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Return shares that contain every sample of the pool."""
        order = generator.permutation(len(pool.samples))
        owner = np.empty(len(pool.samples), dtype=np.int64)
        for label in np.unique(pool.labels):
            members = order[pool.labels[order] == label]
            proportions = generator.dirichlet(np.full(pool.devices, self.alpha))
            cuts = np.round(np.cumsum(proportions)[:-1] * len(members)).astype(np.int64)
            for device, part in enumerate(np.split(members, cuts)):
                owner[part] = device
        sizes = np.bincount(owner, minlength=pool.devices)
        for empty in np.flatnonzero(sizes == 0):
            largest = np.argmax(sizes)
            owner[order[owner[order] == largest][0]] = empty
            sizes[largest] -= 1
            sizes[empty] += 1
        return by_owner(pool.samples[order], owner[order], pool.devices)
