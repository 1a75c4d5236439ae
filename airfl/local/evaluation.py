"""Accuracy and loss of the global model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.local.flat import FlatModel, Loss, each
from airfl.local.sgd import normalise
from airfl.tasks.task import DividedTask, Samples

# Samples at a time. What layers make of few samples stays in a processor's cache; a card has to be kept busy.
BATCH = {"cpu": 125, "cuda": 1000}
# The training loss is read on the first so many training samples: enough for a curve, cheap for a large model.
TRAINING_SAMPLES = 10_000


@dataclass(frozen=True)
class Evaluation:
    """Figures of one model.

    Validation figures are nan where nothing is held out, accuracies where the loss is not cross-entropy.

    Attributes:
        test_accuracy: Share of the test samples that are classified right.
        test_loss: Mean loss of the test samples.
        train_loss: Mean loss of the devices' training samples, of 10,000 of them at most.
        validation_accuracy: Share of the held-out samples that are classified right.
        validation_loss: Mean loss of the held-out samples.
        gradient_norm_squared: ||grad f||^2 of the whole objective; nan where it was not asked for.
        metrics: A task's own means over the test set, by name.
    """

    test_accuracy: float
    test_loss: float
    train_loss: float
    validation_accuracy: float
    validation_loss: float
    gradient_norm_squared: float = math.nan
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Scores:
    """Means over some samples."""

    accuracy: float
    loss: float
    metrics: Mapping[str, float]


def evaluate(model: FlatModel, parameters: Tensor, task: DividedTask, gradient_norm: bool = False) -> Evaluation:
    """All figures of the model with these parameters [d]; gradient_norm: that of `gradient_norm_squared` too."""
    test = _score(model, parameters, task, task.test, metrics=task.metrics)
    rows = torch.from_numpy(task.partition.indices[:TRAINING_SAMPLES]).to(parameters.device)
    train = _score(model, parameters, task, task.train, rows)
    validation = _score(model, parameters, task, task.validation)
    square = gradient_norm_squared(model, parameters, task) if gradient_norm else math.nan
    return Evaluation(test.accuracy, test.loss, train.loss, validation.accuracy, validation.loss, square, test.metrics)


def gradient_norm_squared(model: FlatModel, parameters: Tensor, task: DividedTask) -> float:
    """||grad f||^2 of the whole objective at these parameters [d]: f is the mean loss over all training samples of all
    devices, the model's own penalty included. Taken a batch at a time, added up in float64."""
    point = parameters.detach().clone().requires_grad_()
    rows = torch.from_numpy(task.partition.indices).to(parameters.device)
    total = torch.zeros_like(point, dtype=torch.float64)
    for some in torch.split(rows, BATCH[parameters.device.type]):
        inputs = _as_convolutions_like_it(normalise(task.train.inputs[some], task.mean, task.std), task)
        losses = model.losses(model.split(point), inputs, task.train.targets[some])
        total += torch.autograd.grad(losses.sum(), point)[0]
    return float(total.div_(len(rows)).square().sum())


def _as_convolutions_like_it(inputs: Tensor, task: DividedTask) -> Tensor:
    """Pixel by pixel in memory, for images on a CPU."""
    images = task.by_pixel and inputs.dim() == 4 and not inputs.is_cuda
    return inputs.contiguous(memory_format=torch.channels_last) if images else inputs


@torch.inference_mode()
def _score(
    model: FlatModel,
    parameters: Tensor,
    task: DividedTask,
    samples: Samples,
    rows: Tensor | None = None,
    metrics: Mapping[str, Loss] | None = None,
) -> _Scores:
    """Accuracy, mean loss and mean metrics on the samples, or on these rows of them, taken a batch at a time."""
    count, metrics = len(samples) if rows is None else len(rows), metrics or {}
    if not count:
        return _Scores(math.nan, math.nan, dict.fromkeys(metrics, math.nan))
    parts, size = model.split(parameters), BATCH[parameters.device.type]
    # Added up where they are computed: a card is not waited for after every batch.
    right = torch.zeros((), dtype=torch.int64, device=parameters.device)
    loss = torch.zeros((), dtype=torch.float64, device=parameters.device)
    sums = {name: torch.zeros_like(loss) for name in metrics}

    def add_up(module: nn.Module) -> None:
        for start in range(0, count, size):
            some = slice(start, start + size) if rows is None else rows[start : start + size]
            inputs = _as_convolutions_like_it(normalise(samples.inputs[some], task.mean, task.std), task)
            targets = samples.targets[some]
            outputs = module(inputs)
            if model.loss is None:
                right.add_((outputs.argmax(dim=1) == targets).sum())
                loss.add_(F.cross_entropy(outputs, targets, reduction="sum"))
            else:
                loss.add_(each(model.loss(outputs, targets), len(targets), "the loss").sum(dtype=torch.float64))
            for name, metric in metrics.items():
                values = each(metric(outputs, targets), len(targets), f"metric {name!r}")
                sums[name].add_(values.sum(dtype=torch.float64))

    model.holding(parts, add_up)
    accuracy = int(right) / count if model.loss is None else math.nan
    means = {name: float(total) / count for name, total in sums.items()}
    return _Scores(accuracy, float(loss) / count + float(model.penalty(parts)), means)
