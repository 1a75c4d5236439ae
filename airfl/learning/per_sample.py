"""Per-sample gradients: clipped one by one, and summed over each device's samples."""

from __future__ import annotations

import functools
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.learning.batches import NOBODY
from airfl.learning.dense import DenseNetwork, dense_network_of
from airfl.learning.flat import FlatModel
from airfl.learning.layers import LayeredModel, as_layers
from airfl.learning.sample_layers import layer_each, layer_sums, numbers_of
from airfl.learning.sgd import normalise
from airfl.learning.task import DividedTask
from airfl.uplinks.stages.clip import clip_factor
from channels.transfer import on_device

# Most memory of per-sample gradients and the activations they are computed from, so that a CPU's caches help.
SLICE_BYTES = 128 << 20
# The same on a GPU, which many small operations slow down: a share of all its memory, and no more than a limit.
GPU_SLICE_SHARE, GPU_SLICE_BYTES = 1 / 32, 4 << 30
# Most memory of a chunk's parameters, gradients, velocities, noise, updates: large models are faster in small chunks.
CHUNK_BYTES = 128 << 20

TOLERANCE = 1e-3
"""Largest relative difference of an engine's gradients from the loop's, for a user-defined model."""
log = logging.getLogger(__name__)

Tensors = tuple[Tensor, ...]
Engine = Literal["dense", "layers", "vmap", "loop"]
# (parameters [devices, *shape] each, inputs [devices, n, *shape], targets [devices, n]) -> per-sample gradients,
# [devices, n, *shape] each.
Gradients = Callable[[Tensors, Tensor, Tensor], Tensors]
# The same arguments and weights [devices, n] -> gradients of the weighted sum of losses, [devices, *shape] each.
Sums = Callable[[Tensors, Tensor, Tensor, Tensor], Tensors]


@dataclass(frozen=True)
class Rows:
    """Samples of a set of devices.

    Attributes:
        rows: Rows of the training data, [devices, n].
        present: Whether each entry is a sample (and not padding), bool [devices, n]. Padding comes last.
        counts: Number of samples of each device, [devices], known to the CPU.
    """

    rows: Tensor
    present: Tensor
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, task: DividedTask, devices: NDArray[np.int64], positions: NDArray[np.int64]) -> Rows:
        """Return the samples at positions [devices, n] within each device's own samples, padded with -1."""
        starts = task.partition.offsets[devices][:, None]
        rows = task.partition.indices[starts + np.maximum(positions, 0)]
        device = task.train.targets.device
        present = positions != NOBODY
        return cls(on_device(rows, device), on_device(present, device), np.asarray(present.sum(axis=1), dtype=np.int64))

    @classmethod
    def whole(cls, task: DividedTask, devices: NDArray[np.int64]) -> Rows:
        """Return all samples of these devices."""
        sizes = task.partition.sizes[devices]
        position = np.arange(sizes.max(initial=0))[None, :]
        return cls.of(task, devices, np.where(position < sizes[:, None], position, NOBODY))

    def each(self) -> list[Tensor]:
        """Return the rows of each device without padding."""
        return [own[:count] for own, count in zip(self.rows, self.counts.tolist(), strict=True)]


