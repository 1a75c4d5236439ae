"""Accuracy and loss of the global model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from airfl.local.flat import FlatModel
from airfl.local.sgd import normalise
from airfl.tasks.task import Samples, Task

BATCH = 1000
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
    _, train_loss = _score(model, parameters, task, Samples(task.train.inputs[rows], task.train.targets[rows]))
    validation_accuracy, validation_loss = _score(model, parameters, task, task.validation)
    return Evaluation(test_accuracy, test_loss, train_loss, validation_accuracy, validation_loss)


@torch.inference_mode()
def _score(model: FlatModel, parameters: Tensor, task: Task, samples: Samples) -> tuple[float, float]:
    if not len(samples):
        return float("nan"), float("nan")
    parts = model.split(parameters)
    right, loss = 0, 0.0
    for start in range(0, len(samples), BATCH):
        targets = samples.targets[start : start + BATCH]
        logits = model.outputs(parts, normalise(samples.inputs[start : start + BATCH], task.mean, task.std))
        right += int((logits.argmax(dim=1) == targets).sum())
        loss += float(F.cross_entropy(logits, targets, reduction="sum"))
    return right / len(samples), loss / len(samples) + float(model.penalty(parts))
