"""Accuracy and loss of the global model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.learning.flat import FlatModel, Loss, per_sample
from airfl.learning.generated import SamplesOnDemand
from airfl.learning.sgd import normalise
from airfl.learning.task import DividedTask, Samples
from airfl.runtime.beside import Reading, beside
from channels.transfer import on_device

# Samples at a time. On a CPU the activations of few samples stay in the cache; a GPU has to be kept busy.
BATCH = {"cpu": 125, "cuda": 1000}


@dataclass(frozen=True)
class Evaluation:
    """Accuracies and losses of a model.

    Validation figures are nan if nothing is held out, and accuracies are nan if the loss is not cross-entropy.

    Attributes:
        test_accuracy: Share of the test samples that are classified correctly.
        test_loss: Mean loss over the test samples.
        train_loss: Mean loss over the devices' training samples; of more than 10,000, over that many of all devices.
        validation_accuracy: Share of the held-out samples that are classified correctly.
        validation_loss: Mean loss over the held-out samples.
        gradient_norm_squared: ||grad f||^2 of the whole objective; nan if it was not requested.
        metrics: Means of a task's metrics over the test set, by name.
    """

    test_accuracy: float
    test_loss: float
    train_loss: float
    validation_accuracy: float
    validation_loss: float
    gradient_norm_squared: float = math.nan
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Totals:
    """Sums over a set of samples, which stay on the device.

    Attributes:
        count: Number of samples.
        sums: Correct ones, loss, and each metric, then the penalty of the model, float64.
    """

    count: int
    sums: Tensor


@dataclass(frozen=True)
class _Scores:
    """Means over a set of samples."""

    accuracy: float
    loss: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class EvaluationUnderWay:
    """An evaluation that a GPU may still be computing.

    Attributes:
        sums: Those of the test, training and validation samples one after the other, then ||grad f||^2 if requested.
        counts: Samples in each of the three sets.
        metrics: Names of the task's metrics.
        by_class: Whether the loss is cross-entropy, so that there are accuracies.
        gradient_norm: Whether ||grad f||^2 was requested.
    """

    sums: Reading
    counts: tuple[int, int, int]
    metrics: tuple[str, ...]
    by_class: bool
    gradient_norm: bool

    @property
    def under_way(self) -> bool:
        """Whether the CPU may have to wait for the result."""
        return self.sums.under_way

    def result(self) -> Evaluation:
        """Return the figures. The CPU waits for a GPU here alone."""
        *sums, square = torch.split(self.sums.numbers(), [3 + len(self.metrics), 3, 3, int(self.gradient_norm)])
        names = (self.metrics, (), ())
        test, train, validation = (
            _means(count, *some.tolist(), names=of_set, by_class=self.by_class)
            for count, some, of_set in zip(self.counts, sums, names, strict=True)
        )
        return Evaluation(
            test.accuracy,
            test.loss,
            train.loss,
            validation.accuracy,
            validation.loss,
            float(square) if self.gradient_norm else math.nan,
            test.metrics,
        )


def evaluate(model: FlatModel, parameters: Tensor, task: DividedTask, gradient_norm: bool = False) -> Evaluation:
    """Evaluate the model with these parameters [d]; gradient_norm: whether to compute `gradient_norm_squared` too."""
    return begin_evaluation(model, parameters, task, gradient_norm).result()


def begin_evaluation(
    model: FlatModel, parameters: Tensor, task: DividedTask, gradient_norm: bool = False
) -> EvaluationUnderWay:
    """Begin to evaluate the model; see `evaluate`.

    A GPU does so beside what it is given next, with a copy of the parameters, into which nothing is written.
    """
    own = parameters.clone() if parameters.is_cuda else parameters
    with beside(own.device, own):
        sets = (
            _add_up(model, own, task, task.test, metrics=task.metrics),
            _add_up(model, own, task, *_training_samples(task, own.device)),
            _add_up(model, own, task, task.validation),
        )
        sums = [one.sums for one in sets]
        if gradient_norm:
            sums.append(_gradient_norm_squared(model, own, task).view(1))
        reading = Reading.of(torch.cat(sums))
    test, train, validation = (one.count for one in sets)
    return EvaluationUnderWay(
        reading, (test, train, validation), tuple(task.metrics), model.loss is None, gradient_norm
    )


def _training_samples(task: DividedTask, device: torch.device) -> tuple[Samples | SamplesOnDemand, Tensor | None]:
    """Return the samples of the training loss, and which rows of them; None for all."""
    if isinstance(task.train, SamplesOnDemand):
        return task.train.kept(task.loss_rows), None
    return task.train, on_device(task.loss_rows, device)


def gradient_norm_squared(model: FlatModel, parameters: Tensor, task: DividedTask) -> float:
    """Return ||grad f||^2 of the whole objective at these parameters [d].

    f is the mean loss over all training samples of all devices, including the model's penalty. The gradient is computed
    batch by batch and summed in float64.
    """
    return float(_gradient_norm_squared(model, parameters, task))


def _gradient_norm_squared(model: FlatModel, parameters: Tensor, task: DividedTask) -> Tensor:
    point = parameters.detach().clone().requires_grad_()
    rows = on_device(np.asarray(task.partition.indices), parameters.device)
    total = torch.zeros_like(point, dtype=torch.float64)
    for some in torch.split(rows, BATCH[parameters.device.type]):
        inputs = _channels_last(normalise(task.train.inputs[some], task.mean, task.std), task)
        losses = model.losses(model.split(point), inputs, task.train.targets[some])
        total += torch.autograd.grad(losses.sum(), point)[0]
    return total.div_(len(rows)).square().sum()


def _channels_last(inputs: Tensor, task: DividedTask) -> Tensor:
    """Return images on a CPU in channels-last memory format, in which convolutions are faster."""
    images = task.by_pixel and inputs.dim() == 4 and not inputs.is_cuda
    return inputs.contiguous(memory_format=torch.channels_last) if images else inputs


@torch.inference_mode()
def _add_up(
    model: FlatModel,
    parameters: Tensor,
    task: DividedTask,
    samples: Samples | SamplesOnDemand,
    rows: Tensor | None = None,
    metrics: Mapping[str, Loss] | None = None,
) -> _Totals:
    """Return the sums over the samples, or over these rows of them, batch by batch."""
    count, metrics = len(samples) if rows is None else len(rows), metrics or {}
    if not count:
        return _Totals(0, parameters.new_zeros(3 + len(metrics), dtype=torch.float64))
    parts, size = model.split(parameters), BATCH[parameters.device.type]
    # The sums stay on the device, so that a GPU need not be synchronised after every batch.
    correct = torch.zeros((), dtype=torch.int64, device=parameters.device)
    loss = torch.zeros((), dtype=torch.float64, device=parameters.device)
    sums = {name: torch.zeros_like(loss) for name in metrics}

    def add_up(module: nn.Module) -> None:
        for start in range(0, count, size):
            some = slice(start, start + size) if rows is None else rows[start : start + size]
            inputs = _channels_last(normalise(samples.inputs[some], task.mean, task.std), task)
            targets = samples.targets[some]
            outputs = module(inputs)
            if model.loss is None:
                correct.add_((outputs.argmax(dim=1) == targets).sum())
                loss.add_(F.cross_entropy(outputs, targets, reduction="sum"))
            else:
                loss.add_(per_sample(model.loss(outputs, targets), len(targets), "the loss").sum(dtype=torch.float64))
            for name, metric in metrics.items():
                values = per_sample(metric(outputs, targets), len(targets), f"metric {name!r}")
                sums[name].add_(values.sum(dtype=torch.float64))

    model.with_parameters(parts, add_up)
    total = (correct, loss, *sums.values(), model.penalty(parts))
    return _Totals(count, torch.stack([one.double() for one in total]))


def _means(count: int, correct: float, loss: float, *others: float, names: tuple[str, ...], by_class: bool) -> _Scores:
    """Return means of the sums over a set. others: sums of the metrics with these names, and the model's penalty."""
    *metrics, penalty = others
    if not count:
        return _Scores(math.nan, math.nan, dict.fromkeys(names, math.nan))
    means = {name: total / count for name, total in zip(names, metrics, strict=True)}
    return _Scores(correct / count if by_class else math.nan, loss / count + penalty, means)
