"""Gradients of single samples' losses, clipped one by one, as means over samples."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from airfl.local.batches import NOBODY
from airfl.local.flat import FlatModel
from airfl.local.sgd import normalise
from airfl.stages.clip import clip_factor
from airfl.tasks.task import Task

# What gradients of single samples may take at a time; and samples at a time where that would allow many.
SLICE_BYTES = 32 << 20
SLICE_SAMPLES = 4096
# Samples of an ordinary backward pass, whose memory is that of the activations.
MEAN_SAMPLES = 256
LAYER_SAMPLES = 2048

Parts = tuple[Tensor, ...]
# (parameters, inputs [n, *shape], targets [n]) -> gradients, one tensor [n, *shape] a parameter.
Gradients = Callable[[Parts, Tensor, Tensor], Parts]


@dataclass(frozen=True)
class Rows:
    """Samples of some devices: rows of the training data [devices, n], and which of them are there and no padding."""

    rows: Tensor
    present: Tensor

    @classmethod
    def of(cls, task: Task, devices: NDArray[np.int64], positions: NDArray[np.int64]) -> Rows:
        """positions: [devices, n] within each device's own samples, padded with -1."""
        starts = task.partition.offsets[devices][:, None]
        rows = task.partition.indices[starts + np.maximum(positions, 0)]
        place = task.train.targets.device
        return cls(torch.from_numpy(rows).to(place), torch.from_numpy(positions != NOBODY).to(place))

    @classmethod
    def whole(cls, task: Task, devices: NDArray[np.int64]) -> Rows:
        """All samples of these devices."""
        sizes = task.partition.sizes[devices]
        position = np.arange(sizes.max(initial=0))[None, :]
        return cls.of(task, devices, np.where(position < sizes[:, None], position, NOBODY))

    def __getitem__(self, devices: list[int]) -> Rows:
        """Those of some of the devices."""
        return Rows(self.rows[devices], self.present[devices])

    def each(self) -> list[Tensor]:
        """Rows of each device without padding."""
        return [own[there] for own, there in zip(self.rows, self.present, strict=True)]


