"""Policies by statistics and of correlated messages: their bounds, and devices that cannot send; refusals of a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import airfl
from airfl.analysis.budget import link_budget
from airfl.config import load_settings
from airfl.core.building import build_scenario
from airfl.errors import UserError
from channels.fading import Fixed, Rayleigh, bounded, fade_statistics
from channels.power import POLICIES, PowerPlan, PowerTask, check_plan
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import LOGISTIC, run

Array = NDArray[np.float64]
RAYLEIGH = fade_statistics(bounded(Rayleigh().law(), 0.05, 2.0, "clip"))
CASES = [
    *(("statistical", {"objective": one}) for one in ("unbiased", "mean-power", "least-error")),
    *(
        ("statistical-truncation", {"prescalers": one})
        for one in ("least-error", "unbiased", "least-noise", "least-noise-unbiased")
    ),
    *(("correlated", {"common_share": one}) for one in (0.0, 0.5, 0.99)),
]
every_case = pytest.mark.parametrize(("name", "parameters"), CASES)


def task_of(gains: Array, seed: int = 0, **others: Any) -> PowerTask:
    """Unequal limits, messages and mean powers; the law of fading is Rayleigh between 0.05 and 2 times its mean."""
    rng, count, cells = np.random.default_rng(seed), len(gains), gains.shape[1:]
    weights = rng.random(cells)
    given = {
        "weights": weights / weights.sum(),
        "energy_limits": rng.exponential(size=count),
        "rms_norms": rng.uniform(0.3, 2, count),
        "noise_energy": 0.1,
        "privacy_bound": np.inf,
        "mean_power": rng.uniform(0.5, 2, count),
        "amplitude_ratio": RAYLEIGH.amplitude_ratio,
        "survival": RAYLEIGH.survival,
        "most_power": RAYLEIGH.most_power,
        **others,
    }
    return PowerTask(gains=gains, **given)


def drawn(count: int, cells: tuple[int, int] = (1, 1), seed: int = 0, **others: Any) -> PowerTask:
    """A task whose gains are within the law."""
    rng = np.random.default_rng([seed, 1])
    task = task_of(np.ones((count, *cells)), seed, **others)
    fades = np.clip(rng.rayleigh(size=task.gains.shape), 0.1, np.sqrt(RAYLEIGH.most_power))
    return replace(task, gains=np.sqrt(task.mean_power)[:, None, None] * fades)


def plan_of(name: str, parameters: dict[str, Any], task: PowerTask) -> PowerPlan:
    policy = POLICIES[name](**parameters)
    plan = policy.plan(task)
    check_plan(policy, task, plan)
    return plan


@every_case
@pytest.mark.parametrize("bound", [np.inf, 0.3, 1e-3])
def test_limits_and_the_privacy_bound_are_kept_and_one_is_reached(name: str, parameters: Any, bound: float) -> None:
    """`check_plan` tests both as of a user's policy. Whatever the gains of the law are, not only those at present."""
    for seed in range(6):
        task = drawn(5, (1, 1) if seed % 2 else (2, 3), seed, privacy_bound=bound)
        plan = plan_of(name, parameters, task)
        if not POLICIES[name].knows_gains:
            largest = np.sqrt(RAYLEIGH.most_power * task.mean_power)[:, None, None] * plan.amplitudes
            assert largest.max() <= bound * (1 + 1e-9)
        assert plan.power_bound_binding or plan.privacy_bound_binding
        if bound == np.inf:
            assert not plan.privacy_bound_binding
        if bound == 1e-3:
            assert plan.privacy_bound_binding


