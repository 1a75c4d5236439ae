"""Each power policy: active devices, amplitudes, what determines beta, and errors."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from channels.power import POLICIES, PowerPlan, PowerTask, back_off, mse
from channels.power.truncated import TruncatedInversion
from tests.refusals import one_line

Array = NDArray[np.float64]
# Those that know the channels and align to beta, or below. Others: test_blind..., test_power_from_statistics.py.
KNOWING = [name for name, entry in POLICIES.items() if entry.coherent and entry.within_beta]
every_policy = pytest.mark.parametrize("name", KNOWING)
NOT_FINITE = (math.nan, math.inf)
COMMON = [name for name in KNOWING if not POLICIES[name].per_coefficient]
MEAN_GAINS = np.array([[[2.0, 1.0]], [[4.0, 3.0]]])


def task_of(gains: Any, weights: Any = None, limits: Any = 1.0, rms: Any = 1.0, **others: Any) -> PowerTask:
    """A task; gains [devices] are flat; equal weights, unit limits and norms, no privacy bound unless given."""
    gains = np.asarray(gains, dtype=np.float64)
    gains = gains[:, None, None] if gains.ndim == 1 else gains
    count, cells = len(gains), gains.shape[1:]
    values = {"noise_energy": 0.1, "privacy_bound": np.inf, "mean_power": np.ones(count), **others}
    return PowerTask(
        gains=gains,
        weights=np.full(cells, 1 / np.prod(cells)) if weights is None else np.asarray(weights, dtype=np.float64),
        energy_limits=np.broadcast_to(np.asarray(limits, dtype=np.float64), count),
        rms_norms=np.broadcast_to(np.asarray(rms, dtype=np.float64), count),
        **values,
    )


def plan_of(name: str, task: PowerTask, **parameters: Any) -> PowerPlan:
    return POLICIES[name](**parameters).plan(task)


def beta(plan: PowerPlan) -> float:
    assert plan.coefficient.shape == (1, 1)
    return float(plan.coefficient[0, 0])


def binding(plan: PowerPlan) -> tuple[bool, bool]:
    """Whether the power limits bind, and whether the privacy bound does."""
    return plan.power_bound_binding, plan.privacy_bound_binding


SELECTIVE = np.array([[[1.0, 0.5]], [[0.25, 2.0]]])  # two devices, one block, two subcarriers


def test_one_beta_over_a_selective_channel() -> None:
    """sum_w w/|g|^2 by hand: .5 (1 + 4) = 2.5 and .5 (16 + .25) = 8.125; weights say where the energy goes."""
    task = task_of(SELECTIVE, limits=[1.0, 9.0], rms=[1.0, 2.0])
    plan = plan_of("pfels", task)
    assert beta(plan) == pytest.approx(min(1 / np.sqrt(2.5), 3 / (2 * np.sqrt(8.125))))
    np.testing.assert_allclose(plan.amplitudes * SELECTIVE, np.full((2, 1, 2), beta(plan)))
    np.testing.assert_allclose(plan.mean_square_amplitudes(task.weights)[1] * 4, 9.0)
    weighted = plan_of("pfels", task_of(SELECTIVE[:1], weights=[[0.8, 0.2]]))
    assert beta(weighted) == pytest.approx(1 / np.sqrt(0.8 + 0.2 * 4))


@every_policy
def test_a_coefficient_that_nothing_falls_on_neither_counts_nor_costs(name: str) -> None:
    gains = np.concatenate([SELECTIVE, np.array([[[1e-6]], [[0.0]]])], axis=2)
    with_it = plan_of(name, task_of(gains, weights=[[0.5, 0.5, 0.0]]))
    without = plan_of(name, task_of(SELECTIVE))
    np.testing.assert_array_equal(with_it.amplitudes[..., :2], without.amplitudes)
    np.testing.assert_array_equal(with_it.amplitudes[..., 2], 0)
    np.testing.assert_array_equal(with_it.coefficient[:, :2], without.coefficient)
    assert np.all(np.isfinite(with_it.coefficient) & (with_it.coefficient > 0))


def test_blind_sends_with_one_amplitude_whatever_the_channel() -> None:
    """alpha = min(sqrt(4)/2, sqrt(9)/1) = 1; beta on each subcarrier alpha times the mean of (2, 4) and of (1, 3). The
    privacy bound over the largest gain, 2; who has no energy is silent and does not count."""
    task = task_of(SELECTIVE, limits=[4.0, 9.0], rms=[2.0, 1.0], mean_gains=MEAN_GAINS)
    plan = plan_of("blind", task)
    np.testing.assert_array_equal(plan.amplitudes, np.ones((2, 1, 2)))
    np.testing.assert_array_equal(plan.coefficient, [[3.0, 2.0]])
    assert binding(plan) == (True, False)
    bounded = plan_of("blind", replace(task, privacy_bound=0.5))
    np.testing.assert_array_equal(bounded.amplitudes, np.full((2, 1, 2), 0.25))
    np.testing.assert_array_equal(bounded.coefficient, [[0.75, 0.5]])
    assert binding(bounded) == (False, True)
    silent = plan_of("blind", replace(task, energy_limits=np.array([0.0, 9.0])))
    np.testing.assert_array_equal(silent.amplitudes, [[[0.0, 0.0]], [[3.0, 3.0]]])
    np.testing.assert_array_equal(silent.coefficient, [[12.0, 9.0]])
    with pytest.raises(ValueError, match=one_line("needs a combiner whose mean gain is known")):
        plan_of("blind", task_of(SELECTIVE))


def test_full_inversion_silences_who_cannot_reach_the_coefficient_asked_for() -> None:
    task = task_of([0.5, 0.2, 0.1], limits=[1.0, 1.0, 9.0])
    plan = plan_of("full-inversion", task, coefficient=0.3)
    assert beta(plan) == 0.3
    np.testing.assert_array_equal(plan.active, [True, False, True])  # reaches .5, .2, .3
    np.testing.assert_allclose(plan.amplitudes[:, 0, 0], [0.6, 0, 3])
    assert binding(plan) == (False, False)
    capped = plan_of("full-inversion", replace(task, privacy_bound=0.15), coefficient=0.3)
    assert beta(capped) == 0.15
    assert capped.active.all()
    assert binding(capped) == (False, True)


def test_truncation_spares_the_weak_coefficients() -> None:
    """Thresholds .1: |g|^2 = .0625 of mean 1 is not used; .25 of mean 4 is not either, 1 is."""
    task = task_of(SELECTIVE * np.array([2.0, 1.0])[:, None, None], mean_power=np.array([4.0, 1.0]))
    plan = plan_of("truncated-inversion", task, threshold=0.3)
    assert beta(plan) == pytest.approx(min(2 / np.sqrt(0.5), 2 / np.sqrt(0.5)))
    np.testing.assert_allclose(plan.amplitudes[:, 0], beta(plan) / np.array([[2.0, np.inf], [np.inf, 2.0]]))
    np.testing.assert_allclose(plan.mean_square_amplitudes(task.weights), [1, 1])
    assert (plan.amplitudes[0, 0, 1], plan.amplitudes[1, 0, 0]) == (0, 0)


def test_truncation_of_some_devices_and_a_target() -> None:
    """At the threshold a coefficient is used."""
    plan = plan_of("truncated-inversion", task_of([0.5, 0.4999]), threshold=0.25)
    assert (plan.active.tolist(), beta(plan)) == ([True, False], 0.5)
    plan = plan_of("truncated-inversion", task_of([2.0, 1.0, 0.6, 0.1]), threshold=0.2, coefficient=0.8)
    # A reach of .6, and below the threshold.
    assert (plan.active.tolist(), beta(plan)) == ([True, True, False, False], 0.8)


def test_truncation_on_average_over_fading() -> None:
    """beta is the same whoever fades; a target silences those whose mean energy would exceed the limit, and a threshold
    that is never reached everybody."""

    def plan_over_fading(gains: list[float], law: Any = special.exp1, **parameters: Any) -> PowerPlan:
        task = task_of(gains, limits=[1.0, 4.0], inverse_power=law)
        return plan_of("truncated-inversion", task, average_over="fading", **{"threshold": 0.5, **parameters})

    first, second = plan_over_fading([1.0, 0.1]), plan_over_fading([3.0, 2.0])
    assert beta(first) == beta(second) == pytest.approx(1 / np.sqrt(special.exp1(0.5)))
    assert first.active.tolist() == [True, False]
    asked = plan_over_fading([3.0, 2.0], coefficient=1.5 / np.sqrt(special.exp1(0.5)))
    assert asked.active.tolist() == [False, True]
    never = plan_over_fading([1.0, 2.0], lambda threshold: 0.0, threshold=9.0)
    assert (never.active.tolist(), beta(never)) == ([False, False], 1.0)


@pytest.mark.parametrize(("bound", "expected"), [(np.inf, 1.0), (0.3, 0.3), (40.0, 40.0)])
@pytest.mark.parametrize("name", ["truncated-inversion", "per-subcarrier-truncated"])
def test_where_nobody_sends_beta_is_finite(name: str, bound: float, expected: float) -> None:
    plan = plan_of(name, task_of(SELECTIVE, privacy_bound=bound), threshold=100.0)
    assert not plan.active.any()
    np.testing.assert_array_equal(plan.coefficient, np.full(plan.coefficient.shape, expected))
    assert binding(plan) == (False, bound < np.inf)


def test_under_cao_the_weak_send_at_full_power() -> None:
    task = task_of(SELECTIVE, limits=[1.0, 0.01], rms=[1.0, 2.0], noise_energy=0.01)
    plan = plan_of("cao", task)
    energies = plan.mean_square_amplitudes(task.weights) * task.rms_norms**2
    assert energies[0] < 1
    assert energies[1] == pytest.approx(0.01)
    arriving = plan.amplitudes * SELECTIVE
    np.testing.assert_allclose(arriving[1], np.full((1, 2), 0.1 / 2 / np.sqrt(8.125)))
    np.testing.assert_allclose(arriving[0], np.full((1, 2), beta(plan)))


def test_under_cao_a_privacy_bound_leaves_inversion_to_who_reaches_it() -> None:
    """And without noise it is full inversion."""
    task = task_of(np.sqrt([1.0, 0.6, 0.3, 0.1]), privacy_bound=0.4)
    plan = plan_of("cao", task)
    assert beta(plan) == 0.4
    assert binding(plan) == (False, True)
    np.testing.assert_allclose((plan.amplitudes * task.gains)[:, 0, 0], [0.4, 0.4, 0.4, np.sqrt(0.1)])
    quiet = task_of(SELECTIVE, noise_energy=0.0)
    assert beta(plan_of("cao", quiet)) == pytest.approx(beta(plan_of("full-inversion", quiet)))


def test_cotaf_scales_by_the_largest_norm_and_the_floor() -> None:
    """h_min = sqrt(.25 E|g|^2) = .5 and 1: beta = min(.5 sqrt(4), 1 sqrt(9))/2 whatever this round's gains are; without
    a floor their gains do; a selective channel's effective gains are 1/sqrt(2.5) = .632 and 1/sqrt(8.125) = .351."""
    limits, norms, power = np.array([4.0, 9.0]), np.array([1.0, 2.0]), np.array([1.0, 4.0])
    for gains, active in (([0.6, 0.9], [True, False]), ([0.5, 1.0], [True, True]), ([0.4, 0.1], [False, False])):
        task = task_of(gains, limits=limits, rms=norms, mean_power=power)
        plan = plan_of("cotaf", task, threshold=0.25)
        assert beta(plan) == pytest.approx(0.5)
        np.testing.assert_allclose(plan.amplitudes[:, 0, 0], 0.5 / np.array(gains) * active)
    plan = plan_of("cotaf", task_of([0.6, 0.9], limits=limits, rms=norms))
    assert (beta(plan), plan.active.all()) == (pytest.approx(min(0.6 * 2, 0.9 * 3) / 2), True)
    same = task_of([0.6, 0.9], limits=limits, rms=2.0)
    assert beta(plan_of("cotaf", same)) == beta(plan_of("full-inversion", same))
    plan = plan_of("cotaf", task_of(SELECTIVE), threshold=0.36)
    assert (plan.active.tolist(), beta(plan)) == ([True, False], pytest.approx(0.6))


