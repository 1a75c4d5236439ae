"""Partitions by the partitioners of Flower's library `flwr-datasets`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError

ROW = "airfl_row"
"""Column with the number of each sample, which a partitioner carries along."""


def from_flower(partitioner: Any, dataset: Any) -> list[NDArray[np.int64]]:
    """Divide a data set of Hugging Face by a partitioner of `flwr_datasets.partitioner`.

    Args:
        partitioner: A partitioner whose data set has not been set, such as `DirichletPartitioner(num_partitions=100,
            partition_by="label", alpha=0.3)`. All of its partitions are loaded once.
        dataset: The `datasets.Dataset` of the training samples, in the order in which the task has them.

    Returns the samples of each partition, row numbers of the data set: what `airfl.Task` takes as `partition`.

    Raises UserError if the objects are not of those libraries, and for a partitioner that already has a data set.
    """
    for given, needed, what in (
        (partitioner, ("load_partition", "num_partitions"), "partitioner: expected one of flwr_datasets.partitioner"),
        (dataset, ("add_column", "column_names"), "dataset: expected a datasets.Dataset"),
    ):
        if not all(hasattr(type(given), name) or name in getattr(given, "__dict__", {}) for name in needed):
            raise UserError(f"{what}, got {type(given).__name__}")
    if getattr(partitioner, "_dataset", None) is not None:
        raise UserError("partitioner: its data set has been set already; give a new one of the same arguments")
    partitioner.dataset = dataset.add_column(ROW, np.arange(len(dataset)))
    return [
        np.asarray(partitioner.load_partition(number).with_format("numpy")[ROW], dtype=np.int64).reshape(-1)
        for number in range(int(partitioner.num_partitions))
    ]
