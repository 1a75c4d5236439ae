"""The initial parameters that `task.initial_std` draws."""

import pytest
import torch

import airfl
from airfl.core.world import build_world
from airfl.errors import UserError
from tests.conftest import small_settings
from tests.refusals import one_line

CPU = torch.device("cpu")


def initial(*overrides: str) -> torch.Tensor:
    return build_world(small_settings(*overrides), CPU).model.initial()


def test_all_parameters_are_drawn_from_a_normal_distribution() -> None:
    """25,450 draws of an MLP, biases with them: mean and deviation within 5 standard errors, and no other kurtosis."""
    x = initial("task.initial_std=0.2").double()
    n = len(x)
    assert abs(float(x.mean())) < 5 * 0.2 / n**0.5
    assert abs(float(x.std()) / 0.2 - 1) < 5 / (2 * n) ** 0.5
    assert abs(float((x / x.std()).pow(4).mean()) - 3) < 5 * (24 / n) ** 0.5
    assert float(x.abs().min()) > 0


def test_they_are_those_of_the_seed_and_scale_with_the_deviation() -> None:
    one, other = initial("task.initial_std=0.2"), initial("task.initial_std=0.4")
    torch.testing.assert_close(other, 2 * one)
    assert torch.equal(one, initial("task.initial_std=0.2", "local.learning_rate=0.7"))
    assert not torch.equal(one, initial("task.initial_std=0.2", "run.seed=1"))
    assert not torch.equal(one, initial())


def test_the_model_of_a_task_of_one_s_own_is_drawn_too_and_left_as_it_is() -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    before = [part.clone() for part in module.parameters()]
    inputs, targets = torch.zeros(40, 1, 28, 28), torch.arange(40) % 10
    task = airfl.Task(module, (inputs, targets), (inputs, targets))
    settings = small_settings("task.initial_std=3.0", "task.public_samples=0", "run.devices=4", "run.selected=2")
    x = build_world(settings, CPU, task=task).model.initial()
    assert 2.5 < float(x.std()) < 3.5
    assert all(torch.equal(part, one) for part, one in zip(module.parameters(), before, strict=True))


@pytest.mark.parametrize("value", ["0", "-1.0", "inf", "nan"])
def test_another_deviation_is_refused(value: str) -> None:
    with pytest.raises(UserError, match=one_line("task.initial_std")):
        small_settings(f"task.initial_std={value}")
