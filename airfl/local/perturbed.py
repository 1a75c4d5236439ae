"""Local SGD whose every step is clipped coordinate by coordinate, perturbed and sparsified (Fed-SPA, DP-Fed)."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config import Settings
from airfl.errors import UserError
from airfl.local.batches import BatchRule, independent_batches
from airfl.local.draws import distinct, normals
from airfl.local.flat import FlatModel
from airfl.local.per_sample import SampleGradients
from airfl.local.schedule import learning_rate
from airfl.local.work import Ids, PerturbedSgd
from airfl.stages.masks import own_coordinates
from airfl.store import Store
from airfl.streams import Purpose, Streams
from airfl.tasks.task import Task

# The median of the initial round is taken over at most so many numbers.
MEDIAN_NUMBERS = 1 << 25


class PerturbedTrainer:
    """Fed-SPA algorithm 1, lines 5 to 11: one device after another, tau steps each.

    A mini-batch of b = min(B, m_i) samples is drawn without replacement, independently in every step, and sigma is
    noise_multiplier c sqrt(k)/b. `local.momentum`, which the paper has none of, works on the perturbed gradient. Noise
    is drawn for the k kept coordinates of a step, ascending, step after step.
    """

    engine = "loop"

    def __init__(
        self, work: PerturbedSgd, settings: Settings, task: Task, streams: Streams, device: torch.device
    ) -> None:
        if work.noise_multiplier and work.coordinate_clip is not None and math.isinf(work.coordinate_clip):
            raise ValueError(f"noise multiplier {work.noise_multiplier} needs a finite coordinate clip (given: inf)")
        self._work, self._settings, self._task, self._streams, self._device = work, settings, task, streams, device
        self._model = FlatModel(task.model)
        self._gradients = SampleGradients.of(self._model, task)
        self._rule = BatchRule(settings.local.epochs, settings.local.steps, settings.local.batch_size)
        self._sizes = task.partition.sizes
        self.chunk = settings.run.chunk or 1

    @functools.cached_property
    def coordinate_clip(self) -> float:
        """c: given, or the median over an initial round (Fed-SPA section 5.1).

        In that round r devices compute the gradients of every sample of one mini-batch at the initial model; c is the
        median of all absolute values of all coordinates, of those that are not 0 if that is 0. The data decides over c,
        and neither the paper nor `airfl.privacy` accounts for it.
        """
        if self._work.coordinate_clip is not None:
            return self._work.coordinate_clip
        run, initial = self._settings.run, self._model.initial()
        chooser = self._streams.generator(Purpose.INITIAL_ROUND)
        devices = distinct(chooser, run.devices, 1, min(run.selected, run.devices))[0]
        samples = min(self._rule.batch_size, int(self._sizes.max())) * len(devices)
        stride = -(-samples * self._model.dimension // MEDIAN_NUMBERS)  # 1 but for large models
        found = [
            self._gradients.each(initial, self._initial_batch(device)).flatten()[::stride].abs().cpu().numpy()
            for device in devices.tolist()
        ]
        return median_of(np.concatenate(found))

    def updates(self, parameters: Tensor, devices: Ids, round_index: int, store: Store) -> Tensor:
        """theta_i^tau - theta^t of each device; parameters: theta^t [d]; returns [devices, d], 0 off the mask."""
        found = parameters.new_empty(len(devices), len(parameters))
        for update, device in zip(found, devices.tolist(), strict=True):
            self._train(update.copy_(parameters), device, round_index)
        return found.sub_(parameters)

    def evaluations(self, devices: Ids, round_index: int) -> NDArray[np.int64]:
        """tau b, without the initial round of the median; [devices]."""
        sizes = self._sizes[devices]
        return np.asarray(self._rule.steps_of(sizes) * np.minimum(sizes, self._rule.batch_size))

    def _train(self, theta: Tensor, device: int, round_index: int) -> None:
        """Eq. 5, tau times, in place on theta, [d]."""
        dimension, kept, limit = len(theta), self._work.kept_entries, self.coordinate_clip
        rows = self._batches(device, round_index)
        noise_std = 0.0
        if self._work.noise_multiplier:
            noise_std = self._work.noise_multiplier * limit * math.sqrt(kept) / rows.shape[1]
        mask = None
        if kept < dimension:
            coordinates = own_coordinates(self._streams, round_index, device, dimension, kept)
            mask = torch.from_numpy(coordinates).to(self._device)
        generator = self._streams.device_generator(Purpose.LOCAL_NOISE, round_index, device)
        rate = learning_rate(self._settings.local, round_index) * dimension / kept
        momentum, velocity = self._settings.local.momentum, theta.new_zeros(kept)
        for step in rows:
            gradient = self._gradients.clamped_mean(theta, step, limit)
            slope = gradient if mask is None else gradient[mask]
            if noise_std:
                slope.add_(torch.from_numpy(normals(generator, kept)).to(self._device), alpha=noise_std)
            velocity.mul_(momentum).add_(slope)
            if mask is None:
                theta.sub_(velocity, alpha=rate)
            else:
                theta.index_add_(0, mask, velocity, alpha=-rate)

    def _batches(self, device: int, round_index: int) -> Tensor:
        """Rows of the training data in every step, [tau, b]."""
        size = self._sizes[[device]]
        steps, width = int(self._rule.steps_of(size)[0]), self._rule.batch_size
        largest = int(size[0])  # of this device alone, so that nothing is padded
        plan = independent_batches(self._streams, round_index, np.array([device]), size, largest, steps, width)[0]
        partition = self._task.partition
        return torch.from_numpy(partition.indices[partition.offsets[device] + plan]).to(self._device)

    def _initial_batch(self, device: int) -> Tensor:
        """Rows of a device's mini-batch in the initial round, [b]."""
        generator = self._streams.device_generator(Purpose.INITIAL_ROUND, None, device)
        size, partition = int(self._sizes[device]), self._task.partition
        own = distinct(generator, size, 1, min(self._rule.batch_size, size))[0]
        return torch.from_numpy(partition.indices[partition.offsets[device] + own]).to(self._device)


def median_of(values: NDArray[np.float32]) -> float:
    """The median of absolute values, of those that are not 0 if it is 0."""
    median = float(np.median(values))
    if median == 0 and values.any():
        median = float(np.median(values[values > 0]))
    if not 0 < median < math.inf:
        raise UserError(f"scheme.coordinate_clip: the median of the initial round is {median:g}; give a number")
    return median
