"""What the server learns by itself: an update on public data, by the devices' own optimiser (Fed-SMP algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from airfl.finite import check_public
from airfl.store import Store
from airfl.tasks.partitions.rule import Partition

if TYPE_CHECKING:
    from airfl.config.settings import LocalSettings, RunSettings
    from airfl.streams import Streams
    from airfl.tasks.task import DividedTask


def public_update(
    local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: torch.device
) -> Callable[[Tensor, int], Tensor]:
    """(theta^t, t) -> Delta_p, [d], of the public samples (lines 24 to 31), which are those of a device numbered N: its
    batches are nobody else's. The trainer is made when it is asked for the first time."""
    from airfl.local.trainer import LocalTrainer

    server = run.devices
    made: list[LocalTrainer] = []

    def update(parameters: Tensor, round_index: int) -> Tensor:
        if not made:
            offsets = np.zeros(server + 2, dtype=np.int64)
            offsets[-1] = len(task.public)
            everything = Partition(np.arange(len(task.public), dtype=np.int64), offsets)
            public = replace(task, train=task.public, partition=everything)
            made.append(LocalTrainer(local, run.model_copy(update={"chunk": 1}), public, streams, device))
        update = made[0].updates(parameters, np.array([server]), round_index, Store())[0]
        check_public(update, round_index)
        return update

    return update
