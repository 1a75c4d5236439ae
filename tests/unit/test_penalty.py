"""Losses are of the whole objective, the model's own penalty included."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from airfl.local.evaluation import evaluate
from airfl.local.flat import FlatModel
from airfl.tasks.models.logistic import Logistic
from airfl.tasks.partition import Partition
from airfl.tasks.task import Samples, Task


def test_the_penalty_is_in_every_loss() -> None:
    """Inputs of 0 say nothing, log 2 each; a weight of 1 and one of 2 cost 0.2 (1/2 + 4/5) (SoteriaFL, section 5)."""
    samples = Samples(torch.zeros(4, 123), torch.tensor([0, 1, 1, 0]))
    task = Task(samples, samples, samples, samples, Partition(np.arange(4), np.array([0, 4])), (), (), Logistic())
    weights = torch.zeros(123)
    weights[0], weights[5] = 1.0, -2.0
    found = evaluate(FlatModel(task.model), weights, task)
    expected = math.log(2) + 0.2 * (1 / 2 + 4 / 5)
    assert (found.test_loss, found.train_loss, found.validation_loss) == pytest.approx([expected] * 3, rel=1e-6)