def test_per_subcarrier_each_has_its_own_beta() -> None:
    task = task_of(SELECTIVE, limits=[1.0, 4.0], rms=[1.0, 0.5])  # reaches 1, .5 and 1, 8
    plan = plan_of("per-subcarrier", task)
    np.testing.assert_allclose(plan.coefficient, [[1.0, 0.5]])
    np.testing.assert_allclose(plan.amplitudes, plan.coefficient / SELECTIVE)
    assert binding(plan) == (True, False)
    both = plan_of("per-subcarrier", replace(task, privacy_bound=0.7))
    np.testing.assert_allclose(both.coefficient, [[0.7, 0.5]])
    assert binding(both) == (True, True)
    capped = plan_of("per-subcarrier", replace(task, privacy_bound=0.2))
    assert binding(capped) == (False, True)


def test_per_subcarrier_truncation() -> None:
    """|g|^2 >= .3: device 0 on coefficient 0, device 1 on coefficient 1, nobody on coefficient 2."""
    gains = np.concatenate([SELECTIVE, np.full((2, 1, 1), 0.1)], axis=2)
    for bound in (np.inf, 5.0):
        task = task_of(gains, limits=[1.0, 0.01], privacy_bound=bound)
        plan = plan_of("per-subcarrier-truncated", task, threshold=0.3)
        np.testing.assert_allclose(plan.coefficient, [[1.0, 0.2, 1.0]])  # where nobody sends, the largest of the others
        np.testing.assert_allclose(plan.amplitudes[:, 0], [[1.0, 0, 0], [0, 0.1, 0]])
        assert binding(plan) == (True, False)
    capped = plan_of("per-subcarrier-truncated", replace(task, privacy_bound=0.5), threshold=0.3)
    np.testing.assert_allclose(capped.coefficient, [[0.5, 0.2, 0.5]])
    lowered = back_off(capped, np.ones(2), np.array([0.04, 1.0]))  # .5 to .2; what nobody uses binds nobody
    np.testing.assert_allclose(lowered.coefficient, [[0.2, 0.2, 0.5]])
    assert binding(lowered) == (True, False)


