"""Gradients of single samples' losses, bounded one by one, summed over each device's samples."""

from __future__ import annotations

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

from airfl.local.batches import NOBODY
from airfl.local.flat import FlatModel
from airfl.local.layers import LayeredModel, as_layers
from airfl.local.sample_layers import layer_each, layer_sums, numbers_of
from airfl.local.sgd import normalise
from airfl.stages.clip import clip_factor
from airfl.tasks.task import DividedTask

# What gradients of single samples, and the activations they come from, may take at a time.
SLICE_BYTES = 128 << 20
# Parameters of a chunk, gradients, velocities, noise, updates: large models are faster by a few devices at a time.
CHUNK_BYTES = 128 << 20

AGREEMENT = 1e-3
"""Of a gradient's norm: what an engine may differ by from the loop, for a user's own model."""
log = logging.getLogger(__name__)

Parts = tuple[Tensor, ...]
Engine = Literal["layers", "vmap", "loop"]
# (parameters [devices, *shape] each, inputs [devices, n, *shape], targets [devices, n]) -> [devices, n, *shape] each.
Gradients = Callable[[Parts, Tensor, Tensor], Parts]
# The same and weights [devices, n] -> [devices, *shape] each, of the weighted sum of losses.
Sums = Callable[[Parts, Tensor, Tensor, Tensor], Parts]


@dataclass(frozen=True)
class Rows:
    """Samples of some devices.

    Attributes:
        rows: Rows of the training data, [devices, n].
        present: Which of them are there and no padding, bool [devices, n].
    """

    rows: Tensor
    present: Tensor

    @classmethod
    def of(cls, task: DividedTask, devices: NDArray[np.int64], positions: NDArray[np.int64]) -> Rows:
        """positions: [devices, n] within each device's own samples, padded with -1."""
        starts = task.partition.offsets[devices][:, None]
        rows = task.partition.indices[starts + np.maximum(positions, 0)]
        place = task.train.targets.device
        return cls(torch.from_numpy(rows).to(place), torch.from_numpy(positions != NOBODY).to(place))

    @classmethod
    def whole(cls, task: DividedTask, devices: NDArray[np.int64]) -> Rows:
        """All samples of these devices."""
        sizes = task.partition.sizes[devices]
        position = np.arange(sizes.max(initial=0))[None, :]
        return cls.of(task, devices, np.where(position < sizes[:, None], position, NOBODY))

    def each(self) -> list[Tensor]:
        """Rows of each device without padding."""
        return [own[there] for own, there in zip(self.rows, self.present, strict=True)]


