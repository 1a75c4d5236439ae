"""Accuracy and loss of the global model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from airfl.local.flat import FlatModel
from airfl.local.sgd import normalise
from airfl.tasks.task import Samples, Task

# Samples at a time. What layers make of few samples stays in a processor's cache; a card has to be kept busy.
BATCH = {"cpu": 125, "cuda": 1000}
# The training loss is read on the first so many training samples: enough for a curve, cheap for a large model.
TRAINING_SAMPLES = 10_000


@dataclass(frozen=True)
class Evaluation:
    """Figures of one model; validation ones are nan where nothing is held out."""

    test_accuracy: float
    test_loss: float
    train_loss: float
    validation_accuracy: float
    validation_loss: float


def evaluate(model: FlatModel, parameters: Tensor, task: Task) -> Evaluation:
    """All figures of the model with these parameters [d]."""
    test_accuracy, test_loss = _score(model, parameters, task, task.test)
    rows = torch.from_numpy(task.partition.indices[:TRAINING_SAMPLES]).to(parameters.device)
    _, train_loss = _score(model, parameters, task, task.train, rows)
    validation_accuracy, validation_loss = _score(model, parameters, task, task.validation)
    return Evaluation(test_accuracy, test_loss, train_loss, validation_accuracy, validation_loss)


@torch.inference_mode()
def _score(
    model: FlatModel, parameters: Tensor, task: Task, samples: Samples, rows: Tensor | None = None
) -> tuple[float, float]:
    """Accuracy and mean loss on the samples, or on these rows of them, taken a batch at a time."""
    count = len(samples) if rows is None else len(rows)
    if not count:
        return float("nan"), float("nan")
    parts, size = model.split(parameters), BATCH[parameters.device.type]
    # Added up where they are computed: a card is not waited for after every batch.
    right = torch.zeros((), dtype=torch.int64, device=parameters.device)
    loss = torch.zeros((), dtype=torch.float64, device=parameters.device)
    for start in range(0, count, size):
        some = slice(start, start + size) if rows is None else rows[start : start + size]
        inputs, targets = normalise(samples.inputs[some], task.mean, task.std), samples.targets[some]
        if inputs.dim() == 4 and not inputs.is_cuda:  # pixel by pixel in memory, as convolutions on a CPU like it
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        logits = model.outputs(parts, inputs)
        right += (logits.argmax(dim=1) == targets).sum()
        loss += F.cross_entropy(logits, targets, reduction="sum")
    return int(right) / count, float(loss) / count + float(model.penalty(parts))
