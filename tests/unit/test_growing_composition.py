"""Composing a run step by step, as its ledger does, costs hardly more than composing it at once."""

import math

import numpy as np
import pytest

from airfl.privacy.accountants import account
from airfl.privacy.accountants.loss_distributions import Attained, _Growing
from airfl.privacy.events import Event, FixedSizeSampled, Gaussian

DELTA = 1e-3
STEPS, ROUNDS = 12, 10
IDENTIFIED = (0, 2, 6, 10)
"""Steps after which one device has been identified by beta, a release without sampling and with little noise."""


def uniform(generator: np.random.Generator, low: float, high: float, count: int) -> list[float]:
    return np.exp(generator.uniform(math.log(low), math.log(high), count)).tolist()


@pytest.mark.parametrize("least_noise", [0.04, 0.2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_composition_that_outgrows_its_plan_is_planned_anew(least_noise: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    growing, entered = account("dominating-pair", "replace_one"), list[Event]()
    for step in range(STEPS):
        noises = uniform(generator, least_noise, 2.8, ROUNDS)
        new: list[Event] = [FixedSizeSampled(20, 100, Gaussian(noise)) for noise in noises]
        if step in IDENTIFIED:
            new.append(Gaussian(uniform(generator, 0.02, 0.06, 1)[0]))
        at_once = account("dominating-pair", "replace_one")
        for event in new:
            growing.compose(event)
        for event in (entered := [*entered, *new]):
            at_once.compose(event)
        if step % 3 == 2:
            # Both are upper bounds, each on a lattice of its own, so that either may be the smaller by a few steps.
            assert 0.999 < growing.epsilon(DELTA) / at_once.epsilon(DELTA) < 1.05
        else:
            growing.epsilon(DELTA)


@pytest.mark.parametrize("bound", ["above", "below"])
def test_an_epsilon_of_zero_is_no_reason_for_a_new_plan_at_every_step(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so much noise the total variation of all releases is below delta. Plans hold for twice the releases."""
    growing = account("dominating-pair", "replace_one") if bound == "above" else Attained("replace_one")
    plans, with_new_plan = [], _Growing._with_new_plan

    def counted(self: _Growing, delta: float) -> float:
        plans.append(delta)
        return with_new_plan(self, delta)

    monkeypatch.setattr(_Growing, "_with_new_plan", counted)
    for noise in np.random.default_rng(0).uniform(5000, 20000, 16):
        growing.compose(FixedSizeSampled(20, 1000, Gaussian(noise)))
        assert growing.epsilon(DELTA) == 0
    assert 1 <= len(plans) <= 6