@every_case
def test_beta_scales_with_the_gains_and_devices_have_no_order(name: str, parameters: Any) -> None:
    task = drawn(4, seed=3)
    plan = plan_of(name, parameters, task)
    scaled = replace(task, gains=8 * task.gains, mean_power=64 * task.mean_power, noise_energy=64 * task.noise_energy)
    louder = plan_of(name, parameters, scaled)
    np.testing.assert_allclose(louder.coefficient, 8 * plan.coefficient, rtol=1e-6)
    np.testing.assert_allclose(louder.amplitudes, plan.amplitudes, rtol=1e-6)
    order = np.array([2, 0, 3, 1])
    of_devices = ("gains", "energy_limits", "rms_norms", "mean_power")
    turned = plan_of(name, parameters, replace(task, **{key: getattr(task, key)[order] for key in of_devices}))
    np.testing.assert_allclose(turned.amplitudes, plan.amplitudes[order], rtol=1e-6)


@every_case
def test_who_cannot_send_is_silent_and_nobody_leaves_the_privacy_bound(name: str, parameters: Any) -> None:
    """A limit of 0, all limits 0, no devices, and no messages."""
    task = drawn(3, seed=1)
    silent = plan_of(name, parameters, replace(task, energy_limits=task.energy_limits * [1, 0, 1]))
    assert not silent.active[1]
    for bound, beta in ((np.inf, 1.0), (0.3, 0.3)):
        powerless = replace(task, energy_limits=np.zeros(3), privacy_bound=bound)
        plan = plan_of(name, parameters, powerless)
        assert (plan.active.any(), plan.coefficient.tolist()) == (False, [[beta]])
        assert (plan.power_bound_binding, plan.privacy_bound_binding) == (False, bound < np.inf)
        nobody = plan_of(name, parameters, task_of(np.empty((0, 1, 2)), privacy_bound=bound))
        assert nobody.amplitudes.shape == (0, 1, 2)
        assert nobody.coefficient.tolist() == [[bound]]
        assert (nobody.power_bound_binding, nobody.privacy_bound_binding) == (False, bound < np.inf)
        if name != "statistical" or bound == np.inf:  # its devices keep below the bound without a message, too
            plan_of(name, parameters, replace(task, rms_norms=np.zeros(3), privacy_bound=bound))
    one = plan_of(name, parameters, replace(task, rms_norms=task.rms_norms * [0, 1, 1]))
    two = replace(
        task, **{key: getattr(task, key)[1:] for key in ("gains", "energy_limits", "rms_norms", "mean_power")}
    )
    np.testing.assert_allclose(one.coefficient, plan_of(name, parameters, two).coefficient)


@pytest.mark.parametrize("objective", ["unbiased", "mean-power", "least-error"])
def test_amplitudes_do_not_follow_the_gains(objective: str) -> None:
    """The same for other fades, on all coefficients that carry entries."""
    task = drawn(4, (2, 3), seed=2)
    plan = plan_of("statistical", {"objective": objective}, task)
    again = plan_of("statistical", {"objective": objective}, replace(task, gains=task.gains[::-1, ::-1].copy()))
    np.testing.assert_array_equal(plan.amplitudes, again.amplitudes)
    np.testing.assert_array_equal(plan.amplitudes, np.broadcast_to(plan.amplitudes[:, :1, :1], task.gains.shape))


def test_by_hand() -> None:
    """E|g| = .8, 1.6 and E|g|^2 = 1, 4, limits 4 and .25, unit messages: beta = min(.8 2, 1.6 .5) = .8 unbiased, and 1
    by mean power, with b = (1, .5). Under a privacy bound of .3 with |g| up to 3 and 6: b = (.1, .05)."""
    task = task_of(
        np.ones((2, 1, 1)),
        energy_limits=np.array([4.0, 0.25]),
        rms_norms=np.ones(2),
        mean_power=np.array([1.0, 4.0]),
        amplitude_ratio=0.8,
        most_power=9.0,
    )
    for objective, beta in (("unbiased", 0.8), ("mean-power", 1.0)):
        plan = plan_of("statistical", {"objective": objective}, task)
        np.testing.assert_allclose(plan.coefficient, [[beta]])
        np.testing.assert_allclose(plan.amplitudes[:, 0, 0], [1.0, 0.5])
        private = POLICIES["statistical"](objective=objective).plan(replace(task, privacy_bound=0.3))
        np.testing.assert_allclose(private.coefficient, [[beta / 10]])
        np.testing.assert_allclose(private.amplitudes[:, 0, 0], [0.1, 0.05])
        assert (private.power_bound_binding, private.privacy_bound_binding) == (False, True)


