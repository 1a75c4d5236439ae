"""Local SGD of the selected devices, chunk by chunk."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.learning import LocalSettings
from airfl.config.run import RunSettings
from airfl.learning.ahead import Ahead
from airfl.learning.batches import plan_batches
from airfl.learning.engines.choose import choose
from airfl.learning.engines.engine import OverlappingEngine, Work
from airfl.learning.engines.own_model import rule_of
from airfl.learning.flat import FlatModel
from airfl.learning.gpu_memory import Halved
from airfl.learning.schedule import learning_rate
from airfl.learning.task import DividedTask
from airfl.learning.work import Ids, Meanwhile
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams


class LocalTrainer:
    """Trains devices from the global model. `engine` and `chunk` are those in use, for the resolved settings."""

    def __init__(
        self, local: LocalSettings, run: RunSettings, task: DividedTask, streams: Streams, device: torch.device
    ) -> None:
        self._local, self._task, self._streams = local, task, streams
        self._rule, self._sizes = rule_of(local), task.partition.sizes
        self._largest = int(self._sizes.max())
        chosen = choose(local, run, FlatModel(task.model, task.loss), task, streams)
        self.engine, self.chunk, self._chosen = chosen.name, chosen.chunk, chosen
        self._halved = Halved()
        self._ahead = Ahead(self._work)

    def evaluations(self, devices: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        """Return the number of per-sample gradients that each device computes in a round, [devices]."""
        return self._rule.samples_of(self._sizes[devices])

    def updates(
        self, parameters: Tensor, devices: Ids, round_index: int, store: Store, meanwhile: Meanwhile | None = None
    ) -> Tensor:
        """Return Delta_i = theta_i - theta of at most `chunk` devices, [devices, d] (PFELS algorithm 2, lines 6 to 11).

        Args:
            parameters: theta^t, [d].
            devices: Ids of the devices.
            round_index: t.
            store: Not used.
            meanwhile: See `Trainer.updates`.
        """
        return self._halved(lambda part: self._updates(parameters, devices[part], round_index, meanwhile), len(devices))

    def _updates(self, parameters: Tensor, devices: Ids, round_index: int, meanwhile: Meanwhile | None) -> Tensor:
        work = self._ahead.plan(devices, round_index)
        updates = parameters.new_empty(len(devices), len(parameters))
        if self._halved.most is not None and self._halved.most < self._chosen.chunk:
            self._chosen = self._chosen.smaller(self._halved.most)
        engine = self._chosen.engine
        if meanwhile and isinstance(engine, OverlappingEngine):
            engine.train_while(parameters, work, updates, meanwhile)
        else:
            engine.train(parameters, work, updates)
        return updates

    def prepare(self, devices: NDArray[np.int64], round_index: int) -> None:
        """Plan the batches of these devices, and begin to copy the plan to a GPU."""
        self._ahead.prepare(devices, round_index)

    def _work(self, devices: NDArray[np.int64], round_index: int) -> Work:
        """Return the work of these devices, with its rows on the device of the data."""
        plan = plan_batches(self._rule, self._streams, round_index, devices, self._sizes[devices], self._largest)
        work = Work(self._task, devices, plan, learning_rate(self._local, round_index))
        work.rows  # noqa: B018  computed now
        return work
