"""Laws 1 to 3 of over-the-air sums: full inversion, Cao's optimum, truncated inversion; by simulation and by search.

Messages, fades and noise are simulated here. Only the amplitudes and beta of a plan are taken from the code.
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, special

from channels.power import POLICIES, PowerPlan, PowerTask, mse
from tests.laws.samples import assert_mean

Array = NDArray[np.float64]
N = 40_000  # simulated symbols, or rounds
FADE = [[1.0, 0.6, 0.3, 0.1], [0.8, 0.8], [2.0, 1e-3, 0.5], [0.05]]


def flat_task(gains: Array, limits: Any = 1.0, rms: Any = 1.0, noise: float = 0.1, **others: Any) -> PowerTask:
    """A task on a flat channel, E|g|^2 = 1."""
    count = len(gains)
    values = {"privacy_bound": np.inf, "mean_power": np.ones(count), **others}
    return PowerTask(
        gains=np.asarray(gains, dtype=np.float64)[:, None, None],
        weights=np.ones((1, 1)),
        energy_limits=np.broadcast_to(np.asarray(limits, dtype=np.float64), count),
        rms_norms=np.broadcast_to(np.asarray(rms, dtype=np.float64), count),
        noise_energy=noise,
        **values,
    )


def plan_of(name: str, task: PowerTask, **parameters: Any) -> PowerPlan:
    return POLICIES[name](**parameters).plan(task)


def squared_errors(task: PowerTask, plan: PowerPlan, rng: np.random.Generator) -> Array:
    """(received/beta - sum_i m_i)^2 of N symbols m_i ~ N(0, rms_i^2), noise of variance noise_energy; flat channel."""
    messages = rng.standard_normal((N, len(task.rms_norms))) * task.rms_norms
    noise = rng.standard_normal(N) * np.sqrt(task.noise_energy)
    received = messages @ (task.gains * plan.amplitudes)[:, 0, 0] + noise
    return np.asarray((received / plan.coefficient[0, 0] - messages.sum(axis=1)) ** 2)


@pytest.mark.parametrize("powers", FADE)
@pytest.mark.parametrize(("limit", "noise"), [(1.0, 0.1), (4.0, 2.5)])
@pytest.mark.parametrize("name", ["pfels", "full-inversion", "per-subcarrier"])
def test_law_1_error_of_full_inversion(name: str, powers: list[float], limit: float, noise: float) -> None:
    """sigma^2/min_k(P_k |h_k|^2)."""
    limits = limit * np.arange(1, len(powers) + 1)
    task = flat_task(np.sqrt(powers), limits, noise=noise)
    plan = plan_of(name, task)
    law = noise / np.min(limits * powers)
    assert mse(task, plan) == pytest.approx(law, rel=1e-12)


def error_at(coefficient: float, reaches: Array, rms: Array, noise: float) -> float:
    """The error of the sum where everybody sends with the best amplitude within reach of beta."""
    missing = np.minimum(reaches / coefficient, 1) - 1
    return float((rms**2 * missing**2).sum() + noise / coefficient**2)


@pytest.mark.parametrize("powers", FADE)
@pytest.mark.parametrize(("limit", "noise"), [(1.0, 0.1), (4.0, 2.5), (1.0, 20.0)])
def test_law_2_formula_for_equal_messages(powers: list[float], limit: float, noise: float) -> None:
    """eta_k = [(sigma^2 + sum_{i<=k} a_i^2)/sum_{i<=k} a_i]^2, least over k; the error of it by simulation."""
    reaches = np.sort(np.sqrt(limit * np.array(powers)))
    eta = min(((noise + (reaches[:k] ** 2).sum()) / reaches[:k].sum()) ** 2 for k in range(1, len(powers) + 1))
    law = (np.sqrt(np.minimum(reaches**2, eta) / eta) - 1) ** 2
    task = flat_task(np.sqrt(powers), limit, noise=noise)
    plan = plan_of("cao", task)
    np.testing.assert_allclose(plan.coefficient**2, eta)
    assert mse(task, plan) == pytest.approx(law.sum() + noise / eta)
    assert_mean(squared_errors(task, plan, np.random.default_rng(2)), law.sum() + noise / eta)


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
    search = optimize.minimize_scalar(  # the error is convex in 1/beta
        lambda inverse: error_at(1 / inverse, reaches, rms, noise),
        bounds=(1e-6, 1 / reaches.min()),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert mse(task, plan) == pytest.approx(search.fun, rel=1e-9)
    assert mse(task, plan) <= search.fun * (1 + 1e-12)
    assert float(plan.coefficient[0, 0]) == pytest.approx(1 / search.x, rel=1e-4)


@pytest.mark.parametrize("cap", [np.inf, 0.2])
def test_law_2_no_amplitudes_are_better(cap: float) -> None:
    """Against a search over beta and all amplitudes at once, under the limits and a privacy bound."""
    gains, limits = np.array([0.3, 1.1, 0.7]), np.array([1.0, 2.0, 0.5])
    rms, noise = np.array([1.0, 0.4, 2.0]), 0.3
    task = flat_task(gains, limits, rms, noise, privacy_bound=cap)

    def error(variables: Array) -> float:
        shares, inverse = variables[:3], variables[3]
        arriving = shares * np.sqrt(limits) / rms * gains
        return float((rms**2 * (arriving * inverse - 1) ** 2).sum() + noise * inverse**2)

    starts = [np.array([0.5, 0.5, 0.5, inverse]) for inverse in (1 / min(cap, 100), 10.0)]
    bounds = [(0, 1)] * 3 + [(1 / cap, 1e3)]
    found = min(optimize.minimize(error, start, bounds=bounds, tol=1e-14).fun for start in starts)
    assert mse(task, plan_of("cao", task)) == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_law_2_no_policy_is_better(seed: int) -> None:
    """On flat channels, whatever the privacy bound, thresholds and targets."""
    rng = np.random.default_rng(100 + seed)
    count = int(rng.integers(2, 12))
    bound = float(rng.choice([np.inf, 0.3, 0.05]))
    task = flat_task(
        rng.rayleigh(size=count), rng.exponential(size=count), rng.uniform(0.1, 3, count), 0.5, privacy_bound=bound
    )
    best = mse(task, plan_of("cao", task))
    for name, entry in POLICIES.items():
        for given in ({"threshold": 0.05}, {"threshold": 0.5}) if "threshold" in entry().values() else ({},):
            assert best <= mse(task, plan_of(name, task, **given)) * (1 + 1e-12)
    assert best <= mse(task, plan_of("full-inversion", task, coefficient=0.2)) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_law_2_on_a_selective_channel(seed: int) -> None:
    """The least error of all plans in which a device arrives alike on every coefficient; by search over beta."""
    rng = np.random.default_rng(200 + seed)
    gains, weights = rng.rayleigh(size=(4, 2, 3)), rng.dirichlet(np.ones(6)).reshape(2, 3)
    limits, rms, noise = rng.exponential(size=4), rng.uniform(0.2, 2, 4), 0.4
    task = PowerTask(gains, weights, limits, rms, noise, np.inf, np.full(4, 2.0))
    plan = plan_of("cao", task)
    reaches = np.sqrt(limits / (weights / gains**2).sum(axis=(1, 2))) / rms
    grid = np.geomspace(reaches.min(), 100 * reaches.max(), 20_000)
    found = min(error_at(beta, reaches, rms, noise) for beta in grid)
    # Steps of the grid are under 0.1%, and the error is flat at its least: second order in the step.
    assert found * (1 - 1e-5) <= mse(task, plan) <= found * (1 + 1e-12)
    arriving = plan.amplitudes * gains
    np.testing.assert_allclose(arriving, np.broadcast_to(arriving[:, :1, :1], gains.shape))
    for name in ("pfels", "full-inversion", "cotaf"):
        assert mse(task, plan) <= mse(task, plan_of(name, task)) * (1 + 1e-12)


def test_law_3_holds_for_unequal_devices() -> None:
    """The device whose share of the limit is least sets beta; only it uses up its limit on average."""
    share, limits, rms = 2000, np.array([1.0, 3.0, 1.0]), np.array([1.0, 1.0, 0.5])
    mean_power = np.array([1.0, 0.2, 1.0])
    rng = np.random.default_rng(4)
    spread = [np.repeat(values, share) for values in (limits, rms, mean_power)]
    gains = np.sqrt(rng.exponential(size=3 * share) * spread[2])
    task = flat_task(gains, spread[0], spread[1], mean_power=spread[2], inverse_power=special.exp1)
    plan = plan_of("truncated-inversion", task, threshold=0.3, average_over="fading")
    receive = limits * mean_power / special.exp1(0.3) / rms**2
    np.testing.assert_allclose(plan.coefficient**2, receive.min())
    energies = (plan.mean_square_amplitudes(task.weights) * spread[1] ** 2).reshape(3, share)
    for energy, limit, mean in zip(energies, limits, receive, strict=True):
        assert_mean(energy, limit * receive.min() / mean)