@every_policy
@pytest.mark.parametrize("bound", [0.3, np.inf])
def test_without_devices_beta_is_the_privacy_bound(name: str, bound: float) -> None:
    plan = plan_of(name, task_of(np.empty((0, 1, 2)), privacy_bound=bound))
    assert plan.amplitudes.shape == (0, 1, 2)
    assert np.all(plan.coefficient == bound)
    assert binding(plan) == (False, bound < np.inf)


@every_policy
def test_who_cannot_be_heard_is_silent_and_sets_nothing(name: str) -> None:
    """A gain of 0, and a limit of 0; who has nothing to say sets nothing either."""
    plan = plan_of(name, task_of([0.0, 0.5, 0.4], limits=[1.0, 1.0, 0.0]))
    assert plan.active.tolist() == [False, True, False]
    np.testing.assert_allclose(plan.coefficient, [[0.5 if name != "cao" else (0.1 + 0.25) / 0.5]])
    nobody = plan_of(name, task_of([0.0, 0.0]))
    assert (nobody.active.tolist(), nobody.coefficient.tolist()) == ([False, False], [[1.0]])
    silent = plan_of(name, task_of([0.01, 0.5], rms=[0.0, 2.0]))
    expected = {"cotaf": 0.01 / 2, "cao": (0.1 + 4 * 0.25**2) / (4 * 0.25)}.get(name, 0.25)
    np.testing.assert_allclose(silent.coefficient, [[expected]])
    np.testing.assert_allclose(plan_of(name, task_of([0.01, 0.5], rms=0.0)).coefficient, [[1.0]])
    powerless = plan_of(name, task_of([0.01, 0.5], limits=[0.0, 1.0], rms=0.0))
    assert powerless.active.tolist() == [False, True]


