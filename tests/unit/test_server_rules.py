"""Server rules applied to a mean update, and learning rates over rounds, computed by hand."""

import math

import numpy as np
import pytest
import torch

from airfl.config.learning import LocalSettings, ServerSettings
from airfl.learning.schedule import learning_rate
from airfl.learning.server import Adaptive, Averaging, Descent, mean_weights
from airfl.runtime.store import Store
from tests.conftest import small_settings


def test_averaging_and_descent_multiply_their_steps() -> None:
    settings = small_settings("server.learning_rate=0.5", "local.learning_rate=0.1")
    theta, update = torch.tensor([1.0, 2.0]), torch.tensor([4.0, -2.0])
    np.testing.assert_allclose(Averaging(settings.server).step(theta, update, 0, Store()), [3.0, 1.0])
    descended = Descent(settings.server, settings.local).step(theta, update, 0, Store())
    np.testing.assert_allclose(descended, [1.2, 1.9], rtol=1e-6)


def test_two_rounds_of_the_adaptive_rule() -> None:
    """Fed-SPA, eq. 6, with beta_1 = 1/2, beta_2 = 3/4, kappa = 1/10, eta_g = 2 and updates 2 and 1:
    u = 1, then 1; v = 3/4 x 0.01 + 1/4 x 1 = 0.2575, then 3/4 x 0.2575 + 1/4 x 1 = 0.443125."""
    given = ("server.beta1=0.5", "server.beta2=0.75", "server.kappa=0.1", "server.learning_rate=2.0")
    rule = Adaptive(small_settings(*given).server)
    store, theta = Store(), torch.zeros(1, dtype=torch.float64)
    expected = 0.0
    for index, (update, v) in enumerate([(2.0, 0.2575), (1.0, 0.443125)]):
        theta = rule.step(theta, torch.tensor([update], dtype=torch.float64), index, store)
        expected += 2 * 1 / (math.sqrt(v) + 0.1)
        assert float(theta) == pytest.approx(expected, rel=1e-12)
        assert float(store.server["u"]) == pytest.approx(1.0)
        assert float(store.server["v"]) == pytest.approx(v)


def test_weights_are_samples_over_their_mean() -> None:
    np.testing.assert_allclose(mean_weights("samples", np.array([1, 3, 2])), [0.5, 1.5, 1.0])
    np.testing.assert_array_equal(mean_weights("equal", np.array([1, 3, 2])), [1, 1, 1])


SCHEDULES = {
    "constant": ([0, 3, 8], [0.8, 0.8, 0.8]),
    "inverse-sqrt": ([0, 3, 8], [0.8, 0.4, 0.8 / 3]),
    # By half after every three rounds, and not before.
    "exponential": ([0, 1, 2, 3, 5, 6], [0.8, 0.8, 0.8, 0.4, 0.4, 0.2]),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_learning_rates_over_rounds(schedule: str) -> None:
    given = {"learning_rate": 0.8, "schedule": schedule, "decay": 0.5, "decay_every": 3}
    rounds, expected = SCHEDULES[schedule]
    for section in (ServerSettings(**given), LocalSettings(steps=1, clip_norm=1.0, **given)):
        np.testing.assert_allclose([learning_rate(section, index) for index in rounds], expected)
