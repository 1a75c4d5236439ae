"""The server's own update on public data, with the optimiser of the devices (Fed-SMP algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from airfl.learning.batches import BatchRule
from airfl.learning.divergence import check_public
from airfl.learning.tasks.partitions.rule import Partition
from airfl.runtime.store import Store

if TYPE_CHECKING:
    from airfl.config.learning import LocalSettings
    from airfl.config.run import RunSettings
    from airfl.learning.task import DividedTask
    from airfl.runtime.streams import Streams


def public_update(
    local: LocalSettings,
    run: RunSettings,
    task: DividedTask,
    streams: Streams,
    device: torch.device,
    *,
    steps: int | None = None,
) -> Callable[[Tensor, int], Tensor]:
    """Return a function (theta^t, t) -> Delta_p, [d], the update on the public samples (lines 24 to 31).

    The server counts as device N, so that its batches are drawn independently of the devices'. The trainer is built at
    the first call.

    Args:
        local: Local training of the devices, whose optimiser the server has.
        run: The section [run].
        task: The divided data.
        streams: Random streams of the run.
        device: Where to train.
        steps: Number of the server's steps, tau of line 27; None for those of a device with the mean number of samples.
    """
    from airfl.learning.trainer import LocalTrainer

    server = run.devices
    trainers: list[LocalTrainer] = []
    mean_size = np.array([round(float(task.partition.sizes.mean()))])
    of_a_device = int(BatchRule(local.epochs, local.steps, local.batch_size).steps_of(mean_size)[0])
    own = local.model_copy(update={"epochs": 0, "steps": steps or of_a_device})

    def update(parameters: Tensor, round_index: int) -> Tensor:
        if not trainers:
            offsets = np.zeros(server + 2, dtype=np.int64)
            offsets[-1] = len(task.public)
            everything = Partition(np.arange(len(task.public), dtype=np.int64), offsets)
            public = replace(task, train=task.public, partition=everything)
            trainers.append(LocalTrainer(own, run.model_copy(update={"chunk": 1}), public, streams, device))
        update = trainers[0].updates(parameters, np.array([server]), round_index, Store())[0]
        check_public(update, round_index, run.non_finite)
        return update.nan_to_num(0.0, math.inf, -math.inf)

    return update
