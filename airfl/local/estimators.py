"""Local gradients at theta^t, estimated in four ways, clipped and perturbed (SoteriaFL algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config.settings import LocalSettings, RunSettings
from airfl.local.batches import NOBODY, independent_batches
from airfl.local.draws import fill_normals
from airfl.local.flat import FlatModel
from airfl.local.per_sample import SLICE_BYTES, Rows, SampleGradients
from airfl.local.work import Estimator, GradientEstimate, Ids
from airfl.stages.clip import clip_factor
from airfl.store import Store
from airfl.streams import Purpose, Streams
from airfl.tasks.task import DividedTask

# Rounding errors of a SAGA mean that is brought up to date add up; every so many rounds it is taken afresh.
ROUNDS_BETWEEN_MEANS = 256


@dataclass(frozen=True)
class Visit:
    """What the devices of a chunk work with in a round.

    Attributes:
        gradients: How gradients are computed.
        bound: Bound on the l2 norm of a sample's gradient, inf for none.
        parameters: x^t, [d].
        devices: Ids, [devices].
        round_index: t, from 0.
        positions: Mini-batches, [devices, b], within the devices' own samples, padded with -1.
        moves: Whether the SVRG snapshot moves.
        store: What devices and server keep.
        evaluations: Gradients of single samples computed so far, [devices]; counted here.
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
        """Mean over I_b of the gradients at a point [d], or at one for each device [devices, d]; [devices, d]."""
        batch = self.batch
        self.evaluations[:] += batch.present.sum(dim=1).cpu().numpy()
        return self.gradients.means(points, batch, self.bound)

    def at_whole(self, some: list[int]) -> Tensor:
        """Mean over all m_i samples of the gradients at x^t, for some devices of the chunk, [some, d]."""
        self.evaluations[some] += self.sizes[some]
        return self.gradients.means(self.parameters, Rows.whole(self.gradients.task, self.devices[some]), self.bound)


def sgd(visit: Visit) -> Tensor:
    """(1/b) sum over I_b of grad f_j(x), option I, [devices, d]."""
    return visit.at_batch(visit.parameters)


def gd(visit: Visit) -> Tensor:
    """(1/m) sum over all samples of grad f_j(x), option I at b = m, [devices, d]."""
    return visit.at_whole(list(range(len(visit.devices))))


def svrg(visit: Visit) -> Tensor:
    """(1/b) sum over I_b of (grad f_j(x) - grad f_j(w)) + grad f(w), option II, [devices, d].

    A device starts with w = x^t of its first round. Where the snapshot moves, w becomes x^t after the estimate.
    """
    store, ids = visit.store, visit.devices.tolist()
    new = [row for row, device in enumerate(ids) if store.read("snapshot", device) is None]
    _move_snapshots(visit, new)
    estimates = visit.at_batch(visit.parameters)
    estimates += torch.stack([_kept(store, "snapshot_gradient", device) for device in ids])
    estimates -= visit.at_batch(torch.stack([_kept(store, "snapshot", device) for device in ids]))
    if visit.moves:
        _move_snapshots(visit, [row for row in range(len(ids)) if row not in new])  # the new ones are there
    return estimates


def saga(visit: Visit) -> Tensor:
    """(1/b) sum over I_b of (grad f_j(x) - table_j) + mean of the table, option III, [devices, d].

    The table starts with the gradients at x^t of a device's first round; the batch's rows are replaced afterwards.
    """
    store, task = visit.store, visit.gradients.task
    batch, estimates = visit.batch.each(), visit.parameters.new_empty(len(visit.devices), len(visit.parameters))
    fresh = visit.gradients.each(visit.parameters, torch.cat(batch), visit.bound)
    shares = torch.split(fresh, [len(own) for own in batch])
    for row, (device, now) in enumerate(zip(visit.devices.tolist(), shares, strict=True)):
        if store.read("saga_table", device) is None:
            (own,) = Rows.whole(task, visit.devices[[row]]).each()
            first = visit.gradients.each(visit.parameters, own, visit.bound)
            store.write("saga_table", device, first)
            store.write("saga_mean", device, first.mean(dim=0))
            visit.evaluations[row] += len(own)
        visit.evaluations[row] += len(now)
        table, mean = _kept(store, "saga_table", device), _kept(store, "saga_mean", device)
        positions = torch.from_numpy(visit.positions[row][visit.positions[row] != NOBODY]).to(table.device)
        replaced = table if len(now) == len(table) else table[positions]
        change = now.sum(dim=0).sub_(replaced.sum(dim=0))
        torch.add(mean, change, alpha=1 / len(now), out=estimates[row])
        table.index_copy_(0, positions, now)
        if visit.round_index % ROUNDS_BETWEEN_MEANS:
            mean.add_(change, alpha=1 / len(table))
        else:
            mean.copy_(table.mean(dim=0))
    return estimates