def test_a_silent_device_is_made_up_for_by_the_others() -> None:
    """One able device of three, reach .5, unit messages, noise .1, c = .5: minimise .5 (x - 3)^2 + .5 ((x - 1)^2 + 2) +
    .1 (2 x)^2, so x = 10/7 and beta = .5/x = .35."""
    task = task_of(
        np.array([0.0, 0.5, 0.4])[:, None, None], energy_limits=np.array([1.0, 1.0, 0.0]), rms_norms=np.ones(3)
    )
    plan = plan_of("correlated", {"common_share": 0.5}, task)
    np.testing.assert_allclose(plan.coefficient, [[0.35]])
    np.testing.assert_allclose(plan.amplitudes[:, 0, 0], [0, 1, 0])


def test_what_a_plan_needs_is_said() -> None:
    task = drawn(2)
    for name, parameters, without, words in (
        ("statistical", {}, {"amplitude_ratio": None}, ('"unbiased" needs E|h|', "mean-power")),
        ("statistical", {}, {"most_power": np.inf, "privacy_bound": 1.0}, ("no largest gain",)),
        ("statistical-truncation", {}, {"survival": None}, ("need the law of fading",)),
    ):
        with pytest.raises(ValueError, match=one_line(*words)):
            POLICIES[name](**parameters).plan(replace(task, **without))  # type: ignore[arg-type]
    POLICIES["statistical"](objective="mean-power").plan(replace(task, amplitude_ratio=None))


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("statistical", {"objective": "least"}, "objective must be ... got 'least'"),
        ("statistical-truncation", {"prescalers": "zero"}, "prescalers must be ... got 'zero'"),
        ("correlated", {"common_share": 1.0}, "less than 1"),
        ("correlated", {"common_share": -0.1}, "at least 0"),
        ("cao", {"common_share": 0.1}, "has no common_share ... correlated"),
    ],
)
def test_parameters_that_are_refused(name: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=one_line(*words.split(" ... "))):
        POLICIES.build({"name": name, **parameters})


def test_the_largest_gain_is_that_of_the_law() -> None:
    """|h| up to 2 means: 4/E|h|^2. Without fading it is 1, whatever the bounds are."""
    assert RAYLEIGH.most_power * bounded(Rayleigh().law(), 0.05, 2.0, "clip").mean_square == pytest.approx(4)
    assert fade_statistics(Fixed().law()).most_power == 1
    assert fade_statistics(bounded(Fixed().law(), 0.5, 9.0, "clip")).most_power == 1
    assert fade_statistics(Rayleigh().law()).most_power == np.inf


# --- of a run --------------------------------------------------------------------------------------------------------

PHYSICAL = ("channel.units=physical", "channel.fading=rayleigh")


@pytest.mark.parametrize("name", ["statistical", "statistical-truncation"])
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("antennas.count=4",), "law of what is received ... antennas.count = 4 ... use one antenna"),
        (("selection.kind=best-k",), "selection.kind: 'best-k' ... use uniform"),
        (("power.divide_by=active",), "power.divide_by ... 'active' ... selected"),
        (("power.divide_by=expected",), "power.divide_by: ... expected"),
        (("power.alignment=population",), "power.alignment ... use"),
        (("channel.fading=tdl-a",), "law of 'tdl-a' is not known; use"),
        (("power.threshold=0.1",), "has no parameter threshold"),
    ],
)
def test_a_run_that_is_refused(name: str, overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=one_line(*words.split(" ... "))):
        build_scenario(small_settings(f"power.policy={name}", "scheme.name=wfl-p", *overrides), 30, np.ones(200))


