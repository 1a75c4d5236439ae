"""Properties of every power policy for any channels, limits, messages and parameters."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from numpy.typing import NDArray

from channels.power import POLICIES, Policy, PowerPlan, PowerTask, align, back_off, check_plan, mse

Array = NDArray[np.float64]
thorough = settings(derandomize=True, max_examples=30, deadline=None)
ROUNDING = 1e-12
MOST = 6  # devices


def positive(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers of all sizes between two positive ones."""
    return st.floats(np.log10(low), np.log10(high)).map(lambda exponent: float(10**exponent))


def several(shape: Any, low: float, high: float) -> st.SearchStrategy[Array]:
    return arrays.arrays(np.float64, shape, elements=positive(low, high))


@st.composite
def tasks(draw: st.DrawFn, flat: bool = False) -> PowerTask:
    """One to MOST devices on up to three blocks and four subcarriers, of which nothing may fall on some."""
    devices = draw(st.integers(1, MOST))
    cells = (1, 1) if flat else (draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    weights = draw(arrays.arrays(np.float64, cells, elements=st.sampled_from([0.0, 1.0, 2.0, 0.3])))
    assume(weights.sum() > 0)
    return PowerTask(
        gains=draw(several((devices, *cells), 1e-3, 10)),
        weights=weights / weights.sum(),
        energy_limits=draw(several(devices, 1e-3, 1e3)),
        rms_norms=draw(several(devices, 1e-2, 1e2)),
        noise_energy=draw(positive(1e-3, 1e3)),
        privacy_bound=draw(st.one_of(st.just(np.inf), positive(1e-4, 1e2))),
        mean_power=draw(several(devices, 1e-2, 10)),
    )


@st.composite
def asked(draw: st.DrawFn) -> dict[str, Any]:
    """A threshold, a target or neither; limits hold in every round."""
    threshold = draw(st.one_of(st.just(0.0), positive(1e-3, 3)))
    return {"threshold": threshold, "coefficient": draw(st.one_of(st.none(), positive(1e-3, 10)))}


def every_policy(parameters: dict[str, Any]) -> Iterator[Policy]:
    """The policies whose devices know their channels and arrive with beta at most, each with those of the parameters
    that it has. The others are in test_power_from_statistics.py."""
    for name, policy in POLICIES.items():
        if not (policy.coherent and policy.within_beta):
            continue
        note(name)
        yield policy(**{key: value for key, value in parameters.items() if key in policy().values()})


def plan_of(policy: Policy, task: PowerTask) -> PowerPlan:
    """Which every policy of the package keeps as a user's own has to."""
    plan = policy.plan(task)
    check_plan(policy, task, plan)
    return plan


def same_plan(plan: PowerPlan, expected: PowerPlan, scale: float = 1.0) -> None:
    """Equal up to rounding, beta times a scale."""
    np.testing.assert_allclose(plan.coefficient, expected.coefficient * scale, rtol=1e-9)
    np.testing.assert_allclose(plan.amplitudes, expected.amplitudes, rtol=1e-9)


@thorough
@given(task=tasks(), parameters=asked())
def test_what_every_plan_keeps_to(task: PowerTask, parameters: dict[str, Any]) -> None:
    """Its bounds, of which one is reached; who sends arrives with beta, or with less under Cao's policy, and then at
    full power."""
    for heeded in every_policy(parameters):
        plan, name = plan_of(heeded, task), heeded.name
        assert plan.amplitudes.shape == task.gains.shape
        assert np.all(np.isfinite(plan.amplitudes) & (plan.amplitudes >= 0))
        assert plan.coefficient.shape == (task.weights.shape if heeded.per_coefficient else (1, 1))
        assert np.all(np.isfinite(plan.coefficient) & (plan.coefficient > 0))
        assert np.all(plan.coefficient <= min(task.privacy_bound, heeded.target or np.inf))
        energies = plan.mean_square_amplitudes(task.weights) * task.rms_norms**2
        assert np.all(energies <= task.energy_limits * (1 + ROUNDING))
        if heeded.per_coefficient:
            anywhere = (plan.amplitudes.max(axis=(1, 2)) * task.rms_norms) ** 2
            assert np.all(anywhere <= task.energy_limits * (1 + ROUNDING))
        arriving, sends = task.gains * plan.amplitudes / plan.coefficient, plan.amplitudes > 0
        if name != "cao":
            np.testing.assert_allclose(arriving[sends], 1, rtol=1e-9)
        else:
            assert np.all(arriving <= 1 + 1e-9)
            weak = (arriving < 1 - 1e-9).any(axis=(1, 2), where=task.weights > 0)
            np.testing.assert_allclose(energies[weak], task.energy_limits[weak], rtol=1e-9)
        if not heeded.truncates:
            assert np.array_equal(sends, np.broadcast_to(task.weights > 0, sends.shape))
        if name != "cotaf":
            assert not np.any(sends & (task.gains**2 < heeded.least_power * task.mean_power[:, None, None]))
        if plan.privacy_bound_binding:
            assert plan.coefficient.max() == task.privacy_bound
        if heeded.target is not None:
            assert not plan.power_bound_binding
        elif plan.active.any():
            assert plan.power_bound_binding or plan.privacy_bound_binding
            if not heeded.per_coefficient:
                assert plan.privacy_bound_binding == (plan.coefficient[0, 0] == task.privacy_bound)
        if plan.power_bound_binding and name in ("pfels", "full-inversion", "truncated-inversion"):
            assert np.max(energies / task.energy_limits) == pytest.approx(1)


@thorough
@given(task=tasks(), parameters=asked(), shuffle=st.permutations(range(MOST)))
def test_the_order_of_devices_does_not_matter(task: PowerTask, parameters: dict[str, Any], shuffle: list[int]) -> None:
    order = np.array([device for device in shuffle if device < len(task.gains)])
    of_devices = ("gains", "energy_limits", "rms_norms", "mean_power")
    shuffled = replace(task, **{name: getattr(task, name)[order] for name in of_devices})
    for heeded in every_policy(parameters):
        plan = plan_of(heeded, task)
        same_plan(plan_of(heeded, shuffled), replace(plan, amplitudes=plan.amplitudes[order]))


@thorough
@given(task=tasks(), parameters=asked(), exponent=st.integers(-20, 20))
def test_beta_scales_with_the_gains(task: PowerTask, parameters: dict[str, Any], exponent: int) -> None:
    """All gains, the privacy bound, a target and the root of the noise times c (a power of 2, so that nothing rounds
    across a threshold): beta is c times as large, amplitudes are the same."""
    scale = 2.0**exponent
    factors = {"gains": scale, "privacy_bound": scale, "mean_power": scale**2, "noise_energy": scale**2}
    scaled = replace(task, **{name: getattr(task, name) * factor for name, factor in factors.items()})
    for heeded in every_policy(parameters):
        plan = plan_of(heeded, task)
        if not (plan.active.any() or np.isfinite(task.privacy_bound) or heeded.target):
            continue  # nobody sends and nothing bounds beta: it is 1 at any scale
        target = heeded.target and heeded.target * scale
        aimed = replace(heeded, coefficient=target) if target else heeded
        same_plan(plan_of(aimed, scaled), plan, scale)


@thorough
@given(task=tasks(flat=True), parameters=asked(), shape=st.tuples(st.integers(1, 3), st.integers(1, 4)))
def test_a_flat_channel_may_be_written_out(task: PowerTask, parameters: dict[str, Any], shape: tuple[int, int]) -> None:
    """Over any blocks and subcarriers, unless rounding takes a device across a target or a floor."""
    gains = task.gains[:, 0, 0]
    reaches = gains * np.sqrt(task.energy_limits) / task.rms_norms
    assume(not np.any(np.isclose(reaches, parameters["coefficient"] or np.inf, rtol=1e-9)))
    assume(not np.any(np.isclose(gains**2 / task.mean_power, parameters["threshold"], rtol=1e-9, atol=0)))
    written_out = np.broadcast_to(task.gains, (len(gains), *shape))
    spread = replace(task, gains=written_out, weights=np.full(shape, 1 / np.prod(shape)))
    for heeded in every_policy(parameters):
        plan, written = plan_of(heeded, task), plan_of(heeded, spread)
        np.testing.assert_allclose(written.coefficient, np.broadcast_to(plan.coefficient, written.coefficient.shape))
        np.testing.assert_allclose(written.amplitudes, np.broadcast_to(plan.amplitudes, written.amplitudes.shape))
        assert mse(spread, written) == pytest.approx(mse(task, plan))


@thorough
@given(task=tasks(flat=True))
def test_inversion_policies_agree_on_flat_channels(task: PowerTask) -> None:
    alignment = align(task.gains[:, 0, 0], task.energy_limits, task.rms_norms, task.privacy_bound)
    for name in ("pfels", "full-inversion", "truncated-inversion", "per-subcarrier", "per-subcarrier-truncated"):
        plan = plan_of(POLICIES[name](), task)
        np.testing.assert_array_equal(plan.coefficient, [[alignment.coefficient]])
        np.testing.assert_array_equal(plan.amplitudes, alignment.coefficient / task.gains * (task.weights > 0))
        assert plan.power_bound_binding == alignment.power_bound_binding
        assert plan.privacy_bound_binding == alignment.privacy_bound_binding


@thorough
@given(task=tasks(), parameters=asked(), factors=several(MOST, 1, 100))
def test_more_power_is_never_worse(task: PowerTask, parameters: dict[str, Any], factors: Array) -> None:
    """A larger limit never lowers beta under inversion (Cao's optimum may fall), nor raises the error."""
    raised = task.energy_limits * factors[: len(task.gains)]
    for heeded in every_policy(parameters):
        before, after = plan_of(heeded, task), plan_of(heeded, replace(task, energy_limits=raised))
        if heeded.name != "cao":
            assert np.all(after.coefficient >= before.coefficient)
            assert np.all(after.active >= before.active)
        assert mse(task, after) <= mse(task, before) * (1 + 1e-9)


@thorough
@given(task=tasks(), parameters=asked(), entries=several((2, MOST), 1e-3, 10))
def test_a_peak_limit_is_kept(task: PowerTask, parameters: dict[str, Any], entries: Array) -> None:
    bounds, peaks = entries[:, : len(task.gains)]
    for heeded in every_policy(parameters):
        plan = plan_of(heeded, task)
        lowered = back_off(plan, bounds, peaks)
        worst = (lowered.amplitudes.max(axis=(1, 2)) * bounds) ** 2
        assert np.all(worst <= peaks * (1 + ROUNDING))
        assert np.all(lowered.coefficient > 0)
        assert np.all(lowered.coefficient <= plan.coefficient)
        np.testing.assert_allclose(lowered.amplitudes / lowered.coefficient, plan.amplitudes / plan.coefficient)
        if np.any(lowered.coefficient < plan.coefficient):
            assert lowered.power_bound_binding
            assert np.max(worst / peaks) == pytest.approx(1)
        else:
            assert lowered is plan