@dataclass(frozen=True)
class SampleGradients:
    """Gradients of f(x; sample) at samples of a task; `batched`: many samples in one computation.

    A bound of inf means no clipping, and costs no gradients of single samples; nor does a bound on their norms where
    `linear`, all parameters being those of linear layers.
    """

    model: FlatModel
    task: Task
    batched: bool
    linear: bool
    gradients: Gradients

    @classmethod
    def of(cls, model: FlatModel, task: Task) -> SampleGradients:
        """Batched where vmap knows what the model is made of (it does not know an LSTM)."""
        two = torch.from_numpy(task.partition.indices[:2]).to(task.train.targets.device)
        samples, gradients = _samples(task, two), batched_gradients(model)
        try:
            with warnings.catch_warnings(action="error"):  # which is how vmap says that it loops
                gradients(model.split(model.initial()), *samples)
        except Exception:  # whatever vmap does not like, the loop gives the same numbers
            return cls(model, task, False, False, looped_gradients(model))
        return cls(model, task, True, is_linear(model, *samples), gradients)

    def each(self, parameters: Tensor, rows: Tensor, bound: float = math.inf) -> Tensor:
        """g_j min(1, bound/||g_j||) of each sample; parameters [d], rows [n], returns [n, d]."""
        found = parameters.new_empty(len(rows), self.model.dimension)
        for here, parts in self._slices(parameters, rows):
            torch.cat([part.flatten(1) for part in parts], dim=1, out=found[here])
            if math.isfinite(bound):
                found[here] *= _factors(parts, bound)[:, None]
        return found

    def means(self, parameters: Tensor, samples: Rows, bound: float = math.inf) -> Tensor:
        """Mean of g_j min(1, bound/||g_j||) over each device's samples; parameters [d], returns [devices, d]."""
        if not math.isfinite(bound):
            return torch.stack([self.mean(parameters, own) for own in samples.each()])
        devices, width = samples.rows.shape
        split = self.model.split(parameters)
        weights = samples.present / samples.present.sum(dim=1, keepdim=True)
        total = parameters.new_zeros(devices, self.model.dimension)
        step = max(1, (LAYER_SAMPLES if self.linear else self._slice) // devices)
        for start in range(0, width, step):
            found = _samples(self.task, samples.rows[:, start : start + step].reshape(-1))
            share = weights[:, None, start : start + step]
            if self.linear:
                total += layer_means(self.model, split, *found, share, bound)
            else:
                total += weighted_means(self.gradients(split, *found), share, bound)
        return total

    def mean(self, parameters: Tensor, rows: Tensor) -> Tensor:
        """Mean of g_j, not clipped, by ordinary autograd; parameters [d], rows [n], returns [d]."""
        leaves = tuple(part.detach().requires_grad_() for part in self.model.split(parameters))
        total = torch.zeros_like(parameters)
        for start in range(0, len(rows), MEAN_SAMPLES):
            samples = _samples(self.task, rows[start : start + MEAN_SAMPLES])
            loss = self.model.losses(leaves, *samples).sum() / len(rows)
            slopes = torch.autograd.grad(loss, leaves, materialize_grads=True)
            total += torch.cat([slope.reshape(-1) for slope in slopes])
        return total

    def clamped_mean(self, parameters: Tensor, rows: Tensor, limit: float) -> Tensor:
        """Mean of g_j with every coordinate clamped to [-limit, limit]; parameters [d], rows [n], returns [d]."""
        if not math.isfinite(limit):
            return self.mean(parameters, rows)
        total = torch.zeros_like(parameters)
        for _, parts in self._slices(parameters, rows):
            total += torch.cat([part.flatten(1).clamp(-limit, limit).sum(dim=0) for part in parts])
        return total / len(rows)

    @property
    def _slice(self) -> int:
        """Samples whose gradients are in memory at a time; with them go what vmap needs besides."""
        return max(1, min(SLICE_SAMPLES, SLICE_BYTES // (3 * 4 * self.model.dimension)))

    def _slices(self, parameters: Tensor, rows: Tensor) -> Iterator[tuple[slice, Parts]]:
        split = self.model.split(parameters)
        for start in range(0, len(rows), self._slice):
            here = slice(start, start + self._slice)
            yield here, self.gradients(split, *_samples(self.task, rows[here]))


def batched_gradients(model: FlatModel) -> Gradients:
    """All samples in one computation."""

    def loss(parameters: Parts, inputs: Tensor, target: Tensor) -> Tensor:
        return model.losses(parameters, inputs[None], target[None])[0]

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))


def looped_gradients(model: FlatModel) -> Gradients:
    """One sample after another."""

    def gradients(parameters: Parts, inputs: Tensor, targets: Tensor) -> Parts:
        leaves = tuple(part.detach().requires_grad_() for part in parameters)
        samples = zip(torch.split(inputs, 1), torch.split(targets, 1), strict=True)
        losses = (model.losses(leaves, *sample)[0] for sample in samples)
        single = [torch.autograd.grad(loss, leaves, materialize_grads=True) for loss in losses]
        return tuple(torch.stack(parts) for parts in zip(*single, strict=True))

    return gradients


def weighted_means(parts: Parts, weights: Tensor, bound: float) -> Tensor:
    """sum_j weights_j g_j min(1, bound/||g_j||), [devices, d]; g_j [devices n, *shape], weights [devices, 1, n]."""
    share = _factors(parts, bound).view(len(weights), 1, -1) * weights
    return torch.cat([share.bmm(part.reshape(*share.shape[::2], -1))[:, 0] for part in parts], dim=1)


def is_linear(model: FlatModel, inputs: Tensor, targets: Tensor) -> bool:
    """Whether `layer_means` holds for a model: all parameters are those of linear layers, each used once a sample."""
    initial, bound = model.initial(), 1e-3
    # Not at the initial parameters: where they are 0, a penalty or a layer's second use would not show.
    split = model.split(initial + 0.1 * torch.arange(len(initial), device=initial.device).cos())
    weights = torch.ones(1, 1, len(targets), device=targets.device)
    try:
        found = layer_means(model, split, inputs, targets, weights, bound)
    except (RuntimeError, KeyError):  # shapes that are not [n, features], outputs changed in place, other layers
        return False
    wanted = weighted_means(batched_gradients(model)(split, inputs, targets), weights, bound)
    return torch.allclose(found, wanted, rtol=1e-3, atol=1e-8)


def layer_means(
    model: FlatModel, parameters: Parts, inputs: Tensor, targets: Tensor, weights: Tensor, bound: float
) -> Tensor:
    """As `weighted_means`, for models of linear layers.

    inputs [devices samples, *shape], targets [devices samples], weights [devices, 1, n]. The gradient of a linear
    layer's weight is delta a' (slope of the loss by what comes out, times what goes in), so that its norm is
    ||delta|| ||a||, and no sample's gradient is ever written down (Goodfellow 2015, arXiv 1510.01799).
    """
    entering, leaving = _through_layers(model, parameters, inputs, targets)
    squares = [
        leaving[name].square().sum(dim=1) * (entering[name].square().sum(dim=1) + (layer.bias is not None))
        for name, layer in _linear_layers(model).items()
    ]
    share = clip_factor(torch.stack(squares).sum(dim=0).sqrt(), bound).view(len(weights), 1, -1) * weights
    found = []
    for name in model.names:
        layer, _, kind = name.rpartition(".")
        slopes = leaving[layer].view(*share.shape[::2], -1).transpose(1, 2) * share
        inner = entering[layer].view(*share.shape[::2], -1)
        found.append(slopes.bmm(inner).flatten(1) if kind == "weight" else slopes.sum(dim=2))
    return torch.cat(found, dim=1)


def _through_layers(
    model: FlatModel, parameters: Parts, inputs: Tensor, targets: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """By linear layer: what goes in [n, in], and the slope of each sample's loss by what comes out [n, out]."""
    entering: dict[str, Tensor] = {}
    leaving: dict[str, Tensor] = {}

    def note(name: str, _layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        entering[name], leaving[name] = given[0].detach(), output.requires_grad_()

    layers = _linear_layers(model).items()
    hooks = [layer.register_forward_hook(functools.partial(note, name)) for name, layer in layers]
    try:
        loss = model.losses(parameters, inputs, targets).sum()
    finally:
        for hook in hooks:
            hook.remove()
    slopes = torch.autograd.grad(loss, list(leaving.values()))
    return entering, dict(zip(leaving, slopes, strict=True))


def _linear_layers(model: FlatModel) -> dict[str, nn.Linear]:
    return {name: layer for name, layer in model.module.named_modules() if type(layer) is nn.Linear}


def _samples(task: Task, rows: Tensor) -> tuple[Tensor, Tensor]:
    return normalise(task.train.inputs[rows], task.mean, task.std), task.train.targets[rows]


def _factors(parts: Parts, bound: float) -> Tensor:
    """min(1, bound/||g_j||) of each sample, [n]."""
    norms = [torch.linalg.vector_norm(part.flatten(1), dim=1) for part in parts]
    return clip_factor(torch.linalg.vector_norm(torch.stack(norms), dim=0), bound)
