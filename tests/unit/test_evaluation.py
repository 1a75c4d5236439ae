"""Evaluation in batches against evaluation of all samples at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from airfl.learning.evaluation import BATCH, TRAINING_SAMPLES, evaluate
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import normalise
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.models.modules.logistic import Logistic
from airfl.learning.tasks.partitions import Partition
from tests.conftest import small_settings
from tests.small_data import world


@pytest.mark.parametrize("batch", [125, 399])
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_figures_are_those_of_all_samples_at_once(model: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All test samples and 300 training ones; float32 sums in another order: 1e-5."""
    monkeypatch.setitem(BATCH, "cpu", batch)
    monkeypatch.setattr("airfl.learning.evaluation.TRAINING_SAMPLES", 300)
    assert TRAINING_SAMPLES == 10_000
    built = world(small_settings(f"task.model={model}", "task.validation_share=0.02"))
    task, initial = built.task, built.model.initial()
    parameters = initial + 0.1 * torch.randn(initial.shape, generator=torch.Generator().manual_seed(1))
    found = evaluate(built.model, parameters, task)
    assert torch.equal(built.model.initial(), initial)
    torch.nn.utils.vector_to_parameters(parameters, task.model.parameters())

    def expected(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[float, float]:
        with torch.no_grad():
            logits = task.model(normalise(inputs, task.mean, task.std))
        return float((logits.argmax(1) == targets).double().mean()), float(F.cross_entropy(logits, targets))

    rows = task.partition.indices[:300]
    tested = expected(task.test.inputs, task.test.targets)
    validated = expected(task.validation.inputs, task.validation.targets)
    assert (found.test_accuracy, found.test_loss) == pytest.approx(tested, rel=1e-5)
    assert found.train_loss == pytest.approx(expected(task.train.inputs[rows], task.train.targets[rows])[1], rel=1e-5)
    assert (found.validation_accuracy, found.validation_loss) == pytest.approx(validated, rel=1e-5)


def test_the_penalty_is_in_every_loss() -> None:
    """Inputs of 0 say nothing, log 2 each; a weight of 1 and one of 2 cost 0.2 (1/2 + 4/5) (SoteriaFL, section 5)."""
    samples = Samples(torch.zeros(4, 123), torch.tensor([0, 1, 1, 0]))
    task = DividedTask(
        samples, samples, samples, samples, Partition(np.arange(4), np.array([0, 4])), (), (), Logistic()
    )
    weights = torch.zeros(123)
    weights[0], weights[5] = 1.0, -2.0
    found = evaluate(FlatModel(task.model), weights, task)
    expected = math.log(2) + 0.2 * (1 / 2 + 4 / 5)
    assert (found.test_loss, found.train_loss, found.validation_loss) == pytest.approx([expected] * 3, rel=1e-6)
