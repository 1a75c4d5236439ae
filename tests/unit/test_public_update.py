"""The server's update on public data, which selects the coordinates of Fed-SMP with top-k."""

import logging

import pytest
import torch

from airfl.core.state import World
from airfl.errors import DivergedError, UserError
from tests import small_data
from tests.conftest import small_settings

EPOCHS = ("local.steps=0", "local.epochs=2", "local.batch_size=10", "local.momentum=0.0")


def world(*changes: str, public: int = 200) -> World:
    """Ninety devices of 20 samples each, who make 2 passes of 2 steps."""
    fixed = ("scheme.name=fed-smp-topk", "scheme.noise_multiplier=1.0", f"task.public_samples={public}")
    devices = f"run.devices={(small_data.TRAIN - public) // 20}"
    return small_data.world(small_settings(*fixed, devices, *EPOCHS, *changes))


def update(of: World) -> torch.Tensor:
    return of.public_update(of.model.initial(), 0)


def test_the_server_takes_as_many_steps_as_a_device() -> None:
    """And not as many passes over its own data (line 27 of algorithm 2): 4 steps and not 40."""
    as_a_device = update(world())
    torch.testing.assert_close(as_a_device, update(world("scheme.public_steps=4")), rtol=0, atol=0)
    assert not torch.allclose(as_a_device, update(world("scheme.public_steps=40")), rtol=0.1)
    steps = ("local.epochs=0", "local.steps=4")
    torch.testing.assert_close(as_a_device, update(world(*steps)), rtol=0, atol=0)


def test_steps_of_a_server_that_selects_nothing_are_refused() -> None:
    with pytest.raises(UserError, match='public_steps needs mask = "public"'):
        small_settings("scheme.name=fedavg-topk", "scheme.public_steps=4")


def test_a_step_is_a_gradient_of_the_public_samples() -> None:
    """Compared with autograd."""
    small = world("scheme.public_steps=1", "local.learning_rate=0.1", public=20)
    model, theta = small.model, small.model.initial().requires_grad_()
    mean, std = (torch.tensor(one).view(1, -1, 1, 1) for one in (small.task.mean, small.task.std))
    inputs = (small.task.public.inputs.float() / 255 - mean) / std
    losses = model.losses(model.split(theta), inputs, small.task.public.targets)
    gradients = torch.stack([torch.autograd.grad(one, theta, retain_graph=True)[0] for one in losses])
    found = update(small) / -0.1
    # The batch has ten of the twenty samples: the least squares weights of the gradients are 1/10 or 0.
    weights = torch.linalg.lstsq(gradients.T.double(), found.double()[:, None]).solution[:, 0]
    assert sorted(weights.tolist()) == pytest.approx([0.0] * 10 + [0.1] * 10, abs=1e-4)


def test_a_server_that_diverges_stops_the_run_or_not(caplog: pytest.LogCaptureFixture) -> None:
    diverging = ("local.learning_rate=1e18", "scheme.public_steps=20")
    with pytest.raises(DivergedError, match=r"public samples is not finite; lower .* scheme\.public_steps, or say"):
        update(world(*diverging))
    with caplog.at_level(logging.WARNING):
        found = update(world(*diverging, "run.non_finite=drop"))
    assert not found.isnan().any()
    assert "the update on the public samples is not finite; nan counts as 0" in caplog.text