ESTIMATORS: dict[Estimator, Callable[[Visit], Tensor]] = {"sgd": sgd, "gd": gd, "svrg": svrg, "saga": saga}


class GradientTrainer:
    """SoteriaFL algorithm 3, lines 3 to 12.

    With clip = "sample" every gradient of a sample, wherever an estimate uses one, is clipped to G. With clip = "batch"
    none is, and the estimate as a whole is clipped to G, as the public code does: replacing one sample can then move it
    by 2G, whatever b, and the estimate is biased. `engine` is "loop" where devices are computed one after another.
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
        self._batch_size = local.batch_size
        self._gradients = SampleGradients.of(FlatModel(task.model, task.loss), task, local.engine)
        self._sizes = task.partition.sizes
        limit = math.inf if work.clip_norm is None else work.clip_norm
        self._bound, self._whole_bound = (limit, math.inf) if work.clip == "sample" else (math.inf, limit)
        alone = local.engine == "loop" or self._gradients.engine == "loop"
        self.chunk = run.chunk or (1 if alone else self._fitting(run.selected))
        self.engine: str = "loop" if alone else self._gradients.engine
        self._counted: tuple[int, dict[int, int]] = (-1, {})

    def updates(self, parameters: Tensor, devices: Ids, round_index: int, store: Store) -> Tensor:
        """-(g~_i + xi_i) of each device, xi ~ N(0, noise_std^2 I); parameters: x^t [d]; returns [devices, d]."""
        visit = self._visit(parameters, devices, round_index, store)
        estimates = ESTIMATORS[self._work.estimator](visit)
        if math.isfinite(self._whole_bound):
            estimates *= clip_factor(estimates.norm(dim=1, keepdim=True), self._whole_bound)
        if round_index != self._counted[0]:
            self._counted = round_index, {}
        self._counted[1].update(zip(devices.tolist(), visit.evaluations.tolist(), strict=True))
        if self._work.noise_std:
            streams, purpose = self._streams, Purpose.PRIVACY_NOISE
            generators = [streams.device_generator(purpose, round_index, device) for device in devices.tolist()]
            noise = np.empty(estimates.shape, dtype=np.float32)
            fill_normals(generators, noise, torch.get_num_threads())
            estimates.add_(torch.from_numpy(noise).to(self._device), alpha=self._work.noise_std)
        return estimates.neg_()

    def evaluations(self, devices: Ids, round_index: int) -> NDArray[np.int64]:
        """As `updates` counted them in this round; before it, those of a device that has been there before.

        sgd b, gd m; svrg 2b, and m where the snapshot is set, for the first time or anew; saga b, and m the first time.
        """
        counted_round, counted = self._counted
        known = counted if counted_round == round_index else {}
        sizes = self._sizes[devices]
        batch = np.minimum(sizes, self._batch_size)
        usual = {"sgd": batch, "gd": sizes, "saga": batch, "svrg": 2 * batch + sizes * self._moves(round_index)}
        pairs = zip(devices.tolist(), usual[self._work.estimator].tolist(), strict=True)
        return np.array([known.get(device, otherwise) for device, otherwise in pairs], dtype=np.int64)

    def _visit(self, parameters: Tensor, devices: Ids, round_index: int, store: Store) -> Visit:
        sizes, largest = self._sizes[devices], int(self._sizes.max())
        plan = independent_batches(self._streams, round_index, devices, sizes, largest, 1, self._batch_size)
        moves, none = self._moves(round_index), np.zeros(len(devices), dtype=np.int64)
        return Visit(self._gradients, self._bound, parameters, devices, round_index, plan[:, 0], moves, store, none)

    def _moves(self, round_index: int) -> bool:
        """One coin for all devices of a round: algorithm 3's w^t has no index i."""
        if self._work.estimator != "svrg":
            return False
        return bool(self._streams.generator(Purpose.SNAPSHOT, round_index).random() < self._work.refresh)

    def _fitting(self, most: int) -> int:
        """Devices of a chunk, of `most` at once; SAGA writes all gradients of their batches down."""
        width = min(self._batch_size, int(self._sizes.max()))
        if self._work.estimator == "saga":
            most = min(most, max(1, SLICE_BYTES // (4 * width * self._gradients.model.dimension)))
        return self._gradients.chunk(most, width)


def _move_snapshots(visit: Visit, rows: list[int]) -> None:
    """w := x^t and its whole gradient, for these devices of the chunk."""
    if rows:
        devices = visit.devices[rows]
        visit.store.write_all("snapshot", devices, [visit.parameters] * len(rows))
        visit.store.write_all("snapshot_gradient", devices, visit.at_whole(rows))


def _kept(store: Store, name: str, device: int) -> Tensor:
    value = store.read(name, device)
    assert value is not None
    return value