@pytest.mark.parametrize("name", COMMON)
def test_one_beta_cannot_be_had_over_a_gain_of_0(name: str) -> None:
    """Device 1 would have to invert it; the other goes on as if alone."""
    task = task_of([[[1.0, 0.5]], [[2.0, 0.0]]])
    plan, alone = plan_of(name, task), plan_of(name, task_of(SELECTIVE[:1]))
    np.testing.assert_array_equal(plan.active, [True, False])
    np.testing.assert_allclose(plan.coefficient, alone.coefficient)


def test_on_coefficients_of_their_own_a_gain_of_0_silences_there_only() -> None:
    plan = plan_of("per-subcarrier", task_of([[[1.0, 0.5]], [[0.25, 0.0]]]))
    np.testing.assert_allclose(plan.coefficient, [[0.25, 0.5]])
    np.testing.assert_allclose(plan.amplitudes[:, 0], [[0.25, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e100])
@every_policy
def test_gains_of_any_size(name: str, scale: float) -> None:
    plan = plan_of(name, task_of(SELECTIVE))
    scaled = plan_of(name, task_of(SELECTIVE * scale, noise_energy=0.1 * scale**2))
    np.testing.assert_allclose(scaled.coefficient / scale, plan.coefficient, rtol=1e-9)


def test_the_error_of_a_sum_by_hand() -> None:
    """Device 1 arrives with half of beta on its first coefficient and not at all on its second."""
    task = task_of(SELECTIVE, rms=[1.0, 3.0], weights=[[0.4, 0.6]], noise_energy=0.5)
    plan = PowerPlan(np.array([[[2.0, 8.0]], [[4.0, 0.0]]]), np.array([[2.0, 4.0]]), False, False)
    assert mse(task, plan) == pytest.approx(9 * (0.4 * 0.25 + 0.6) + 0.5 * (0.4 / 4 + 0.6 / 16))


def test_a_peak_limit_takes_the_place_of_the_privacy_bound() -> None:
    """A plan within it stays as it is."""
    plan = plan_of("pfels", task_of([0.5], privacy_bound=0.1))
    assert binding(plan) == (False, True)
    assert binding(back_off(plan, np.ones(1), np.array([0.01]))) == (True, False)
    assert back_off(plan, np.ones(1), np.array([0.2**2])) is plan
    assert back_off(plan, np.zeros(1), np.array([1e-9])) is plan
    nobody = plan_of("pfels", task_of(np.empty(0), privacy_bound=0.1))
    assert back_off(nobody, np.empty(0), np.empty(0)) is nobody
    for bound, peak, words in ((1.0, 0.0, "must be positive, got 0"), (np.inf, 1.0, "clip")):
        with pytest.raises(ValueError, match=words):
            back_off(plan, np.array([bound]), np.array([peak]))


def test_a_peak_limit_lowers_each_coefficient_by_itself_where_each_has_its_own() -> None:
    plan = plan_of("per-subcarrier", task_of(SELECTIVE, privacy_bound=0.3))  # amplitudes .25, .6 and 1, .15
    np.testing.assert_allclose(plan.coefficient, [[0.25, 0.3]])
    first = back_off(plan, np.ones(2), np.array([1.0, 0.25]))
    np.testing.assert_allclose(first.coefficient, [[0.125, 0.3]])
    np.testing.assert_allclose(first.amplitudes[:, 0], [[0.125, 0.6], [0.5, 0.15]])
    assert binding(first) == (True, True)
    second = back_off(plan, np.ones(2), np.array([0.09, 1.0]))
    np.testing.assert_allclose(second.coefficient, [[0.25, 0.15]])
    assert binding(second) == (True, False)


@every_policy
def test_a_policy_runs_with_its_defaults(name: str) -> None:
    policy = POLICIES[name]()
    assert policy.source
    assert policy.truncates or not {"threshold", "coefficient"} & policy.values().keys()
    assert policy.one_by_one or not policy.announces


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("pfel", {}, "full-inversion"),
        ("truncated-inversion", {"threshold": -0.1}, "threshold must be ... -0.1"),
        ("truncated-inversion", {"average_over": "run"}, "'round' or 'fading', got 'run'"),
        *(("truncated-inversion", {"threshold": one}, f"threshold must be finite, got {one}") for one in NOT_FINITE),
        *(("full-inversion", {"coefficient": one}, f"coefficient must be finite, got {one}") for one in NOT_FINITE),
        *(("full-inversion", {"coefficient": one}, f"coefficient must be ... {one}") for one in (0.0, -1.0)),
        *((name, {"threshold": 0.1}, "has no threshold ... cotaf") for name in ("pfels", "cao", "full-inversion")),
        ("cao", {"coefficient": 0.1}, "has no coefficient ... full-inversion"),
        ("cotaf", {"average_over": "fading"}, "has no average_over ... truncated-inversion"),
    ],
)
def test_parameters_that_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=one_line(*words.split(" ... "))):
        POLICIES.build({"name": name, **parameters})


def test_infinite_mean_power_is_refused() -> None:
    fading = TruncatedInversion(average_over="fading")
    fading.check_fades(lambda threshold: 1.0)  # a constant gain
    replace(fading, threshold=0.1).check_fades(special.exp1)
    TruncatedInversion().check_fades(special.exp1)
    with pytest.raises(ValueError, match="above 0"):
        fading.check_fades(special.exp1)
    with pytest.raises(ValueError, match="above 0"):
        fading.plan(task_of([1.0], inverse_power=special.exp1))
    with pytest.raises(ValueError, match="not known"):
        replace(fading, threshold=0.1).plan(task_of([1.0]))
