"""Local SGD with coordinate-wise clipping, noise and sparsification in every step (Fed-SPA, DP-Fed)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.learning import LocalSettings
from airfl.config.run import RunSettings
from airfl.errors import UserError
from airfl.learning.ahead import Ahead
from airfl.learning.batches import BatchRule, independent_batches
from airfl.learning.flat import FlatModel
from airfl.learning.gpu_memory import Halved, measured_chunk
from airfl.learning.per_sample import Rows, SampleGradients, samples_of
from airfl.learning.schedule import learning_rate
from airfl.learning.task import DividedTask
from airfl.learning.work import Ids, Meanwhile, PerturbedSgd
from airfl.runtime.philox import normals
from airfl.runtime.philox.tensors import add_normals_
from airfl.runtime.sampling import distinct, spread
from airfl.runtime.store import Store
from airfl.runtime.streams import Address, Purpose, Streams
from airfl.runtime.threads import run_threads
from airfl.uplinks.stages.masks import per_device_coordinates
from channels.transfer import on_device

# Most numbers over which the median of the initial round is taken.
MEDIAN_NUMBERS = 1 << 25
# Noise is drawn for about this many numbers at a time, at least for one step.
NOISE_NUMBERS = 1 << 22


@dataclass(frozen=True)
class Batches:
    """Mini-batches of a set of devices.

    Attributes:
        task: The task that the samples come from.
        rows: Rows of the samples in `inputs` or, if that is None, in the training data, [devices, steps, batch].
        targets: The targets, [devices, steps, batch, *shape], where a class label has an empty shape.
        present: 1 for a sample, 0 for padding, float32 [devices, steps, batch].
        inputs: Inputs of the samples that are used, normalised once each, [samples, *shape]; None if they are
            normalised in every step.
    """

    task: DividedTask
    rows: Tensor
    targets: Tensor
    present: Tensor
    inputs: Tensor | None

    @classmethod
    def of(cls, task: DividedTask, samples: Rows, shape: tuple[int, ...], distinct_samples: int) -> Batches:
        """Return the batches; samples: [devices, steps batch]; distinct_samples: upper bound on distinct ones."""
        rows, inputs = samples.rows, None
        if task.mean and 2 * distinct_samples <= rows.numel():
            used, rows = torch.unique(rows, return_inverse=True)
            inputs = samples_of(task, used)[0]
        targets, present = task.train.targets[samples.rows], samples.present.float()
        targets = targets.view(*shape, *targets.shape[2:])
        return cls(task, rows.view(shape), targets, present.view(shape), inputs)

    def at(self, active: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs, targets and presence of a step for the first `active` devices."""
        rows = self.rows[:active, step]
        inputs = samples_of(self.task, rows)[0] if self.inputs is None else self.inputs[rows]
        return inputs, self.targets[:active, step], self.present[:active, step]


