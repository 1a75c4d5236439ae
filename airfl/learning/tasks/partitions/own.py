"""User-defined partitions, given as lists of indices, a function or a rule, and their checks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError, one_line_errors
from airfl.learning.tasks.partitions.rule import Indices, Partition, PartitionRule, Pool

Shares = tuple[Indices, ...] | Callable[[NDArray[Any], int, np.random.Generator], Sequence[NDArray[np.integer]]]
"""The rows of the training data of each device; or a function of targets, number of devices and generator that returns
the samples of each device as indices into those targets."""


def user_partition(shares: Shares, pool: Pool, rows: int, generator: np.random.Generator) -> Partition:
    """Return the partition of a user-defined task, without held-out samples; rows: number of training samples."""
    if callable(shares):
        by_device = tuple(pool.samples[one] for one in _by_function(shares, pool, generator))
    else:
        available = np.zeros(rows, dtype=np.bool_)
        available[pool.samples] = True
        by_device = tuple(one[available[one]] for one in shares)
    if len(by_device) != pool.devices:
        raise UserError(
            f"partition: it divides the samples among {len(by_device):,} devices, but run.devices is "
            f"{pool.devices:,}; set run.devices={len(by_device)}, or divide among {pool.devices:,}"
        )
    sizes = [len(one) for one in by_device]
    if 0 in sizes:
        raise UserError(
            f"partition: device {sizes.index(0)} has no sample; every device needs one that is not held out"
        )
    return Partition.of(by_device)


def _by_function(function: Callable[..., Any], pool: Pool, generator: np.random.Generator) -> tuple[Indices, ...]:
    """Return the checked shares of a user-defined function, which must be the same for equal generators."""
    name = getattr(function, "__name__", type(function).__name__)

    def divided(one: np.random.Generator) -> tuple[Indices, ...]:
        with one_line_errors(f"partition: {name}(targets, devices, generator)"):
            found = function(pool.labels.copy(), pool.devices, one)
            found = list(found) if isinstance(found, Iterator) else found
        return checked_shares(found, len(pool.samples), "its result")

    again, first = divided(copy.deepcopy(generator)), divided(generator)
    if len(first) != len(again) or not all(map(np.array_equal, first, again)):
        raise UserError(
            f"partition: {name} returns different samples under the same seed; draw from the given generator only"
        )
    return first


def checked_shares(shares: Any, rows: int, what: str) -> tuple[Indices, ...]:
    """Return the shares as int64 arrays.

    Raises UserError, with device and sample, unless they are distinct integers from 0 to rows - 1.
    """
    owner = np.full(rows, -1, dtype=np.int64)
    checked = []
    try:
        several = list(shares)
    except TypeError:
        raise UserError(f"partition: {what} must be a list of index arrays, got {type(shares).__name__}") from None
    for device, share in enumerate(several):
        indices = np.asarray(share)
        if indices.size == 0:
            indices = np.zeros(0, dtype=np.int64)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise UserError(
                f"partition: the samples of device {device} must be an array of integers, got {indices.dtype} of shape "
                f"{indices.shape}"
            )
        outside = indices[(indices < 0) | (indices >= rows)]
        if outside.size:
            raise UserError(
                f"partition: sample indices must be from 0 to {rows - 1}, got {outside[0]} for device {device}"
            )
        indices = indices.astype(np.int64)
        twice = indices[owner[indices] >= 0]
        if twice.size or len(np.unique(indices)) < len(indices):
            names, counts = np.unique(indices, return_counts=True)
            one = twice[0] if twice.size else names[counts > 1][0]
            other = int(owner[one]) if twice.size else device
            raise UserError(
                f"partition: devices {other} and {device} both have sample {one}; assign every sample at most once"
            )
        owner[indices] = device
        checked.append(indices)
    return tuple(checked)


def shares_of(owner: NDArray[np.integer]) -> tuple[Indices, ...]:
    """Return the rows of each device, given the device of each row, -1 for none."""
    devices = int(owner.max(initial=-1)) + 1
    order = np.argsort(owner, kind="stable")
    cuts = np.searchsorted(owner[order], np.arange(devices + 1))
    return tuple(order[start:end].astype(np.int64) for start, end in pairwise(cuts))


def divided_by_rule(rule: PartitionRule, pool: Pool, generator: np.random.Generator) -> Partition:
    """Return the checked partition of a user-defined rule, which must be the same for equal generators."""

    def divided(one: np.random.Generator) -> Partition:
        # Copies, as a rule may shuffle the samples in place.
        given = replace(pool, samples=pool.samples.copy(), labels=pool.labels.copy())
        with one_line_errors(f"task.partition: {rule!r}: divide()"):
            found = rule.divide(given, one)
        return checked_partition(rule, found, pool)

    again, first = divided(copy.deepcopy(generator)), divided(generator)
    if not (np.array_equal(first.indices, again.indices) and np.array_equal(first.offsets, again.offsets)):
        raise UserError(
            f"task.partition: {rule!r} returns another partition under the same seed; draw from the given generator "
            "only"
        )
    return first


def checked_partition(rule: PartitionRule, result: Any, pool: Pool) -> Partition:
    """Return the result of a user-defined rule; raises UserError if it is not a valid partition."""
    what = f"task.partition: {rule!r}"
    if not isinstance(result, Partition):
        raise UserError(f"{what} must return a Partition, such as Partition.of(shares), got {type(result).__name__}")
    offsets, indices = np.asarray(result.offsets), np.asarray(result.indices)
    for name, array in (("indices", indices), ("offsets", offsets)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise UserError(
                f"{what} must return {name} as a vector of integers, got {array.dtype} of shape {array.shape}"
            )
    if len(offsets) != pool.devices + 1:
        raise UserError(f"{what} divides among {len(offsets) - 1:,} devices, but run.devices is {pool.devices:,}")
    if offsets[0] != 0 or offsets[-1] != len(indices):
        raise UserError(
            f"{what} must return offsets from 0 to {len(indices)}, got offsets from {offsets[0]} to {offsets[-1]}"
        )
    few = np.flatnonzero(np.diff(offsets) < 1)
    if len(few):
        raise UserError(f"{what} gives device {few[0]} no sample; every device needs one")
    foreign = indices[~np.isin(indices, pool.samples)]
    if len(foreign):
        raise UserError(f"{what} uses sample {foreign[0]}, which is held out or does not exist")
    if rule.shares:
        for device, share in enumerate(np.split(indices, offsets[1:-1])):
            if len(again := _repeated(share)):
                raise UserError(f"{what} gives device {device} sample {again[0]} twice; its samples must differ")
    elif len(again := _repeated(indices)):
        raise UserError(
            f"{what} uses sample {again[0]} twice; assign every sample at most once, or set shares = True in the class"
        )
    return Partition(indices.astype(np.int64), offsets.astype(np.int64), result.writers)


def _repeated(indices: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the indices that occur more than once, ascending."""
    numbers, counts = np.unique(indices, return_counts=True)
    return np.asarray(numbers[counts > 1])
