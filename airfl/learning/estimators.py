"""Local gradients at theta^t, estimated in four ways, clipped and perturbed (SoteriaFL algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.learning import LocalSettings
from airfl.config.run import RunSettings
from airfl.learning.ahead import Ahead
from airfl.learning.batches import NOBODY, independent_batches
from airfl.learning.flat import FlatModel
from airfl.learning.gpu_memory import Halved, measured_chunk
from airfl.learning.per_sample import SLICE_BYTES, Rows, SampleGradients
from airfl.learning.task import DividedTask
from airfl.learning.work import Estimator, GradientEstimate, Ids, Meanwhile
from airfl.runtime.philox.tensors import add_normals_
from airfl.runtime.store import Store
from airfl.runtime.streams import Purpose, Streams
from airfl.uplinks.stages.clip import clip_factor
from channels.transfer import on_device

# The rounding errors of an incrementally updated SAGA mean add up; it is recomputed after this many rounds.
ROUNDS_BETWEEN_MEANS = 256


@dataclass(frozen=True)
class Chunk:
    """The inputs of the estimators for a chunk of devices in a round.

    Attributes:
        gradients: Computes the gradients.
        bound: Bound on the l2 norm of a per-sample gradient, inf for none.
        parameters: x^t, [d].
        devices: Device ids, [devices].
        round_index: t, from 0.
        positions: Mini-batches as positions within each device's own samples, [devices, b], padded with -1.
        moves: Whether the SVRG snapshot moves.
        store: State of devices and server between rounds.
        evaluations: Number of per-sample gradients computed so far, [devices]; updated by the methods.
    """

    gradients: SampleGradients
    bound: float
    parameters: Tensor
    devices: Ids
    round_index: int
    positions: NDArray[np.int64]
    moves: bool
    store: Store
    evaluations: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """m_i of each device."""
        return self.gradients.task.partition.sizes[self.devices]

    @property
    def batch(self) -> Rows:
        """I_b of each device."""
        return Rows.of(self.gradients.task, self.devices, self.positions)

    def at_batch(self, points: Tensor) -> Tensor:
        """Return the mean gradient over I_b, [devices, d], at one point [d] or at one per device [devices, d]."""
        batch = self.batch
        self.evaluations[:] += (self.positions != NOBODY).sum(axis=1)
        return self.gradients.means(points, batch, self.bound)

    def at_whole(self, rows: list[int]) -> Tensor:
        """Return the mean gradient over all m_i samples at x^t for these rows of the chunk, [rows, d]."""
        self.evaluations[rows] += self.sizes[rows]
        return self.gradients.means(self.parameters, Rows.whole(self.gradients.task, self.devices[rows]), self.bound)


def sgd(chunk: Chunk) -> Tensor:
    """(1/b) sum over I_b of grad f_j(x), option I, [devices, d]."""
    return chunk.at_batch(chunk.parameters)


def gd(chunk: Chunk) -> Tensor:
    """(1/m) sum over all samples of grad f_j(x), option I at b = m, [devices, d]."""
    return chunk.at_whole(list(range(len(chunk.devices))))


def svrg(chunk: Chunk) -> Tensor:
    """(1/b) sum over I_b of (grad f_j(x) - grad f_j(w)) + grad f(w), option II, [devices, d].

    A device starts with w = x^t of its first round. If the snapshot moves, w becomes x^t after the estimate.
    """
    store, ids = chunk.store, chunk.devices.tolist()
    new = [row for row, device in enumerate(ids) if store.read("snapshot", device) is None]
    _move_snapshots(chunk, new)
    estimates = chunk.at_batch(chunk.parameters)
    estimates += torch.stack([_stored(store, "snapshot_gradient", device) for device in ids])
    estimates -= chunk.at_batch(torch.stack([_stored(store, "snapshot", device) for device in ids]))
    if chunk.moves:
        _move_snapshots(chunk, [row for row in range(len(ids)) if row not in new])  # new ones are at x^t already
    return estimates


def saga(chunk: Chunk) -> Tensor:
    """(1/b) sum over I_b of (grad f_j(x) - table_j) + mean of the table, option III, [devices, d].

    The table starts with the gradients at x^t of a device's first round. The rows of the batch are replaced after the
    estimate.
    """
    store, ids, batch = chunk.store, chunk.devices.tolist(), chunk.batch.each()
    new = [row for row, device in enumerate(ids) if store.read("saga_table", device) is None]
    _start_tables(chunk, new)
    estimates = chunk.parameters.new_empty(len(ids), len(chunk.parameters))
    # Gradients of a device's first batch are in its table already: they change neither the table nor its mean.
    known = new if chunk.gradients.alone else []
    for row in known:
        chunk.evaluations[row] += len(batch[row])
        estimates[row] = _stored(store, "saga_mean", ids[row])
    others = [row for row in range(len(ids)) if row not in known]
    if not others:
        return estimates
    gradients = chunk.gradients.each(chunk.parameters, torch.cat([batch[row] for row in others]), chunk.bound)
    by_device = torch.split(gradients, [len(batch[row]) for row in others])
    for row, now in zip(others, by_device, strict=True):
        chunk.evaluations[row] += len(now)
        table, mean = _stored(store, "saga_table", ids[row]), _stored(store, "saga_mean", ids[row])
        positions = on_device(chunk.positions[row][chunk.positions[row] != NOBODY], table.device)
        replaced = table if len(now) == len(table) else table[positions]
        change = now.sum(dim=0).sub_(replaced.sum(dim=0))
        torch.add(mean, change, alpha=1 / len(now), out=estimates[row])
        table.index_copy_(0, positions, now)
        if chunk.round_index % ROUNDS_BETWEEN_MEANS:
            mean.add_(change, alpha=1 / len(table))
        else:
            mean.copy_(table.mean(dim=0))
    return estimates


def _start_tables(chunk: Chunk, rows: list[int]) -> None:
    """Store the gradients at x^t of all samples, and their mean, for these rows of the chunk."""
    if not rows:
        return
    samples = Rows.whole(chunk.gradients.task, chunk.devices[rows]).each()
    counts = [len(own) for own in samples]
    gradients = chunk.parameters.new_empty(sum(counts), len(chunk.parameters))
    tables = torch.split(gradients, counts)
    if chunk.gradients.alone:
        chunk.gradients.each(chunk.parameters, torch.cat(samples), chunk.bound, out=gradients)
    for row, own, table in zip(rows, samples, tables, strict=True):
        if not chunk.gradients.alone:
            chunk.gradients.each(chunk.parameters, own, chunk.bound, out=table)
        chunk.store.write("saga_table", int(chunk.devices[row]), table)
        chunk.store.write("saga_mean", int(chunk.devices[row]), table.mean(dim=0))
        chunk.evaluations[row] += len(own)


ESTIMATORS: dict[Estimator, Callable[[Chunk], Tensor]] = {"sgd": sgd, "gd": gd, "svrg": svrg, "saga": saga}
STATELESS = ("sgd", "gd")
"""Those that keep nothing, so that a call that fails can be repeated."""


class GradientTrainer:
    """SoteriaFL algorithm 3, lines 3 to 12.

    With clip = "sample" every per-sample gradient that an estimate uses is clipped to G. With clip = "batch" only the
    estimate as a whole is clipped to G, as in the authors' public code; replacing one sample can then change it by 2G
    for any b, and the estimate is biased. `engine` is "loop" if devices are computed one after another.
    """

    def __init__(
        self,
        work: GradientEstimate,
        local: LocalSettings,
        run: RunSettings,
        task: DividedTask,
        streams: Streams,
        device: torch.device,
    ) -> None:
        self._work, self._task, self._streams, self._device = work, task, streams, device
        self._measure, self._halved = local.measure, Halved()
        self._batch_size = local.batch_size
        self._gradients = SampleGradients.of(FlatModel(task.model, task.loss), task, local.engine)
        self._sizes = task.partition.sizes
        limit = math.inf if work.clip_norm is None else work.clip_norm
        self._bound, self._whole_bound = (limit, math.inf) if work.clip == "sample" else (math.inf, limit)
        looped = local.engine == "loop" or self._gradients.engine == "loop"
        self.engine: str = "loop" if looped else self._gradients.engine
        self._counted: tuple[int, dict[int, int]] = (-1, {})
        self._ahead = Ahead(self._batches)
        self.chunk = run.chunk or (1 if looped else self._fitting(run.selected))

    def updates(
        self, parameters: Tensor, devices: Ids, round_index: int, store: Store, meanwhile: Meanwhile | None = None
    ) -> Tensor:
        """Return -(g~_i + xi_i) of each device, [devices, d], xi ~ N(0, noise_std^2 I); parameters: x^t, [d]."""
        if self._work.estimator in STATELESS:
            return self._halved(lambda part: self._updates(parameters, devices[part], round_index, store), len(devices))
        return self._updates(parameters, devices, round_index, store)

    def _updates(self, parameters: Tensor, devices: Ids, round_index: int, store: Store) -> Tensor:
        chunk = self._chunk_of(parameters, devices, round_index, store)
        estimates = ESTIMATORS[self._work.estimator](chunk)
        if math.isfinite(self._whole_bound):
            estimates *= clip_factor(estimates.norm(dim=1, keepdim=True), self._whole_bound)
        if round_index != self._counted[0]:
            self._counted = round_index, {}
        self._counted[1].update(zip(devices.tolist(), chunk.evaluations.tolist(), strict=True))
        if self._work.noise_std:
            address = self._streams.address(Purpose.PRIVACY_NOISE, round_index)
            add_normals_(estimates, address, devices.tolist(), self._work.noise_std)
        return estimates.neg_()

    def prepare(self, devices: Ids, round_index: int) -> None:
        """Draw the mini-batches of these devices."""
        self._ahead.prepare(devices, round_index)

    def evaluations(self, devices: Ids, round_index: int) -> NDArray[np.int64]:
        """Return how many per-sample gradients each device computes, [devices].

        After `updates` of the round these are the actual counts. Before it they are those of a device that has
        participated before: b for sgd, m for gd, 2b for svrg plus m if the snapshot moves, b for saga. (svrg and saga
        take m more in a device's first round.)
        """
        counted_round, counted = self._counted
        known = counted if counted_round == round_index else {}
        sizes = self._sizes[devices]
        batch = np.minimum(sizes, self._batch_size)
        usual = {"sgd": batch, "gd": sizes, "saga": batch, "svrg": 2 * batch + sizes * self._moves(round_index)}
        pairs = zip(devices.tolist(), usual[self._work.estimator].tolist(), strict=True)
        return np.array([known.get(device, otherwise) for device, otherwise in pairs], dtype=np.int64)

    def _chunk_of(self, parameters: Tensor, devices: Ids, round_index: int, store: Store) -> Chunk:
        batches = self._ahead.plan(devices, round_index)
        moves, none = self._moves(round_index), np.zeros(len(devices), dtype=np.int64)
        return Chunk(self._gradients, self._bound, parameters, devices, round_index, batches, moves, store, none)

    def _batches(self, devices: Ids, round_index: int) -> Ids:
        """Return the mini-batches as positions within each device's own samples, [devices, b], padded with -1."""
        sizes, largest = self._sizes[devices], int(self._sizes.max())
        drawn, again = (self._streams, round_index, devices, sizes, largest), self._work.replacement
        return independent_batches(*drawn, steps=1, batch_size=self._batch_size, replacement=again)[:, 0]

    def _moves(self, round_index: int) -> bool:
        """Draw whether the snapshots move, once per round for all devices: algorithm 3's w^t has no index i."""
        if self._work.estimator != "svrg":
            return False
        return bool(self._streams.generator(Purpose.SNAPSHOT, round_index).random() < self._work.refresh)

    def _fitting(self, most: int) -> int:
        """Return the number of devices in a chunk, at most `most`; on a GPU it is measured. SAGA materialises the
        gradients of their batches."""
        if self._device.type == "cuda":
            return self._measured(most)
        width = min(self._batch_size, int(self._sizes.max()))
        if self._work.estimator == "saga":
            most = min(most, max(1, SLICE_BYTES // (4 * width * self._gradients.model.dimension)))
        return self._gradients.chunk(most, width)

    def _measured(self, most: int) -> int:
        """Return the number of devices that fit on a GPU, with what they store in their first round."""
        initial, largest = self._gradients.model.initial(), np.argsort(-self._sizes, kind="stable").astype(np.int64)
        chunk = measured_chunk(
            lambda several: self._updates(initial, largest[:several], 0, Store()), most, self._device, self._measure
        )
        self._counted = (-1, {})
        return chunk


def _move_snapshots(chunk: Chunk, rows: list[int]) -> None:
    """Set w := x^t and store the full gradient there, for these rows of the chunk."""
    if rows:
        devices = chunk.devices[rows]
        chunk.store.write_all("snapshot", devices, [chunk.parameters] * len(rows))
        chunk.store.write_all("snapshot_gradient", devices, chunk.at_whole(rows))


def _stored(store: Store, name: str, device: int) -> Tensor:
    value = store.read(name, device)
    assert value is not None
    return value
