"""Composing a run step by step, as its ledger does, costs hardly more than composing it at once."""

import math

import numpy as np
import pytest

from airfl.privacy.accountants import account
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
            assert 1 - 1e-6 < growing.epsilon(DELTA) / at_once.epsilon(DELTA) < 1.05
        else:
            growing.epsilon(DELTA)
