"""Laws 2 and 3 of over-the-air sums: Cao's optimum against searches, and truncated inversion of unequal devices.

Only the amplitudes, beta and errors of a plan are taken from the code. Equal messages and limits are in
test_closed_forms.py, with the formulas.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

from channels.fading import Rayleigh, fade_statistics
from channels.power import POLICIES, PowerPlan, PowerTask, mse
from tests.laws.samples import Array, assert_mean


def flat_task(gains: Array, limits: Array, rms: Array, noise: float = 0.1, **others: Any) -> PowerTask:
    """A task on a flat channel, E|g|^2 = 1."""
    more = {"privacy_bound": np.inf, "mean_power": np.ones(len(gains)), **others}
    return PowerTask(gains[:, None, None], np.ones((1, 1)), limits, rms, noise, **more)


def plan_of(name: str, task: PowerTask, **parameters: Any) -> PowerPlan:
    return POLICIES[name](**parameters).plan(task)


def error_at(coefficient: float, reaches: Array, rms: Array, noise: float) -> float:
    """The error of the sum where everybody sends with the best amplitude within reach of beta."""
    missing = np.minimum(reaches / coefficient, 1) - 1
    return float((rms**2 * missing**2).sum() + noise / coefficient**2)


@pytest.mark.parametrize("seed", range(20))
def test_law_2_no_beta_is_better(seed: int) -> None:
    """Against a search over beta, random gains, unequal limits and messages."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    gains, limits = rng.rayleigh(size=count), rng.exponential(size=count)
    rms, noise = rng.uniform(0.1, 3, count), float(rng.exponential())
    task = flat_task(gains, limits, rms, noise)
    plan = plan_of("cao", task)
    reaches = gains * np.sqrt(limits) / rms
    bounded: Any = {"bounds": (1e-6, 1 / reaches.min()), "method": "bounded", "options": {"xatol": 1e-12}}
    # The error is convex in 1/beta.
    search = optimize.minimize_scalar(lambda inverse: error_at(1 / inverse, reaches, rms, noise), **bounded)
    assert mse(task, plan) == pytest.approx(search.fun, rel=1e-9)
    assert mse(task, plan) <= search.fun * (1 + 1e-12)
    assert float(plan.coefficient[0, 0]) == pytest.approx(1 / search.x, rel=1e-4)


@pytest.mark.parametrize("cap", [np.inf, 0.2])
def test_law_2_no_amplitudes_are_better(cap: float) -> None:
    """Against a search over beta and all amplitudes at once, under the limits and a privacy bound."""
    gains, limits, rms, noise = np.array([0.3, 1.1, 0.7]), np.array([1.0, 2.0, 0.5]), np.array([1.0, 0.4, 2.0]), 0.3
    task = flat_task(gains, limits, rms, noise, privacy_bound=cap)

    def error(variables: Array) -> float:
        arriving, inverse = variables[:3] * np.sqrt(limits) / rms * gains, variables[3]
        return float((rms**2 * (arriving * inverse - 1) ** 2).sum() + noise * inverse**2)

    starts = [np.array([0.5, 0.5, 0.5, inverse]) for inverse in (1 / min(cap, 100), 10.0)]
    bounds = [(0, 1)] * 3 + [(1 / cap, 1e3)]
    found = min(optimize.minimize(error, start, bounds=bounds, tol=1e-14).fun for start in starts)
    assert mse(task, plan_of("cao", task)) == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_law_2_no_policy_is_better(seed: int) -> None:
    """On flat channels, whatever the privacy bound, thresholds and targets."""
    rng = np.random.default_rng(100 + seed)
    count, bound = int(rng.integers(2, 12)), float(rng.choice([np.inf, 0.3, 0.05]))
    gains, limits, rms = rng.rayleigh(size=count), rng.exponential(size=count), rng.uniform(0.1, 3, count)
    rayleigh = fade_statistics(Rayleigh().law())
    known = {"amplitude_ratio": rayleigh.amplitude_ratio, "survival": rayleigh.survival}
    task = flat_task(gains, limits, rms, 0.5, privacy_bound=bound, most_power=gains.max() ** 2, **known)
    best = mse(task, plan_of("cao", task))
    for name, entry in POLICIES.items():
        if not entry.coherent:
            continue  # its error also has a phase, which `mse` does not know
        if bound < np.inf and not entry.within_beta:
            continue  # it bounds amplitudes instead of beta, and may decode with a larger one
        for given in ({"threshold": 0.05}, {"threshold": 0.5}) if "threshold" in entry().values() else ({},):
            assert best <= mse(task, plan_of(name, task, **given)) * (1 + 1e-12)
    assert best <= mse(task, plan_of("full-inversion", task, coefficient=0.2)) * (1 + 1e-12)


@pytest.mark.parametrize("share", [np.inf, 0.9, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_law_2_on_a_selective_channel(seed: int, share: float) -> None:
    """The least error of all plans in which a device arrives alike on every coefficient; by search over beta, up to a
    privacy bound that is a share of the largest reach. Below the smallest reach, the plan is that of full inversion."""
    rng = np.random.default_rng(200 + seed)
    gains, weights = rng.rayleigh(size=(4, 2, 3)), rng.dirichlet(np.ones(6)).reshape(2, 3)
    limits, rms, noise = rng.exponential(size=4), rng.uniform(0.2, 2, 4), 0.4
    reaches = np.sqrt(limits / (weights / gains**2).sum(axis=(1, 2))) / rms
    bound = share * reaches.max()
    task = PowerTask(gains, weights, limits, rms, noise, bound, np.full(4, 2.0))
    plan = plan_of("cao", task)
    grid = np.geomspace(min(reaches.min(), bound) / 10, min(100 * reaches.max(), bound), 40_000)
    found = min(error_at(beta, reaches, rms, noise) for beta in grid)
    # Steps of the grid are under 0.1%, and the error is flat at its least: second order in the step.
    assert found * (1 - 1e-5) <= mse(task, plan) <= found * (1 + 1e-12)
    low = replace(task, privacy_bound=0.5 * reaches.min())
    np.testing.assert_allclose(plan_of("cao", low).amplitudes, plan_of("full-inversion", low).amplitudes, rtol=1e-12)
    arriving = plan.amplitudes * gains
    np.testing.assert_allclose(arriving, np.broadcast_to(arriving[:, :1, :1], gains.shape))
    for name in ("pfels", "full-inversion", "cotaf"):
        assert mse(task, plan) <= mse(task, plan_of(name, task)) * (1 + 1e-12)


def test_law_3_holds_for_unequal_devices() -> None:
    """The device whose share of the limit is least sets beta; only it uses up its limit on average."""
    kinds = np.array([[1.0, 3.0, 1.0], [1.0, 1.0, 0.5], [1.0, 0.2, 1.0]])
    limits, rms, mean_power = np.repeat(kinds, 2000, axis=1)
    gains = np.sqrt(np.random.default_rng(4).exponential(size=6000) * mean_power)
    task = flat_task(gains, limits, rms, mean_power=mean_power, inverse_power=special.exp1)
    plan = plan_of("truncated-inversion", task, threshold=0.3, average_over="fading")
    receive = kinds[0] * kinds[2] / special.exp1(0.3) / kinds[1] ** 2
    np.testing.assert_allclose(plan.coefficient**2, receive.min())
    energies = (plan.mean_square_amplitudes(task.weights) * rms**2).reshape(3, 2000)
    for energy, expected in zip(energies, kinds[0] * receive.min() / receive, strict=True):
        assert_mean(energy, expected)