@dataclass(frozen=True)
class SampleGradients:
    """Gradients of f(x; sample) for many devices at once, each at its own parameters.

    Per-sample gradients are not materialised if nothing is clipped, nor by hand-batched linear layers if norms are.

    Attributes:
        model: f, with its d parameters.
        task: The task that the samples come from.
        engine: "dense" (compiled C), "layers" (hand-batched), "vmap", or "loop" (one sample after another).
        layered: The model as layers; None for other engines than "layers".
        numbers: float32 numbers per sample that the computation needs.
        network: The model as a fully connected network; None for other engines than "dense".
        threads: Threads that compute it.
    """

    model: FlatModel
    task: DividedTask
    engine: Engine
    layered: LayeredModel | None
    numbers: int
    network: DenseNetwork | None = None
    threads: int = 1

    @classmethod
    def of(cls, model: FlatModel, task: DividedTask, engine: str = "auto") -> SampleGradients:
        """Choose the engine: dense if it supports the model, else layers or vmap if they do, else the loop.

        With `engine` "vmap" or "loop" (one device after another) the first two are not considered, with "layers" the
        first is not.
        """
        two = torch.from_numpy(task.partition.indices[:2]).to(task.train.targets.device)
        inputs, targets = (part[None] for part in samples_of(task, two))
        parts = parameter_views(model, model.initial()[None])
        layered = "another engine is set" if engine in ("vmap", "loop") else as_layers(model.module, model.loss)
        why_not: dict[str, str] = {}
        if not isinstance(layered, str):
            try:
                numbers = numbers_of(layered, parts, inputs, targets)
                network = dense_network_of(model, task) if engine in ("auto", "dense") else None
                if network is not None:
                    candidate = cls(model, task, "dense", None, numbers, network, torch.get_num_threads())
                    if task.own is None or (reason := candidate._disagreement(parts, inputs, targets)) is None:
                        return candidate._logged(why_not)
                    why_not["dense"] = reason
                candidate = cls(model, task, "layers", layered, numbers)
                if task.own is None or (reason := candidate._disagreement(parts, inputs, targets)) is None:
                    return candidate._logged(why_not)
                layered = reason
            except (RuntimeError, ValueError, IndexError) as error:
                if task.own is None:
                    raise
                layered = str(error).split("\n")[0][:100]
        why_not["layers"] = layered
        candidate = cls(model, task, "vmap", None, 3 * model.dimension)
        try:
            with warnings.catch_warnings(action="error"):  # vmap warns if it falls back to a loop
                batched_gradients(model)(parts, inputs, targets)
            if task.own is None or (reason := candidate._disagreement(parts, inputs, targets)) is None:
                return candidate._logged(why_not)
            why_not["vmap"] = reason
        except Exception as error:  # whatever the reason is, the loop computes the same
            why_not["vmap"] = str(error).strip().split("\n")[0][:100]
        return cls(model, task, "loop", None, 3 * model.dimension)._logged(why_not)

    def _disagreement(self, parts: Tensors, inputs: Tensor, targets: Tensor) -> str | None:
        """Return how the gradients of one device's samples differ from the loop's; None if they agree."""
        weights = torch.ones(inputs.shape[:2], device=inputs.device)
        expected = torch.cat([part.flatten() for part in looped_sums(self.model)(parts, inputs, targets, weights)])
        vector = torch.cat([part.flatten() for part in parts])[None]
        for bound in (math.inf, float(torch.finfo(torch.float32).max)):  # without and with per-sample gradients
            actual = self.sums(vector, inputs, targets, weights, bound=bound)[0]
            distance, norm = float((actual - expected).norm()), float(expected.norm())
            if not distance <= TOLERANCE * norm:
                return f"its gradients, of norm {norm:.2g}, differ from the loop's by {distance:.2g}"
        return None

    def _logged(self, why_not: dict[str, str]) -> SampleGradients:
        """Return self; for a user-defined model log the engine and why no faster one is used."""
        if self.task.own is not None:
            reasons = [f"not {name} ({why})" for name, why in why_not.items()]
            line = f"task {self.task.own.name!r}: per-sample gradients are computed by {self.engine}"
            level = logging.WARNING if self.engine == "loop" else logging.INFO
            log.log(level, "%s", "; ".join([line, *reasons]))
        return self

    @property
    def alone(self) -> bool:
        """Whether a sample's gradient has the same bits whatever samples are computed beside it."""
        return self.engine in ("dense", "loop")

    def each(self, parameters: Tensor, rows: Tensor, bound: float = math.inf, *, out: Tensor | None = None) -> Tensor:
        """Return g_j min(1, bound/||g_j||) of each sample, [n, d]; parameters [d], rows [n].

        out: where to write them, contiguous; None for a new tensor.
        """
        result = parameters.new_empty(len(rows), self.model.dimension) if out is None else out
        parts = parameter_views(self.model, parameters[None])
        for here in _slices(len(rows), slice_bytes(parameters.device) // (4 * max(self.numbers, self.model.dimension))):
            inputs, targets = (part[None] for part in samples_of(self.task, rows[here]))
            if self.network is not None:  # every sample as a device of its own
                present = parameters.new_ones(targets.shape[1], 1)
                shared = parameters.expand(len(present), -1)
                own = (inputs.transpose(0, 1), targets.transpose(0, 1), present)
                self.network.sums(shared, *own, result[here], threads=self.threads, bound=bound)
                continue
            into = parameter_views(self.model, result[here])
            if self.layered is not None:
                layer_each(self.layered, parts, inputs, targets, bound, into)
                continue
            gradients = self._gradients(parts, inputs, targets)
            factors = clip_factor(_norms(gradients), bound)[0]
            for part, gradient in zip(into, gradients, strict=True):
                torch.mul(gradient[0], factors.view(-1, *[1] * (part.dim() - 1)), out=part)
        return result

    def means(self, parameters: Tensor, samples: Rows, bound: float = math.inf) -> Tensor:
        """Return the mean of g_j min(1, bound/||g_j||) over each device's samples, [devices, d].

        parameters: [d] for all devices, or [devices, d].
        """
        devices, width = samples.rows.shape
        points = parameters if parameters.dim() == 2 else parameters.expand(devices, -1)
        total: Tensor | None = None
        for here in _slices(width, slice_bytes(points.device) // (4 * self.numbers * max(devices, 1))):
            inputs, targets = samples_of(self.task, samples.rows[:, here])
            partial = self.sums(points, inputs, targets, samples.present[:, here].float(), bound=bound)
            total = partial if total is None else total.add_(partial)
        counts = samples.present.sum(dim=1, keepdim=True)
        return parameters.new_zeros(devices, self.model.dimension) if total is None else total.div_(counts)

    def clamped_sums(
        self, parameters: Tensor, inputs: Tensor, targets: Tensor, present: Tensor, limit: float
    ) -> Tensor:
        """Return the sum over each device's samples of g_j with coordinates clamped to [-limit, limit], [devices, d].

        parameters: [devices, d]; inputs: [devices, n, *shape]; targets, present: [devices, n].
        """
        total: Tensor | None = None
        for here in _slices(targets.shape[1], slice_bytes(targets.device) // (4 * self.numbers * len(targets))):
            partial = self.sums(parameters, inputs[:, here], targets[:, here], present[:, here], clamp=limit)
            total = partial if total is None else total.add_(partial)
        assert total is not None
        return total

    def sums(
        self,
        parameters: Tensor,
        inputs: Tensor,
        targets: Tensor,
        present: Tensor,
        *,
        bound: float = math.inf,
        clamp: float = math.inf,
    ) -> Tensor:
        """Return the sum over j of present_j g_j, [devices, d], in one computation.

        Each g_j is clipped to the l2 norm `bound`, or its coordinates to [-clamp, clamp].
        """
        result = parameters.new_empty(len(targets), self.model.dimension)
        if self.network is not None:
            given = (parameters, inputs, targets, present, result)
            self.network.sums(*given, threads=self.threads, bound=bound, clamp=clamp)
            return result
        parts, into = parameter_views(self.model, parameters), parameter_views(self.model, result)
        if self.layered is not None:
            layer_sums(self.layered, parts, inputs, targets, present, bound, clamp, into)
            return result
        sums: Tensors
        if math.isinf(bound) and math.isinf(clamp):
            sums = self._sums(parts, inputs, targets, present)
        else:
            each = tuple(part.clamp(-clamp, clamp) for part in self._gradients(parts, inputs, targets))
            weights = clip_factor(_norms(each), bound) * present
            sums = tuple(weights[:, None].bmm(part.flatten(2))[:, 0].view_as(part[:, 0]) for part in each)
        for target, part in zip(into, sums, strict=True):
            target.copy_(part)
        return result

    def chunk(self, devices: int, samples: int) -> int:
        """Return the number of devices in a chunk, at most `devices`, with `samples` each; 1 for the loop."""
        if self.engine == "loop":
            return 1
        fitting = min(CHUNK_BYTES // (20 * self.model.dimension), SLICE_BYTES // (4 * samples * self.numbers))
        return max(1, min(devices, fitting))

    @property
    def _gradients(self) -> Gradients:
        return batched_gradients(self.model) if self.engine == "vmap" else looped_gradients(self.model)

    @property
    def _sums(self) -> Sums:
        return batched_sums(self.model) if self.engine == "vmap" else looped_sums(self.model)


def slice_bytes(device: torch.device) -> int:
    """Return the most memory of the gradients of samples that are computed at once on a device."""
    if device.type != "cuda":
        return SLICE_BYTES
    return max(SLICE_BYTES, min(GPU_SLICE_BYTES, int(GPU_SLICE_SHARE * _gpu_bytes(device))))


@functools.cache  # asking the driver in every step would make the CPU wait
def _gpu_bytes(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[1]


def samples_of(task: DividedTask, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return normalised inputs and targets at rows of the training data."""
    return normalise(task.train.inputs[rows], task.mean, task.std), task.train.targets[rows]


def parameter_views(model: FlatModel, vectors: Tensor) -> Tensors:
    """Return views of flat vectors [n, d] in the shapes of the parameters, [n, *shape] each."""
    split = torch.split(vectors, model.sizes, dim=1)
    return tuple(part.view(-1, *shape) for part, shape in zip(split, model.shapes, strict=True))


def batched_gradients(model: FlatModel) -> Gradients:
    """Return a function that computes per-sample gradients of all devices in one computation."""

    def loss(parameters: Tensors, inputs: Tensor, target: Tensor) -> Tensor:
        return model.losses(parameters, inputs[None], target[None])[0]

    return torch.func.vmap(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))


def batched_sums(model: FlatModel) -> Sums:
    """Return a function that computes gradients of weighted sums of all devices in one computation."""

    def loss(parameters: Tensors, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        return model.losses(parameters, inputs, targets).dot(weights)

    return torch.func.vmap(torch.func.grad(loss))


def looped_gradients(model: FlatModel) -> Gradients:
    """Return a function that computes per-sample gradients one sample after another."""

    def gradients(parameters: Tensors, inputs: Tensor, targets: Tensor) -> Tensors:
        sums, one = looped_sums(model), parameters[0].new_ones(len(targets), 1)
        pairs = zip(torch.split(inputs, 1, dim=1), torch.split(targets, 1, dim=1), strict=True)
        single = [sums(parameters, *pair, one) for pair in pairs]
        return tuple(torch.stack(parts, dim=1) for parts in zip(*single, strict=True))

    return gradients


def looped_sums(model: FlatModel) -> Sums:
    """Return a function that computes gradients of weighted sums one device after another."""

    def sums(parameters: Tensors, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensors:
        gradients = []
        for number, own in enumerate(zip(inputs, targets, weights, strict=True)):
            leaves = tuple(part[number].detach().requires_grad_() for part in parameters)
            loss = model.losses(leaves, *own[:2]).dot(own[2])
            gradients.append(torch.autograd.grad(loss, leaves, materialize_grads=True))
        return tuple(torch.stack(parts) for parts in zip(*gradients, strict=True))

    return sums


def _norms(gradients: Tensors) -> Tensor:
    """Return the norms over all parameters of gradients [devices, n, *shape] each, [devices, n]."""
    by_parameter = [torch.linalg.vector_norm(part.flatten(2), dim=2) for part in gradients]
    norms: Tensor = torch.linalg.vector_norm(torch.stack(by_parameter), dim=0)
    return norms


def _slices(count: int, most: int) -> Iterator[slice]:
    """Return slices of 0 .. count - 1 of nearly equal length, at most `most` each; at least one slice."""
    pieces = max(1, -(-count // max(1, most)))
    size = max(1, -(-count // pieces))
    return (slice(start, start + size) for start in range(0, count, size))
