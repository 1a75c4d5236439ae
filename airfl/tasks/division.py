"""Division of a data set: what is held out, what is public, which device has which samples, what is tested on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from airfl.config import Settings
from airfl.errors import UserError
from airfl.streams import Purpose, Streams
from airfl.tasks.datasets import DATASETS
from airfl.tasks.datasets.raw import RawData
from airfl.tasks.partition import PARTITIONS, Indices, Partition, Pool, Shares, own
from airfl.tasks.table import OWN

BY_LABEL = ("class", "dirichlet")
"""Partitions that need classes."""


@dataclass(frozen=True)
class Division:
    """Rows of the training data that are held out or public, those of each device, and the rows of the test data.

    test: None for all of them.
    """

    validation: Indices
    public: Indices
    partition: Partition
    test: Indices | None


def divide(settings: Settings, raw: RawData, streams: Streams, shares: Shares | None = None) -> Division:
    """The division that `settings.task` asks for; UserError where the data does not allow it. shares: of a task's own
    partition."""
    task, devices = settings.task, settings.run.devices
    generator = streams.generator(Purpose.PARTITION)
    order = generator.permutation(len(raw.train_targets))
    held = round(task.validation_share * len(order))
    pool = order[held + task.public_samples :]
    if len(pool) < devices:
        raise UserError(
            f"run.devices: {devices:,} devices for {max(len(pool), 0):,} training samples "
            f"({len(order):,} less {held:,} for validation and {task.public_samples:,} public); at least one each is "
            "needed"
        )
    if task.partition == "writer":
        pool = _of_writers_with(task.min_samples, pool, raw, task.dataset)
    if task.partition in BY_LABEL and (raw.train_targets.ndim != 1 or raw.train_targets.dtype.kind not in "iu"):
        raise UserError(
            f"task.partition: {task.partition!r} divides by class, and the targets are {raw.train_targets.dtype} of "
            f"shape {raw.train_targets.shape[1:]} each; take 'iid', or a partition of your own"
        )
    divided = Pool(
        samples=pool,
        labels=raw.train_targets[pool],
        writers=None if raw.train_writers is None else raw.train_writers[pool],
        devices=devices,
        dirichlet_alpha=task.dirichlet_alpha,
        min_samples=task.min_samples,
    )
    if task.partition != OWN:
        partition = PARTITIONS[task.partition](divided, generator)
    elif shares is not None:
        partition = own(shares, divided, len(order), generator)
    else:
        raise UserError(f"task.partition: {OWN!r} stands for that of an airfl.Task; give it one, or name another")
    return Division(
        validation=order[:held],
        public=order[held : held + task.public_samples],
        partition=partition,
        test=_test_rows(partition, raw),
    )


def _of_writers_with(min_samples: int, pool: Indices, raw: RawData, dataset: str) -> Indices:
    """The part of the pool whose writers have that many samples, training and test together (PFELS section 8.1)."""
    if raw.train_writers is None:
        wanted = DATASETS[dataset].writers if dataset in DATASETS else ""
        how = f"; get {wanted} with `airfl data get {dataset}`" if wanted else ""
        raise UserError(
            f"task.partition: {dataset} as it is here does not say who wrote what: other partitions are possible{how}"
        )
    known = [writers for writers in (raw.train_writers, raw.test_writers) if writers is not None]
    names, counts = np.unique(np.concatenate(known), return_counts=True)
    return pool[np.isin(raw.train_writers[pool], names[counts >= min_samples])]


def _test_rows(partition: Partition, raw: RawData) -> Indices | None:
    """Test samples of the devices' own writers, where they are known; else all. UserError if they have none."""
    if partition.writers is None or raw.test_writers is None:
        return None
    rows = np.flatnonzero(np.isin(raw.test_writers, partition.writers))
    if not len(rows):
        raise UserError(
            f"task.partition: the {len(partition.writers):,} chosen writers have no test samples; ask for more of them "
            "(run.devices), or for writers of more samples (task.min_samples)"
        )
    return rows
