"""Division of the training data among the devices. A new way is one function and one line in the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError

Indices = NDArray[np.int64]
Shares = tuple[Indices, ...] | Callable[[NDArray[Any], int, np.random.Generator], Sequence[NDArray[np.integer]]]
"""An own division: rows of the training data that each device has; or a function of targets, devices and a generator
that gives them, as positions among those targets."""


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
    labels: NDArray[Any]
    writers: NDArray[np.int64] | None
    devices: int
    dirichlet_alpha: float
    min_samples: int = 0


def iid(pool: Pool, generator: np.random.Generator) -> Partition:
    """Equal shares of a random order; what does not divide is left out."""
    share = len(pool.samples) // pool.devices
    order = generator.permutation(len(pool.samples))[: share * pool.devices]
    return Partition(pool.samples[order], np.arange(pool.devices + 1, dtype=np.int64) * share)


def own(shares: Shares, pool: Pool, rows: int, generator: np.random.Generator) -> Partition:
    """As the user's own task says; rows: of the training data. What is held out is taken from the devices' shares."""
    if callable(shares):
        found = checked_shares(shares(pool.labels, pool.devices, generator), len(pool.samples), "what it gives")
        given = tuple(pool.samples[one] for one in found)
    else:
        there = np.zeros(rows, dtype=np.bool_)
        there[pool.samples] = True
        given = tuple(one[there[one]] for one in shares)
    if len(given) != pool.devices:
        raise UserError(
            f"partition: it divides the samples among {len(given):,} devices, and run.devices is {pool.devices:,}; "
            f"set run.devices={len(given)}, or divide among {pool.devices:,}"
        )
    sizes = [len(one) for one in given]
    if 0 in sizes:
        raise UserError(
            f"partition: device {sizes.index(0)} has no sample; give every device at least one that is not held out"
        )
    return Partition(np.concatenate(given), np.cumsum([0, *sizes]).astype(np.int64))


def checked_shares(shares: Any, rows: int, what: str) -> tuple[Indices, ...]:
    """Whole numbers below `rows`, none twice; UserError, which names the device and the sample, for anything else."""
    owner = np.full(rows, -1, dtype=np.int64)
    found = []
    try:
        several = list(shares)
    except TypeError:
        raise UserError(f"partition: {what} is {type(shares).__name__}; a list of index arrays is wanted") from None
    for device, share in enumerate(several):
        indices = np.asarray(share)
        if indices.size == 0:
            indices = np.zeros(0, dtype=np.int64)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise UserError(
                f"partition: device {device} is given {indices.dtype} of shape {indices.shape}; an array of whole "
                "numbers is wanted, the samples of the device"
            )
        outside = indices[(indices < 0) | (indices >= rows)]
        if outside.size:
            raise UserError(f"partition: device {device} is given sample {outside[0]}, and there are {rows:,} from 0")
        indices = indices.astype(np.int64)
        twice = indices[owner[indices] >= 0]
        if twice.size or len(np.unique(indices)) < len(indices):
            names, counts = np.unique(indices, return_counts=True)
            one = twice[0] if twice.size else names[counts > 1][0]
            other = int(owner[one]) if twice.size else device
            raise UserError(f"partition: devices {other} and {device} are both given sample {one}; give it to one once")
        owner[indices] = device
        found.append(indices)
    return tuple(found)


def shares_of(owner: NDArray[np.integer]) -> tuple[Indices, ...]:
    """Rows of each device, by the device of each row, -1 for nobody's."""
    devices = int(owner.max(initial=-1)) + 1
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(devices + 1))
    return tuple(order[start:end].astype(np.int64) for start, end in pairwise(cuts))


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
