"""Evaluation in batches, against the whole at once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from airfl.local.evaluation import BATCH, TRAINING_SAMPLES, evaluate
from airfl.local.sgd import normalise
from airfl.simulation import build_world
from tests.conftest import small_settings


@pytest.mark.parametrize("batch", [125, 999])
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_figures_are_those_of_all_samples_at_once(model: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All test samples and 300 training ones; float32 sums in another order: 1e-5."""
    monkeypatch.setitem(BATCH, "cpu", batch)
    monkeypatch.setattr("airfl.local.evaluation.TRAINING_SAMPLES", 300)
    assert TRAINING_SAMPLES == 10_000
    world = build_world(small_settings(f"task.model={model}", "task.validation_share=0.02"), torch.device("cpu"))
    task, initial = world.task, world.model.initial()
    parameters = initial + 0.1 * torch.randn(initial.shape, generator=torch.Generator().manual_seed(1))
    found = evaluate(world.model, parameters, task)
    assert torch.equal(world.model.initial(), initial)
    torch.nn.utils.vector_to_parameters(parameters, task.model.parameters())

    def expected(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[float, float]:
        with torch.no_grad():
            logits = task.model(normalise(inputs, task.mean, task.std))
        return float((logits.argmax(1) == targets).double().mean()), float(F.cross_entropy(logits, targets))

    rows = task.partition.indices[:300]
    assert (found.test_accuracy, found.test_loss) == pytest.approx(
        expected(task.test.inputs, task.test.targets), rel=1e-5
    )
    assert found.train_loss == pytest.approx(expected(task.train.inputs[rows], task.train.targets[rows])[1], rel=1e-5)
    assert (found.validation_accuracy, found.validation_loss) == pytest.approx(
        expected(task.validation.inputs, task.validation.targets), rel=1e-5
    )