@dataclass(frozen=True)
class SampleGradients:
    """Gradients of f(x; sample) at samples of a task, of many devices at once, each at parameters of its own.

    No gradient of a single sample is written down where nothing is bounded, nor by hand-batched linear layers where
    norms are.

    Attributes:
        model: f, with its d parameters.
        task: Where the samples are.
        engine: "layers", hand-batched; "vmap"; "loop", one sample after another.
        layered: The model layer by layer; None for other engines than "layers".
        numbers: float32 numbers that a sample takes in the computation.
    """

    model: FlatModel
    task: DividedTask
    engine: Engine
    layered: LayeredModel | None
    numbers: int

    @classmethod
    def of(cls, model: FlatModel, task: DividedTask, engine: str = "auto") -> SampleGradients:
        """By layers where all are in the table, unless `engine` is "vmap" or "loop" (one device after another); else by
        vmap where it knows what the model is made of."""
        two = torch.from_numpy(task.partition.indices[:2]).to(task.train.targets.device)
        inputs, targets = (part[None] for part in samples_of(task, two))
        parts = parts_of(model, model.initial()[None])
        layered = "another engine is asked for" if engine in ("vmap", "loop") else as_layers(model.module, model.loss)
        why_not: dict[str, str] = {}
        if not isinstance(layered, str):
            try:
                found = cls(model, task, "layers", layered, numbers_of(layered, parts, inputs, targets))
                if task.own is None or (wrong := found._wrong(parts, inputs, targets)) is None:
                    return found._told(why_not)
                layered = wrong
            except (RuntimeError, ValueError, IndexError) as error:
                if task.own is None:
                    raise
                layered = str(error).split("\n")[0][:100]
        why_not["layers"] = layered
        found = cls(model, task, "vmap", None, 3 * model.dimension)
        try:
            with warnings.catch_warnings(action="error"):  # which is how vmap says that it loops
                batched_gradients(model)(parts, inputs, targets)
            if task.own is None or (wrong := found._wrong(parts, inputs, targets)) is None:
                return found._told(why_not)
            why_not["vmap"] = wrong
        except Exception as error:  # whatever vmap does not like, the loop gives the same numbers
            why_not["vmap"] = str(error).strip().split("\n")[0][:100]
        return cls(model, task, "loop", None, 3 * model.dimension)._told(why_not)

    def _wrong(self, parts: Parts, inputs: Tensor, targets: Tensor) -> str | None:
        """How gradients are others than the loop's, of these samples of one device; None if they agree to rounding."""
        weights = torch.ones(inputs.shape[:2], device=inputs.device)
        expected = torch.cat([part.flatten() for part in looped_sums(self.model)(parts, inputs, targets, weights)])
        vector = torch.cat([part.flatten() for part in parts])[None]
        for bound in (math.inf, float(torch.finfo(torch.float32).max)):  # without and with gradients of each sample
            found = self.sums(vector, inputs, targets, weights, bound=bound)[0]
            distance, norm = float((found - expected).norm()), float(expected.norm())
            if not distance <= AGREEMENT * norm:
                return f"its gradients, of norm {norm:.2g}, differ from the loop's by {distance:.2g}"
        return None

    def _told(self, why_not: dict[str, str]) -> SampleGradients:
        """Itself; of a user's own model one line says by what it is computed, and why by nothing faster."""
        if self.task.own is not None:
            reasons = [f"not {name} ({why})" for name, why in why_not.items()]
            line = f"task {self.task.own.name!r}: gradients of samples are computed by {self.engine}"
            level = logging.WARNING if self.engine == "loop" else logging.INFO
            log.log(level, "%s", "; ".join([line, *reasons]))
        return self

    def each(self, parameters: Tensor, rows: Tensor, bound: float = math.inf) -> Tensor:
        """g_j min(1, bound/||g_j||) of each sample; parameters [d], rows [n], returns [n, d]."""
        found = parameters.new_empty(len(rows), self.model.dimension)
        parts = parts_of(self.model, parameters[None])
        for here in _slices(len(rows), SLICE_BYTES // (4 * max(self.numbers, self.model.dimension))):
            inputs, targets = (part[None] for part in samples_of(self.task, rows[here]))
            into = parts_of(self.model, found[here])
            if self.layered is not None:
                layer_each(self.layered, parts, inputs, targets, bound, into)
                continue
            gradients = self._gradients(parts, inputs, targets)
            shares = clip_factor(_norms(gradients), bound)[0]
            for part, gradient in zip(into, gradients, strict=True):
                torch.mul(gradient[0], shares.view(-1, *[1] * (part.dim() - 1)), out=part)
        return found

    def means(self, parameters: Tensor, samples: Rows, bound: float = math.inf) -> Tensor:
        """Mean of g_j min(1, bound/||g_j||) over each device's samples; parameters [d] of all, or [devices, d] of each;
        returns [devices, d]."""
        devices, width = samples.rows.shape
        points = parameters if parameters.dim() == 2 else parameters.expand(devices, -1)
        total: Tensor | None = None
        for here in _slices(width, SLICE_BYTES // (4 * self.numbers * max(devices, 1))):
            inputs, targets = samples_of(self.task, samples.rows[:, here])
            found = self.sums(points, inputs, targets, samples.present[:, here].float(), bound=bound)
            total = found if total is None else total.add_(found)
        counts = samples.present.sum(dim=1, keepdim=True)
        return parameters.new_zeros(devices, self.model.dimension) if total is None else total.div_(counts)

    def clamped_sums(
        self, parameters: Tensor, inputs: Tensor, targets: Tensor, present: Tensor, limit: float
    ) -> Tensor:
        """Sum of g_j, every coordinate clamped to [-limit, limit], over each device's samples, [devices, d].

        parameters [devices, d]; inputs [devices, n, *shape], targets and present [devices, n].
        """
        total: Tensor | None = None
        for here in _slices(targets.shape[1], SLICE_BYTES // (4 * self.numbers * len(targets))):
            found = self.sums(parameters, inputs[:, here], targets[:, here], present[:, here], clamp=limit)
            total = found if total is None else total.add_(found)
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
        """Sum over j of present_j g_j, with ||g_j|| <= bound and |coordinates| <= clamp, all at once, [devices, d]."""
        parts = parts_of(self.model, parameters)
        found = parameters.new_empty(len(targets), self.model.dimension)
        into = parts_of(self.model, found)
        if self.layered is not None:
            layer_sums(self.layered, parts, inputs, targets, present, bound, clamp, into)
            return found
        sums: Parts
        if math.isinf(bound) and math.isinf(clamp):
            sums = self._sums(parts, inputs, targets, present)
        else:
            each = tuple(part.clamp(-clamp, clamp) for part in self._gradients(parts, inputs, targets))
            shares = clip_factor(_norms(each), bound) * present
            sums = tuple(shares[:, None].bmm(part.flatten(2))[:, 0].view_as(part[:, 0]) for part in each)
        for place, part in zip(into, sums, strict=True):
            place.copy_(part)
        return found

    def chunk(self, devices: int, samples: int) -> int:
        """Devices of a chunk of at most so many, with so many samples each; 1 in a loop."""
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


def samples_of(task: DividedTask, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Normalised inputs and targets at rows of the training data."""
    return normalise(task.train.inputs[rows], task.mean, task.std), task.train.targets[rows]


def parts_of(model: FlatModel, vectors: Tensor) -> Parts:
    """Views of flat vectors [n, d] in the parameters' shapes, [n, *shape] each."""
    split = torch.split(vectors, model.sizes, dim=1)
    return tuple(part.view(-1, *shape) for part, shape in zip(split, model.shapes, strict=True))


def batched_gradients(model: FlatModel) -> Gradients:
    """All devices and samples in one computation."""

    def loss(parameters: Parts, inputs: Tensor, target: Tensor) -> Tensor:
        return model.losses(parameters, inputs[None], target[None])[0]

    return torch.func.vmap(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))


def batched_sums(model: FlatModel) -> Sums:
    """All devices in one computation."""

    def loss(parameters: Parts, inputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        return model.losses(parameters, inputs, targets).dot(weights)

    return torch.func.vmap(torch.func.grad(loss))


def looped_gradients(model: FlatModel) -> Gradients:
    """One sample after another."""

    def gradients(parameters: Parts, inputs: Tensor, targets: Tensor) -> Parts:
        sums, one = looped_sums(model), parameters[0].new_ones(len(targets), 1)
        pairs = zip(torch.split(inputs, 1, dim=1), torch.split(targets, 1, dim=1), strict=True)
        single = [sums(parameters, *pair, one) for pair in pairs]
        return tuple(torch.stack(parts, dim=1) for parts in zip(*single, strict=True))

    return gradients


def looped_sums(model: FlatModel) -> Sums:
    """One device after another."""

    def sums(parameters: Parts, inputs: Tensor, targets: Tensor, weights: Tensor) -> Parts:
        found = []
        for number, own in enumerate(zip(inputs, targets, weights, strict=True)):
            leaves = tuple(part[number].detach().requires_grad_() for part in parameters)
            loss = model.losses(leaves, *own[:2]).dot(own[2])
            found.append(torch.autograd.grad(loss, leaves, materialize_grads=True))
        return tuple(torch.stack(parts) for parts in zip(*found, strict=True))

    return sums


def _norms(gradients: Parts) -> Tensor:
    """Of gradients [devices, n, *shape] each, over all parameters, [devices, n]."""
    norms = [torch.linalg.vector_norm(part.flatten(2), dim=2) for part in gradients]
    found: Tensor = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    return found


def _slices(count: int, most: int) -> Iterator[slice]:
    """Of at most so many each, and at least one, of nearly equal lengths."""
    pieces = max(1, -(-count // max(1, most)))
    size = max(1, -(-count // pieces))
    return (slice(start, start + size) for start in range(0, count, size))
