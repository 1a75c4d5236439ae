"""The squared gradient norm of the whole objective: against autograd on all samples at once, and in the trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from airfl.learning.evaluation import BATCH, evaluate, gradient_norm_squared
from airfl.learning.flat import FlatModel
from airfl.learning.sgd import normalise
from airfl.learning.task import DividedTask
from airfl.storage.trace import open_trace
from tests.conftest import small_settings
from tests.small_data import run, world

LOGISTIC = ("task.dataset=a9a-sample", "task.model=logistic", "local.engine=vmap")


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


def with_parameters(task: DividedTask, parameters: torch.Tensor) -> torch.nn.Module:
    torch.nn.utils.vector_to_parameters(parameters, task.model.parameters())
    return task.model


@pytest.mark.parametrize("model", [("task.model=mlp",), LOGISTIC], ids=["mlp", "logistic"])
@pytest.mark.parametrize("batch", [125, 797])
def test_it_is_that_of_all_samples_at_once(model: tuple[str, ...], batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from the start, where the penalty's gradient is not zero; float32 sums: 1e-5 of the square."""
    monkeypatch.setitem(BATCH, "cpu", batch)
    built = world(small_settings(*model, "task.validation_share=0.1"))
    assert len(built.task.partition.indices) < len(built.task.train)  # some are nobody's, and do not count
    generator = torch.Generator().manual_seed(1)
    parameters = built.model.initial() + 0.1 * torch.randn(built.model.dimension, generator=generator)
    found = gradient_norm_squared(built.model, parameters, built.task)
    assert found == pytest.approx(at_once(with_parameters(built.task, parameters.clone()), built.task), rel=1e-5)
    assert evaluate(built.model, parameters, built.task, gradient_norm=True).gradient_norm_squared == found
    assert np.isnan(evaluate(built.model, parameters, built.task).gradient_norm_squared)


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


@pytest.mark.parametrize(
    "model",
    [pytest.param(("task.model=mlp",), marks=pytest.mark.full, id="mlp"), pytest.param(LOGISTIC, id="logistic")],
)
def test_the_trace_has_it_where_a_round_is_evaluated_and_it_changes_nothing_else(
    model: tuple[str, ...], tmp_path: Path
) -> None:
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
