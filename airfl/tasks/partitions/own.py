"""Divisions of the user's own, shares or a function or a part that gives them, and what they have to hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.tasks.partitions.rule import Indices, Partition, PartitionRule, Pool

Shares = tuple[Indices, ...] | Callable[[NDArray[Any], int, np.random.Generator], Sequence[NDArray[np.integer]]]
"""An own division: rows of the training data that each device has; or a function of targets, devices and a generator
that gives them, as positions among those targets."""


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
    return Partition.of(given)


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


def checked_partition(rule: PartitionRule, found: Any, pool: Pool) -> Partition:
    """What a user's own partition gives; UserError, in one line, where it breaks a promise."""
    what = f"task.partition: {rule!r}"
    if not isinstance(found, Partition):
        raise UserError(f"{what} gave {type(found).__name__}; a Partition is wanted, such as Partition.of(shares)")
    offsets, indices = np.asarray(found.offsets), np.asarray(found.indices)
    for name, array in (("indices", indices), ("offsets", offsets)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise UserError(f"{what} gave {name} of {array.dtype} and shape {array.shape}; whole numbers are wanted")
    if len(offsets) != pool.devices + 1:
        raise UserError(f"{what} divides among {len(offsets) - 1:,} devices, and run.devices is {pool.devices:,}")
    if offsets[0] != 0 or offsets[-1] != len(indices):
        raise UserError(f"{what} gave offsets from {offsets[0]} to {offsets[-1]}, 0 to {len(indices)} are wanted")
    few = np.flatnonzero(np.diff(offsets) < 1)
    if len(few):
        raise UserError(f"{what} gives device {few[0]} no sample; every device needs one")
    foreign = indices[~np.isin(indices, pool.samples)]
    if len(foreign):
        raise UserError(f"{what} gives away sample {foreign[0]}, which is held out or does not exist")
    numbers, counts = np.unique(indices, return_counts=True)
    if len(numbers) < len(indices):
        raise UserError(f"{what} gives sample {numbers[counts > 1][0]} away twice; give it to one device once")
    return Partition(indices.astype(np.int64), offsets.astype(np.int64), found.writers)
