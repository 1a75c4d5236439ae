"""Division of the training data among the devices. A new way is one function and one line in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """Device i has the samples indices[offsets[i]:offsets[i + 1]]; every device has at least one.

    writers: whose samples device i has, [N], where a device is a writer.
    """

    indices: Indices
    offsets: Indices
    writers: Indices | None = None

    @cached_property
    def sizes(self) -> Indices:
        """Samples of each device, [N]; a round must not go through all N again."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Pool:
    """What is divided: sample numbers [n], the class and (where known) the writer of each, how many devices, alpha.

    min_samples: what every writer that is left here had at least, for the message.
    """

    samples: Indices
    labels: NDArray[np.int64]
    writers: NDArray[np.int64] | None
    devices: int
    dirichlet_alpha: float
    min_samples: int = 0


def iid(pool: Pool, generator: np.random.Generator) -> Partition:
    """Equal shares of a random order; what does not divide is left out."""
    share = len(pool.samples) // pool.devices
    order = generator.permutation(len(pool.samples))[: share * pool.devices]
    return Partition(pool.samples[order], np.arange(pool.devices + 1, dtype=np.int64) * share)


def by_class(pool: Pool, generator: np.random.Generator) -> Partition:
    """Equal shares of an order sorted by class, random within one; what does not divide is left out at random.

    The harshest division there is: most devices see one class (SoteriaFL's public code divides so).
    """
    share = len(pool.samples) // pool.devices
    order = generator.permutation(len(pool.samples))[: share * pool.devices]
    order = order[np.argsort(pool.labels[order], kind="stable")]
    return Partition(pool.samples[order], np.arange(pool.devices + 1, dtype=np.int64) * share)


def dirichlet(pool: Pool, generator: np.random.Generator) -> Partition:
    """Each class is divided among the devices in proportions drawn from a symmetric Dirichlet(alpha) law.

    (Yurochkin et al. 2019; Li et al. 2022.) Sizes come out unequal. A device that is left without a sample takes one
    from the largest, so that everybody can be selected.
    """
    order = generator.permutation(len(pool.samples))
    owner = np.empty(len(pool.samples), dtype=np.int64)
    for label in np.unique(pool.labels):
        members = order[pool.labels[order] == label]
        proportions = generator.dirichlet(np.full(pool.devices, pool.dirichlet_alpha))
        cuts = np.round(np.cumsum(proportions)[:-1] * len(members)).astype(np.int64)
        for device, part in enumerate(np.split(members, cuts)):
            owner[part] = device
    sizes = np.bincount(owner, minlength=pool.devices)
    for empty in np.flatnonzero(sizes == 0):
        giver = np.argmax(sizes)
        owner[order[owner[order] == giver][0]] = empty
        sizes[giver] -= 1
        sizes[empty] += 1
    return _by_owner(pool.samples[order], owner[order], pool.devices)


def by_writer(pool: Pool, generator: np.random.Generator) -> Partition:
    """One writer a device, the devices' writers drawn at random."""
    if pool.writers is None:
        raise UserError("task.partition: this data set does not say who wrote what; other partitions are possible")
    names, place = np.unique(pool.writers, return_inverse=True)
    if len(names) < pool.devices:
        enough = f" with at least {pool.min_samples:,} samples" if pool.min_samples else ""
        mend = f"at most that many (run.devices={len(names)})" if len(names) else "fewer samples (task.min_samples)"
        raise UserError(
            f"task.partition: there are {len(names):,} writers{enough} for run.devices = {pool.devices:,}; ask for "
            f"{mend}"
        )
    order = generator.permutation(len(names))[: pool.devices]
    device_of = np.full(len(names), -1, dtype=np.int64)
    device_of[order] = np.arange(pool.devices)
    owner = device_of[place]
    partition = _by_owner(pool.samples[owner >= 0], owner[owner >= 0], pool.devices)
    return replace(partition, writers=names[order])


def _by_owner(samples: Indices, owner: Indices, devices: int) -> Partition:
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=devices))]).astype(np.int64)
    return Partition(samples[np.argsort(owner, kind="stable")], offsets)


PARTITIONS: dict[str, Callable[[Pool, np.random.Generator], Partition]] = {
    "iid": iid,
    "class": by_class,
    "dirichlet": dirichlet,
    "writer": by_writer,
}
