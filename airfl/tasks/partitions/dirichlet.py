"""Shares of each class drawn from a Dirichlet law."""

from __future__ import annotations

import numpy as np

from airfl.tasks.partitions.rule import Partition, PartitionRule, Pool, by_owner
from channels.part import parameter


class Dirichlet(PartitionRule):
    """Each class is divided among the devices in proportions drawn from a symmetric Dirichlet(alpha) law.

    (Yurochkin et al. 2019; Li et al. 2022.) Sizes come out unequal. A device that is left without a sample takes one
    from the largest, so that everybody can be selected.
    """

    name = "dirichlet"
    by_class = True

    alpha: float = parameter(
        default=0.5,
        gt=0,
        description="concentration of the label shares, for partition = dirichlet",
        key="dirichlet_alpha",
    )

    def divide(self, pool: Pool, generator: np.random.Generator) -> Partition:
        """Every sample of the pool is given away."""
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
            giver = np.argmax(sizes)
            owner[order[owner[order] == giver][0]] = empty
            sizes[giver] -= 1
            sizes[empty] += 1
        return by_owner(pool.samples[order], owner[order], pool.devices)
