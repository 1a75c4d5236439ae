"""Local training of selected devices, chunk by chunk."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config import Settings
from airfl.local import engine as engines
from airfl.local.batches import NOBODY, BatchRule, plan_batches
from airfl.local.flat import FlatModel
from airfl.local.loop import train_alone
from airfl.local.schedule import learning_rate
from airfl.local.sgd import Step, build_step, normalise
from airfl.store import Store
from airfl.streams import Streams
from airfl.tasks.models import MODELS
from airfl.tasks.task import Task


@functools.cache
def _compiled_step(model_name: str, mean: tuple[float, ...], std: tuple[float, ...]) -> Step:
    """One compiled step for all runs of a process that share a model, so that a comparison compiles once."""
    with torch.device("meta"):  # only the structure is used, and nothing is drawn
        module = MODELS[model_name].build()
    return engines.compiled(build_step(FlatModel(module), mean, std))


class LocalTrainer:
    """Trains devices from the global model. `engine` and `chunk` are those used, for the resolved settings."""

    def __init__(self, settings: Settings, task: Task, streams: Streams, device: torch.device) -> None:
        local = settings.local
        self._settings = local
        self._task, self._streams, self._device = task, streams, device
        self._model = FlatModel(task.model)
        self._rule = BatchRule(local.epochs, local.steps, local.batch_size)
        self._sizes = task.partition.sizes
        self._learning_rate = torch.tensor(local.learning_rate, device=device)
        self._momentum = torch.tensor(local.momentum, device=device)
        wanted = engines.choose_engine(settings, device, self._model.dimension)
        shape = tuple(task.train.inputs.shape[1:])
        self.chunk = engines.choose_chunk(settings, wanted, task.model, self._model.dimension, shape)
        self._step = build_step(self._model, task.mean, task.std)
        self.engine = wanted if wanted == "loop" else self._batched_engine(settings, wanted)

    def evaluations(self, devices: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        """Samples whose gradient is computed by each device in a round, [devices]."""
        return self._rule.samples_of(self._sizes[devices])

    def updates(self, parameters: Tensor, devices: NDArray[np.int64], round_index: int, store: Store) -> Tensor:
        """Delta_i = theta_i - theta of at most `chunk` devices (PFELS algorithm 2, lines 6 to 11).

        parameters: theta^t, [d]; returns [devices, d]. Nothing is kept in the store.
        """
        self._learning_rate.fill_(learning_rate(self._settings, round_index))
        sizes = self._sizes[devices]
        plan = plan_batches(self._rule, self._streams, round_index, devices, sizes, int(self._sizes.max()))
        # A compiled step knows one chunk size: a smaller last chunk is filled up with devices that have no samples.
        if self.engine == "compiled" and len(devices) < self.chunk:
            plan = np.pad(plan, ((0, self.chunk - len(devices)), (0, 0), (0, 0)), constant_values=NOBODY)
        present = torch.from_numpy(plan != NOBODY).to(self._device)
        starts = np.zeros(len(plan), dtype=np.int64)
        starts[: len(devices)] = self._task.partition.offsets[devices]
        rows = self._task.partition.indices[starts[:, None, None] + np.maximum(plan, 0)]
        if self.engine == "loop":
            return self._one_by_one(parameters, torch.from_numpy(rows).to(self._device), present)
        start = self._model.split(parameters)
        trained = tuple(part.expand(len(plan), *part.shape).clone() for part in start)
        self._run_steps(trained, torch.from_numpy(rows).to(self._device), present.float())
        differences = [(after - before).flatten(1) for after, before in zip(trained, start, strict=True)]
        return torch.cat(differences, dim=1)[: len(devices)]

    def _one_by_one(self, parameters: Tensor, rows: Tensor, present: Tensor) -> Tensor:
        """The updates of devices with these rows of the training data, [devices, steps, batch], in turn."""
        updates = parameters.repeat(len(rows), 1)
        for update, own_rows, own in zip(updates, rows, present, strict=True):
            taken = [step[there] for step, there in zip(own_rows, own, strict=True) if there.any()]
            batches = ((self._inputs(step), self._task.train.targets[step]) for step in taken)
            train_alone(self._model, update, batches, float(self._learning_rate), float(self._momentum))
        return updates.sub_(parameters)

    def _inputs(self, rows: Tensor) -> Tensor:
        """Normalised inputs of a batch; pixel by pixel in memory, as convolutions on a CPU like it."""
        inputs = normalise(self._task.train.inputs[rows], self._task.mean, self._task.std)
        return inputs.contiguous(memory_format=torch.channels_last) if inputs.dim() == 4 else inputs

    def _run_steps(self, trained: tuple[Tensor, ...], rows: Tensor, present: Tensor) -> None:
        velocities = tuple(torch.zeros_like(part) for part in trained)
        inputs, targets = self._task.train.inputs, self._task.train.targets
        for step in range(rows.shape[1]):
            now = rows[:, step]
            self._step(
                trained,
                velocities,
                inputs[now],
                targets[now],
                present[:, step].contiguous(),
                self._learning_rate,
                self._momentum,
            )

    def _batched_engine(self, settings: Settings, wanted: str) -> str:
        """Compile now where that is wanted and pays: what cannot be compiled is computed eagerly."""
        chunks = -(-settings.run.selected // self.chunk)
        steps = settings.run.rounds * chunks * int(self._rule.steps_of(self._sizes).max())
        if not engines.worth_compiling(wanted, self._device, steps):
            return "eager"
        if not _compiled_step.cache_info().currsize:
            engines.log.info("compiling the training step (some 15 s the first time on a machine)")
        eager = self._step
        self._step = _compiled_step(settings.task.model, self._task.mean, self._task.std)
        try:
            with warnings.catch_warnings(action="ignore"):
                self._train_nobody(min(settings.local.batch_size, int(self._sizes.max())))
        except Exception as error:  # whatever the compiler's reason, the eager engine gives the same numbers
            engines.log.debug("the step could not be compiled, using the eager engine: %s", error)
            self._step = eager
            return "eager"
        return "compiled"

    def _train_nobody(self, batch_width: int) -> None:
        """One step of a whole chunk without a single sample, which compiles the step and changes nothing."""
        nobody = torch.zeros(self.chunk, 1, batch_width, device=self._device)
        start = self._model.split(self._model.initial())
        self._run_steps(tuple(part.expand(self.chunk, *part.shape).clone() for part in start), nobody.long(), nobody)