def noise_of(
    address: Address, devices: list[int], steps: NDArray[np.int64], kept: int, where: torch.device
) -> Iterator[Tensor]:
    """Yield normal numbers for one step after another, [devices, kept], for at least the devices with steps left.

    steps: number of steps of each device, largest first. where: the torch device, which draws them itself if it is not
    a CPU. Several steps are drawn at a time, because torch's threads keep spinning for a while after an operation and
    would slow down those that draw.
    """
    block = max(1, NOISE_NUMBERS // (len(devices) * kept))
    for first in range(0, int(steps[0]), block):
        active, several = int((steps > first).sum()), min(block, int(steps[0]) - first)
        if where.type == "cpu":
            threads = run_threads()
            drawn = normals(address, devices[:active], several * kept, start=first * kept, threads=threads)
            numbers = torch.from_numpy(drawn)
        else:
            zeros = torch.zeros(active, several * kept, device=where)
            numbers = add_normals_(zeros, address, devices[:active], 1.0, start=first * kept)
        yield from numbers.view(active, several, kept).unbind(dim=1)


class PerturbedTrainer:
    """Fed-SPA algorithm 1, lines 5 to 11: tau steps of all devices of a chunk at once.

    A mini-batch of b = min(B, m_i) samples is drawn without replacement, independently in every step, and sigma is
    noise_multiplier c sqrt(k)/b. `local.momentum`, which the paper does not have, applies to the perturbed gradient.
    Noise is drawn for the k kept coordinates of each step, in ascending order.
    """

    def __init__(
        self,
        work: PerturbedSgd,
        local: LocalSettings,
        run: RunSettings,
        task: DividedTask,
        streams: Streams,
        device: torch.device,
    ) -> None:
        if work.noise_multiplier and work.coordinate_clip is not None and math.isinf(work.coordinate_clip):
            raise ValueError(f"noise_multiplier {work.noise_multiplier} needs a finite coordinate_clip, got inf")
        self._work, self._local, self._run, self._device = work, local, run, device
        self._task, self._streams = task, streams
        self._model = FlatModel(task.model, task.loss)
        self._gradients = SampleGradients.of(self._model, task, local.engine)
        self._rule = BatchRule(local.epochs, local.steps, local.batch_size)
        self._sizes = task.partition.sizes
        looped = local.engine == "loop" or self._gradients.engine == "loop"
        width = min(self._rule.batch_size, int(self._sizes.max()))
        self.engine: str = "loop" if looped else self._gradients.engine
        self._halved = Halved()
        self._ahead = Ahead(self._samples)
        self.chunk = run.chunk or (1 if looped else self._fitting(run.selected, width))

    @functools.cached_property
    def coordinate_clip(self) -> float:
        """c as set, or the median over an initial round (Fed-SPA section 5.1).

        In that round r devices compute the per-sample gradients of one mini-batch at the initial model. c is the median
        of the absolute values of all coordinates; if that is 0, the median of the nonzero ones. c then depends on the
        data, for which neither the paper nor `airfl.privacy` accounts.
        """
        if self._work.coordinate_clip is not None:
            return self._work.coordinate_clip
        run, initial = self._run, self._model.initial()
        generator = self._streams.generator(Purpose.INITIAL_ROUND)
        devices = distinct(generator, run.devices, 1, min(run.selected, run.devices))[0]
        samples = min(self._rule.batch_size, int(self._sizes.max())) * len(devices)
        stride = -(-samples * self._model.dimension // MEDIAN_NUMBERS)  # 1 except for large models
        magnitudes = [
            self._gradients.each(initial, self._initial_batch(device)).flatten()[::stride].abs().cpu().numpy()
            for device in devices.tolist()
        ]
        return median_of(np.concatenate(magnitudes))

    def updates(
        self, parameters: Tensor, devices: Ids, round_index: int, store: Store, meanwhile: Meanwhile | None = None
    ) -> Tensor:
        """Return theta_i^tau - theta^t of each device, [devices, d], 0 outside its mask; parameters: theta^t, [d]."""
        return self._halved(lambda part: self._updates(parameters, devices[part], round_index), len(devices))

    def _updates(self, parameters: Tensor, devices: Ids, round_index: int) -> Tensor:
        order, steps = self._in_order(devices)
        theta = parameters.repeat(len(devices), 1)
        if len(devices):
            self._train(theta, devices[order], steps[order], round_index)
        updates = theta.sub_(parameters)
        if (order[:-1] < order[1:]).all():
            return updates
        return updates[on_device(np.argsort(order), self._device)]

    def prepare(self, devices: Ids, round_index: int) -> None:
        """Draw the mini-batches of these devices, and begin to copy them to a GPU."""
        if len(devices):
            self._ahead.prepare(devices[self._in_order(devices)[0]], round_index)

    def _in_order(self, devices: Ids) -> tuple[Ids, NDArray[np.int64]]:
        """Return positions of the devices, those with most steps first, and the number of steps of each device."""
        steps = self._rule.steps_of(self._sizes[devices])
        return np.argsort(-steps, kind="stable"), steps  # devices with steps left are then always at the front

    def evaluations(self, devices: Ids, round_index: int) -> NDArray[np.int64]:
        """Return tau b, the per-sample gradients without those of the initial round, [devices]."""
        sizes = self._sizes[devices]
        return np.asarray(self._rule.steps_of(sizes) * np.minimum(sizes, self._rule.batch_size))

    def _fitting(self, most: int, width: int) -> int:
        """Return the number of devices in a chunk, at most `most`, with `width` samples; on a GPU it is measured."""
        if self._device.type != "cuda":
            return self._gradients.chunk(most, width)
        initial, largest = self._model.initial(), np.argsort(-self._sizes, kind="stable").astype(np.int64)
        return measured_chunk(
            lambda several: self._updates(initial, largest[:several], 0), most, self._device, self._local.measure
        )

    def _train(self, theta: Tensor, devices: Ids, steps: NDArray[np.int64], round_index: int) -> None:
        """Apply eq. 5 `steps` times (largest first) to theta [devices, d], in place.

        Gradient and noise are b times those of the paper, and the learning rate is divided by b.
        """
        dimension, kept, limit = theta.shape[1], self._work.kept_entries, self.coordinate_clip
        rows, shape = self._ahead.plan(devices, round_index)
        batches = Batches.of(self._task, rows, shape, int(self._sizes[devices].sum()))
        sizes = batches.present.sum(dim=2)[:, :1]
        rates = learning_rate(self._local, round_index) * dimension / kept / sizes
        noise = self._noise(devices, steps, round_index)
        noise_std = self._work.noise_multiplier * limit * math.sqrt(kept) if noise else 0.0
        mask = self._masks(devices, round_index, dimension)
        velocity = theta.new_zeros(len(devices), kept)
        for step in range(int(steps[0])):
            active = int((steps > step).sum())
            now, velocity = theta[:active], velocity[:active]
            gradient = self._gradients.clamped_sums(now, *batches.at(active, step), limit)
            gradient = gradient if mask is None else gradient.gather(1, mask[:active])
            if noise is not None:
                gradient.add_(next(noise)[:active], alpha=noise_std)
            velocity = velocity.mul_(self._local.momentum).add_(gradient) if step else gradient
            if mask is None:
                now.addcmul_(velocity, rates[:active], value=-1)
            else:
                now.scatter_add_(1, mask[:active], velocity * -rates[:active])

    def _noise(self, devices: Ids, steps: NDArray[np.int64], round_index: int) -> Iterator[Tensor] | None:
        """Return an iterator over the standard normal noise of each step, or None for no noise."""
        if not self._work.noise_multiplier:
            return None
        address = self._streams.address(Purpose.LOCAL_NOISE, round_index)
        return noise_of(address, devices.tolist(), steps, self._work.kept_entries, self._device)

    def _masks(self, devices: Ids, round_index: int, dimension: int) -> Tensor | None:
        """Return the kept coordinates of each device, [devices, k]; None if all are kept."""
        if self._work.kept_entries == dimension:
            return None
        masks = np.empty((len(devices), self._work.kept_entries), dtype=np.int64)

        def draw(start: int, end: int) -> None:
            for mask, device in zip(masks[start:end], devices[start:end].tolist(), strict=True):
                mask[:] = per_device_coordinates(self._streams, round_index, device, dimension, self._work.kept_entries)

        spread(draw, len(devices), run_threads())
        return on_device(masks, self._device)

    def _samples(self, devices: Ids, round_index: int) -> tuple[Rows, tuple[int, ...]]:
        """Return the samples of all steps of devices, those with most steps first, and [devices, steps, batch]."""
        sizes = self._sizes[devices]
        steps, largest = int(self._rule.steps_of(sizes)[0]), int(self._sizes.max())
        plan = independent_batches(self._streams, round_index, devices, sizes, largest, steps, self._rule.batch_size)
        return Rows.of(self._task, devices, plan.reshape(len(plan), -1)), plan.shape

    def _initial_batch(self, device: int) -> Tensor:
        """Return the rows of a device's mini-batch in the initial round, [b]."""
        generator = self._streams.device_generator(Purpose.INITIAL_ROUND, None, device)
        size, partition = int(self._sizes[device]), self._task.partition
        own = distinct(generator, size, 1, min(self._rule.batch_size, size))[0]
        return on_device(partition.indices[partition.offsets[device] + own], self._device)


def median_of(values: NDArray[np.float32]) -> float:
    """Return the median of absolute values; if that is 0, the median of the nonzero ones."""
    median = float(np.median(values))
    if median == 0 and values.any():
        median = float(np.median(values[values > 0]))
    if not 0 < median < math.inf:
        raise UserError(f"scheme.coordinate_clip: the median of the initial round is {median:g}; set a positive number")
    return median
