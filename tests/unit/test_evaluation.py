"""Evaluation in batches, and the squared gradient norm of the objective, against all samples at once; in the trace."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from airfl.learning.evaluation import BATCH, evaluate, gradient_norm_squared
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import normalise
from airfl.learning.task import TRAINING_SAMPLES, DividedTask, Samples
from airfl.learning.tasks.models.modules.logistic import Logistic
from airfl.learning.tasks.partitions import Partition
from airfl.storage.trace import open_trace
from tests.conftest import small_settings
from tests.small_data import run, world

LOGISTIC = ("task.dataset=a9a-sample", "task.model=logistic", "local.engine=vmap")


@pytest.mark.parametrize("batch", [125, 399])
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_figures_are_those_of_all_samples_at_once(model: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All test samples and 300 evenly spaced training ones; float32 sums in another order: 1e-5."""
    monkeypatch.setitem(BATCH, "cpu", batch)
    monkeypatch.setattr("airfl.learning.task.TRAINING_SAMPLES", 300)
    assert TRAINING_SAMPLES == 10_000
    built = world(small_settings(f"task.model={model}", "task.validation_share=0.02"))
    task, initial = built.task, built.model.initial()
    parameters = initial + 0.1 * torch.randn(initial.shape, generator=torch.Generator().manual_seed(1))
    found = evaluate(built.model, parameters, task)
    assert torch.equal(built.model.initial(), initial)
    torch.nn.utils.vector_to_parameters(parameters, task.model.parameters())

    def expected(samples: Samples) -> tuple[float, float]:
        with torch.no_grad():
            logits, targets = task.model(normalise(samples.inputs, task.mean, task.std)), samples.targets
        return float((logits.argmax(1) == targets).double().mean()), float(F.cross_entropy(logits, targets))

    held = len(task.partition.indices)
    rows = task.partition.indices[[place * held // 300 for place in range(300)]]
    trained = Samples(task.train.inputs[rows], task.train.targets[rows])
    assert (found.test_accuracy, found.test_loss) == pytest.approx(expected(task.test), rel=1e-5)
    assert found.train_loss == pytest.approx(expected(trained)[1], rel=1e-5)
    assert (found.validation_accuracy, found.validation_loss) == pytest.approx(expected(task.validation), rel=1e-5)


def test_the_training_loss_counts_every_device_by_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device a class, whose samples lose what its class does; of 300 samples, all or 30."""
    sizes = [50, 100, 150]
    targets = torch.arange(3).repeat_interleave(torch.tensor(sizes))
    samples, model = Samples(torch.zeros(300, 1), targets), torch.nn.Linear(1, 3)
    task = DividedTask(
        samples, samples, samples, samples, Partition(np.arange(300), np.cumsum([0, *sizes])), (), (), model
    )
    parameters = torch.tensor([0.0, 0.0, 0.0, 3.0, -1.0, 0.5])  # weights, and the scores of the classes
    whole = evaluate(FlatModel(model), parameters, task)
    assert len(task.loss_rows) == 300
    monkeypatch.setattr("airfl.learning.task.TRAINING_SAMPLES", 30)
    few = replace(task)
    assert np.bincount(targets[few.loss_rows]).tolist() == [5, 10, 15]
    assert evaluate(FlatModel(model), parameters, few).train_loss == pytest.approx(whole.test_loss, rel=1e-6)
    assert whole.train_loss == pytest.approx(whole.test_loss, rel=1e-6)


def test_the_penalty_is_in_every_loss() -> None:
    """Inputs of 0 say nothing, log 2 each; a weight of 1 and one of 2 cost 0.2 (1/2 + 4/5) (SoteriaFL, section 5)."""
    samples = Samples(torch.zeros(4, 123), torch.tensor([0, 1, 1, 0]))
    one_device = Partition(np.arange(4), np.array([0, 4]))
    task = DividedTask(samples, samples, samples, samples, one_device, (), (), Logistic())
    weights = torch.zeros(123)
    weights[0], weights[5] = 1.0, -2.0
    found = evaluate(FlatModel(task.model), weights, task)
    expected = math.log(2) + 0.2 * (1 / 2 + 4 / 5)
    assert (found.test_loss, found.train_loss, found.validation_loss) == pytest.approx([expected] * 3, rel=1e-6)


def at_once(module: torch.nn.Module, task: DividedTask) -> float:
    """In float64, all training samples of the devices in one computation, the module's own penalty once."""
    module = module.double()
    rows = torch.from_numpy(task.partition.indices)
    inputs = normalise(task.train.inputs[rows], task.mean, task.std)
    objective = F.cross_entropy(module(inputs.double()), task.train.targets[rows])
    if hasattr(module, "penalty"):
        objective = objective + module.penalty(dict(module.named_parameters()))
    objective.backward()
    return sum(float(parameter.grad.square().sum()) for parameter in module.parameters())


@pytest.mark.parametrize("model", [("task.model=mlp",), LOGISTIC], ids=["mlp", "logistic"])
@pytest.mark.parametrize("batch", [125, 797])
def test_gradient_norm_is_that_of_all_samples_at_once(
    model: tuple[str, ...], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away from the start, where the penalty's gradient is not zero; float32 sums: 1e-5 of the square."""
    monkeypatch.setitem(BATCH, "cpu", batch)
    built = world(small_settings(*model, "task.validation_share=0.1"))
    assert len(built.task.partition.indices) < len(built.task.train)  # some are nobody's, and do not count
    generator = torch.Generator().manual_seed(1)
    parameters = built.model.initial() + 0.1 * torch.randn(built.model.dimension, generator=generator)
    found = gradient_norm_squared(built.model, parameters, built.task)
    assert evaluate(built.model, parameters, built.task, gradient_norm=True).gradient_norm_squared == found
    assert np.isnan(evaluate(built.model, parameters, built.task).gradient_norm_squared)
    torch.nn.utils.vector_to_parameters(parameters, built.task.model.parameters())
    assert found == pytest.approx(at_once(built.task.model, built.task), rel=1e-5)


def test_no_more_than_a_batch_is_computed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BATCH, "cpu", 50)
    built = world(small_settings())
    sizes, losses = [], FlatModel.losses

    def counted(self: FlatModel, parameters: Any, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        sizes.append(len(inputs))
        return losses(self, parameters, inputs, targets)

    monkeypatch.setattr(FlatModel, "losses", counted)
    gradient_norm_squared(built.model, built.model.initial(), built.task)
    assert max(sizes) == 50
    assert sum(sizes) == len(built.task.partition.indices)


@pytest.mark.parametrize("model", [pytest.param(("task.model=mlp",), marks=pytest.mark.full), LOGISTIC])
def test_the_trace_has_it_where_evaluated_and_nothing_else_changes(model: tuple[str, ...], tmp_path: Path) -> None:
    overrides = (*model, "run.rounds=3", "run.evaluate_every=2")
    done = run(small_settings(*overrides, "trace.gradient_norm=true"), tmp_path / "with")
    run(small_settings(*overrides), tmp_path / "without")
    with open_trace(tmp_path / "with") as trace, open_trace(tmp_path / "without") as plain:
        squares = trace["gradient_norm_squared"].values
        assert list(np.isnan(squares)) == [True, False, False]
        built = world(done.settings)
        assert squares[-1] == pytest.approx(at_once(done.model(), built.task), rel=1e-5)
        assert np.isnan(plain["gradient_norm_squared"].values).all()
        for name in set(trace.variables) - {"gradient_norm_squared"}:
            np.testing.assert_array_equal(trace[name].values, plain[name].values)
        assert trace.attrs["dimension"] == built.model.dimension
