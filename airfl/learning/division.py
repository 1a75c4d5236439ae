"""Division of a data set into held-out, public and test samples and the samples of each device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airfl.config.part_keys import name_of
from airfl.config.task import OWN, TaskSettings
from airfl.errors import UserError
from airfl.learning.generated import population_of
from airfl.learning.tasks import NO_PARTITION
from airfl.learning.tasks.datasets import DATASETS
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.partitions.own import Shares, divided_by_rule, user_partition
from airfl.learning.tasks.partitions.rule import Indices, Partition, PartitionRule, Pool
from airfl.runtime.streams import Purpose, Streams
from airfl.storage.fingerprint import is_own


@dataclass(frozen=True)
class Division:
    """How the samples of a data set are divided.

    Attributes:
        validation: Rows of the training data held out for validation.
        public: Rows of the training data that are public.
        partition: Rows of the training data of each device.
        test: Rows of the test data; None for all.
    """

    validation: Indices
    public: Indices
    partition: Partition
    test: Indices | None


def divide(task: TaskSettings, devices: int, raw: RawData, streams: Streams, shares: Shares | None = None) -> Division:
    """Divide a data set as `settings.task` says.

    Of a generated data set, only the partition is returned: its samples are no rows of `raw`.

    Args:
        task: How much is held out, and how the rest is partitioned.
        devices: Number of devices.
        raw: The data.
        streams: Random streams of the run.
        shares: Partition of a user-defined task, used instead of that of the settings.

    Raises UserError if the data does not allow it.
    """
    population = population_of(task, devices, streams)
    if population is not None:
        nothing = np.zeros(0, dtype=np.int64)
        return Division(nothing, nothing, population.partition, None)
    generator = streams.generator(Purpose.PARTITION)
    order = generator.permutation(len(raw.train_targets))
    held = round(task.validation_share * len(order))
    samples = order[held + task.public_samples :]
    rule = None if task.partition == OWN or shares is not None else task.partition_rule
    if len(samples) < (1 if rule and rule.shares else devices):
        raise UserError(
            f"run.devices: {devices:,} devices, but only {max(len(samples), 0):,} training samples "
            f"({len(order):,} less {held:,} for validation and {task.public_samples:,} public); every device needs one"
        )
    pool = Pool(
        samples=samples,
        labels=raw.train_targets[samples],
        writers=None if raw.train_writers is None else raw.train_writers[samples],
        devices=devices,
        all_writers=_writers(raw),
    )
    if shares is not None:
        partition = user_partition(shares, pool, len(order), generator)
    elif task.partition == OWN:
        raise UserError(NO_PARTITION)
    else:
        partition = _by_rule(task.partition_rule, pool, raw, task.dataset, generator)
    return Division(
        validation=order[:held],
        public=order[held : held + task.public_samples],
        partition=partition,
        test=_test_rows(partition, raw),
    )


def _by_rule(
    rule: PartitionRule, pool: Pool, raw: RawData, dataset: str | Dataset, generator: np.random.Generator
) -> Partition:
    """Partition by a rule; a user-defined one is checked."""
    if rule.by_writer and pool.writers is None:
        known = DATASETS[dataset] if isinstance(dataset, str) and dataset in DATASETS else dataset
        source = "" if isinstance(known, str) else known.writers
        remedy = f", or get {source} with `airfl data get {name_of(dataset)}`" if source else ""
        raise UserError(
            f"task.partition: {name_of(dataset)} does not name the writers of its samples; choose a partition other "
            f"than 'writer'{remedy}"
        )
    if rule.by_class and (raw.train_targets.ndim != 1 or raw.train_targets.dtype.kind not in "iu"):
        raise UserError(
            f"task.partition: {rule.name!r} divides by class, but the targets are {raw.train_targets.dtype} of "
            f"shape {raw.train_targets.shape[1:]} each; use 'iid' or a user-defined partition"
        )
    return divided_by_rule(rule, pool, generator) if is_own(rule) else rule.divide(pool, generator)


def _writers(raw: RawData) -> NDArray[np.int64] | None:
    """Return the writers of all training and test samples, or None if they are unknown."""
    known = [writers for writers in (raw.train_writers, raw.test_writers) if writers is not None]
    return np.concatenate(known) if known else None


def _test_rows(partition: Partition, raw: RawData) -> Indices | None:
    """Return the test samples of the devices' writers, or None (all) if writers are unknown.

    Raises UserError if these writers have no test samples.
    """
    if partition.writers is None or raw.test_writers is None:
        return None
    rows = np.flatnonzero(np.isin(raw.test_writers, partition.writers))
    if not len(rows):
        raise UserError(
            f"task.partition: the {len(partition.writers):,} writers drawn have no test samples; increase run.devices "
            "or task.min_samples"
        )
    return rows