def test_what_only_devices_without_gains_are_refused() -> None:
    """Feedback of gains, whose law truncation does not know; a privacy bound under a law without a largest gain, which
    truncation keeps."""
    feedback = ("csi.gain_bits=3", "scheme.name=wfl-p")
    for overrides, words in ((feedback, ("csi.gain_bits", "use 0")), (PHYSICAL, ("nothing bounds what arrives",))):
        with pytest.raises(UserError, match=one_line(*words)):
            build_scenario(small_settings("power.policy=statistical", *overrides), 30, np.ones(200))
    with pytest.raises(UserError, match=one_line("power.policy: the law of gains that are fed back", "csi.gain_bits")):
        build_scenario(small_settings("power.policy=statistical-truncation", *feedback), 30, np.ones(200))
    build_scenario(small_settings("power.policy=statistical-truncation", *PHYSICAL), 30, np.ones(200))
    build_scenario(small_settings("power.policy=statistical", *PHYSICAL, "privacy.epsilon=inf"), 30, np.ones(200))


@pytest.mark.parametrize("method", ["perfect", "ls"])
@pytest.mark.parametrize("name", ["statistical", "statistical-truncation", "correlated"])
def test_the_phase_costs_the_pilots_that_the_channel_costs(name: str, method: str) -> None:
    """As under inversion, since a device needs its phase; what is known in the mean costs nothing."""
    given = ("scheme.name=wfl-p", "channel.fading=rayleigh", f"csi.estimation={method}", "run.rounds=3")
    ours, inverted = (link_budget(small_settings(f"power.policy={one}", *given)) for one in (name, "full-inversion"))
    assert ours.resource_elements == inverted.resource_elements


@pytest.mark.parametrize("name", ["statistical", "statistical-truncation", "correlated"])
def test_the_claim_of_theorem_3_is_not_made(name: str) -> None:
    """It is for messages that arrive with beta. What arrives is within the privacy bound all the same, and no
    amplification is counted: protection at least sigma_0/bound in every round."""
    settings = load_settings("demo", [f"power.policy={name}", "run.rounds=5", "privacy.epsilon=0.5"])
    aligned = link_budget(settings.resolved(power={"policy": "pfels"}))
    budget = link_budget(settings)
    assert budget.epsilon_paper == np.inf
    assert aligned.epsilon_paper == pytest.approx(0.5)
    assert budget.noise_multiplier_min >= aligned.noise_multiplier_min * (1 - 1e-9)


@pytest.mark.parametrize("name", ["statistical", "statistical-truncation", "correlated"])
def test_the_observer_is_assumed_to_know_the_selection(name: str) -> None:
    """Devices arrive with strengths of their own, so that no sampling hides them, even where gains are private."""
    for gains in ("public", "private"):
        settings = load_settings("demo", [f"power.policy={name}", f"privacy.gains={gains}"])
        scenario = build_scenario(settings, 30, np.ones(settings.run.devices))
        assert scenario.statement.granted
        assert not scenario.statement.attained


@pytest.mark.parametrize("name", ["statistical", "statistical-truncation", "correlated"])
def test_a_run_goes_on_where_it_was_cut_off_and_agrees_with_its_budget(name: str, tmp_path: Path) -> None:
    """Whatever a design was computed for before."""
    few = (*LOGISTIC, "run.rounds=4", "run.devices=12", "run.selected=3", "local.steps=1", "run.checkpoint_every=1")
    settings = small_settings(*few, "channel.fading=rayleigh", f"power.policy={name}")
    with pytest.raises(KeyboardInterrupt):
        run(settings, tmp_path / "cut", interrupted(2))
    airfl.run(settings, tmp_path / "cut", resume=True)
    whole = run(settings, tmp_path / "whole")
    assert_same_trace(tmp_path / "cut", tmp_path / "whole")
    budget = link_budget(settings)
    with whole.trace() as trace:
        np.testing.assert_array_equal(budget.alignment_coefficient, trace["alignment_coefficient"].values)
        assert budget.noise_multiplier_min == trace["noise_multiplier"].min()
        assert budget.resource_elements == trace["resource_elements"].sum()
