"""The server's own update on public data, with the optimiser of the devices (Fed-SMP algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from airfl.learning.divergence import check_public
from airfl.learning.tasks.partitions.rule import Partition
from airfl.runtime.store import Store

if TYPE_CHECKING:
    from airfl.config.learning import LocalSettings
    from airfl.config.run import RunSettings
    from airfl.learning.task import DividedTask
    from airfl.runtime.streams import Streams


def public_update(
    local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: torch.device
) -> Callable[[Tensor, int], Tensor]:
    """Return a function (theta^t, t) -> Delta_p, [d], the update on the public samples (lines 24 to 31).

    The server counts as device N, so that its batches are drawn independently of the devices'. The trainer is built at
    the first call.
    """
    from airfl.learning.trainer import LocalTrainer

    server = run.devices
    trainers: list[LocalTrainer] = []

    def update(parameters: Tensor, round_index: int) -> Tensor:
        if not trainers:
            offsets = np.zeros(server + 2, dtype=np.int64)
            offsets[-1] = len(task.public)
            everything = Partition(np.arange(len(task.public), dtype=np.int64), offsets)
            public = replace(task, train=task.public, partition=everything)
            trainers.append(LocalTrainer(local, run.model_copy(update={"chunk": 1}), public, streams, device))
        update = trainers[0].updates(parameters, np.array([server]), round_index, Store())[0]
        check_public(update, round_index)
        return update

    return update
