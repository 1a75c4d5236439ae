"""User-defined power policies: as objects, or registered and named in a settings file."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.config import Settings
from airfl.errors import UserError
from airfl.uplinks.radio.visibility import received_equally
from channels import power
from channels.part import parameter
from channels.power import POLICIES, Policy, PowerPlan, PowerTask
from tests.conftest import small_settings
from tests.in_this_process import points_here as points_here
from tests.refusals import one_line
from tests.small_data import LOGISTIC, traced


class Mine(Policy):
    """PFELS' policy within a share of the limit, a parameter of its own that settings know nothing of."""

    name = "mine"
    aligned = one_by_one = announces = True

    share: float = parameter(default=1.0, gt=0, le=1, description="of the limit that is spent")

    def plan(self, task: PowerTask) -> PowerPlan:
        return power.Pfels().plan(self._within(task))

    def reaches(self, task: PowerTask) -> Any:
        return power.Pfels().reaches(self._within(task))

    def _within(self, task: PowerTask) -> PowerTask:
        return task if self.share == 1 else replace(task, energy_limits=self.share * task.energy_limits)


@pytest.fixture
def registered() -> Iterator[None]:
    power.register(Mine)
    yield
    del POLICIES._registered["mine"]


@pytest.mark.usefixtures("registered", "points_here")
def test_its_parameters_are_swept_by_dotted_key(tmp_path: Path) -> None:
    named = mine("mine", *LOGISTIC, "run.rounds=1")
    key, shares = "power.policy.share", [0.25, 1.0]
    found = [
        (run.values, run.digest.setting(key)) for run in airfl.sweep(named, {key: shares}, out=tmp_path / "s").runs
    ]
    assert found == [({key: share}, share) for share in shares]
    assert airfl.load_settings(named, ["power.policy.share=0.5"]).power.power_policy == Mine(share=0.5)
    for key, said in (
        ("power.policy.share=2", "power.policy.share must be at most 1"),
        ("power.policy.shar=1", "did you mean share"),
        ("power.spread.x=1", "power.spread has no parameters"),
        ("channel.fading.k=3", "channel.fading.k: fading law 'exponential' has no k"),
    ):
        with pytest.raises(UserError, match=said):
            airfl.load_settings(named, [key])
    rician = airfl.load_settings(named, ["channel.fading=rician", "channel.fading.k=3"])
    assert rician.channel.rician_k == 3.0


def mine(policy: Policy | str, *overrides: str) -> Settings:
    return small_settings(*overrides).resolved(power={"policy": policy})


TAPS = ("channel.fading=tapped-line", "grid.subcarriers=64")
SAMPLED = ("run.devices=50", "privacy.bound=accountant", "privacy.epsilon=5.0")


@pytest.mark.parametrize("overrides", [(), SAMPLED, TAPS])
def test_an_own_policy_that_is_pfels_gives_its_trace(overrides: tuple[str, ...]) -> None:
    """Bit for bit, the figures of privacy with it, which rest on what the policy says of itself."""
    settings = mine(Mine(), *overrides)
    assert received_equally(settings.radio, "equal", "analog")
    found, attributes = traced(settings)
    assert found == traced(small_settings(*overrides))[0]
    assert json.loads(attributes["config"])["power"]["policy"] == {"name": "mine", "share": 1.0}


@pytest.mark.usefixtures("registered")
def test_a_parameter_of_its_own_is_set_in_a_file() -> None:
    """Half the limit is 1/sqrt(2) of beta where power sets it; the class alone says that there is such a parameter."""
    settings = small_settings("power.policy={ name = 'mine', share = 0.5 }", "privacy.epsilon=inf")
    assert settings.power.power_policy == Mine(share=0.5)
    assert settings == mine(Mine(share=0.5), "privacy.epsilon=inf")
    both = (settings, small_settings("privacy.epsilon=inf"))
    halved, whole = (np.frombuffer(traced(one)[0]["alignment_coefficient"]) for one in both)
    assert halved[0] == pytest.approx(whole[0] * np.sqrt(0.5))


def test_a_table_of_a_built_in_policy_is_kept_by_the_keys_of_the_section() -> None:
    table = small_settings("power.policy={ name = 'truncated-inversion', threshold = 0.3 }")
    assert table == small_settings("power.policy=truncated-inversion", "power.threshold=0.3")
    assert table == mine(power.TruncatedInversion(threshold=0.3))
    assert table.power.power_policy == power.TruncatedInversion(threshold=0.3)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("power.policy={ name = 'mine', shar = 0.5 }",), ("power.policy.shar: ", "did you mean share?")),
        (("power.policy={ name = 'mine', share = 0.0 }",), ("power.policy.share must be positive, got 0.0",)),
        (("power.policy=min",), ("power.policy: unknown power policy 'min'; did you mean mine?", "cotaf")),
        (("power.policy=mine", "power.threshold=0.1"), ("power: power policy 'mine' has no parameter", "cotaf")),
        (("power.policy=mine", "power.participation=0.5"), ("power.participation: power policy 'mine' has no",)),
        (
            ("power.policy={ name = 'cotaf', threshold = 0.2 }", "power.threshold=0.1"),
            ("power.threshold: 0.1 contradicts ", "Cotaf(threshold=0.2)"),
        ),
    ],
)
def test_what_a_policy_cannot_take_is_refused_in_one_line(overrides: tuple[str, ...], said: tuple[str, ...]) -> None:
    with pytest.raises(airfl.UserError, match=one_line(*said)):
        airfl.link_budget(small_settings(*overrides))


class Broken(Policy):
    """PFELS' policy, changed in one place."""

    name = "broken"

    how: str = parameter(description="what is changed")

    def plan(self, task: PowerTask) -> PowerPlan:
        return BREAKS[self.how](power.Pfels().plan(task))


def first_device(plan: PowerPlan, factor: float, coefficients: int | None = None) -> PowerPlan:
    """The plan with the first device's amplitudes times a factor, on the first coefficients or on all."""
    amplitudes = plan.amplitudes.copy()
    amplitudes[0, 0, :coefficients] *= factor
    return replace(plan, amplitudes=amplitudes)


BREAKS: dict[str, Callable[[PowerPlan], Any]] = {
    "": lambda plan: plan,
    "loud": lambda plan: replace(plan, amplitudes=2 * plan.amplitudes),
    "flat": lambda plan: replace(plan, amplitudes=plan.amplitudes[:, 0, 0]),
    "betas": lambda plan: replace(plan, coefficient=plan.coefficient[0]),
    "negative": lambda plan: replace(plan, amplitudes=-plan.amplitudes),
    "nan": lambda plan: replace(plan, amplitudes=plan.amplitudes * np.nan),
    "no beta": lambda plan: replace(plan, coefficient=0 * plan.coefficient),
    "none": lambda plan: plan.amplitudes,
    "unequal": lambda plan: first_device(plan, 0.5),
    "silent": lambda plan: first_device(plan, 0),
    "silent once": lambda plan: first_device(plan, 0, 1),
    "half": lambda plan: replace(plan, amplitudes=plan.amplitudes / 2, coefficient=plan.coefficient / 2),
}


class Aligned(Broken):
    """Said to be aligned."""

    name = "said-aligned"
    aligned = True

    threshold: float = parameter(default=0.0, ge=0, description="of |g|^2 over its mean")
    coefficient: float | None = parameter(default=None, gt=0, description="beta aimed at")


class Together(Broken):
    """Said to follow from the devices one by one, as PFELS' does."""

    name = "together"
    one_by_one = True

    def reaches(self, task: PowerTask) -> Any:
        return power.Pfels().reaches(task)


@pytest.mark.parametrize(
    ("policy", "overrides", "said"),
    [
        (Broken(how="loud"), ("privacy.epsilon=inf",), "exceeds the energy limit"),
        (Broken(how="loud"), ("privacy.epsilon=1e-6",), "exceeds the privacy bound"),
        (Broken(how="flat"), (), "amplitudes of shape (8, 1, 1), got (8,)"),
        (Broken(how="betas"), (), "a coefficient of shape (1, 1), got (1,)"),
        (Broken(how="negative"), (), "amplitudes finite and at least 0, got -"),
        (Broken(how="nan"), (), "amplitudes finite and at least 0, got nan"),
        (Broken(how="no beta"), (), "a coefficient finite and positive, got 0.0"),
        (Broken(how="none"), (), "must return a PowerPlan, got ndarray"),
        (Aligned(how="unequal"), (), "declares `aligned`"),
        (Aligned(how="silent"), (), "declares `aligned`, but device 0 of 8 is silent"),
        (Aligned(how="silent once"), TAPS, "declares `aligned`, but device 0 of 8 is silent"),
        (Together(how="half"), (), "declares `one_by_one`"),
    ],
    ids=repr,
)
def test_a_policy_that_breaks_its_promise_is_named(policy: Policy, overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(airfl.UserError, match=one_line("power.policy: ", repr(policy), said)):
        airfl.link_budget(mine(policy, *overrides))


@pytest.mark.parametrize(
    ("policy", "changes"),
    [
        (Aligned(how="silent", threshold=0.1), {}),
        (Aligned(how="silent", coefficient=1e-3), {}),
        (Aligned(how="silent"), {"energy_limits": np.array([0.0, 1.0, 1.0])}),
        (Aligned(how="silent"), {"gains": np.array([0.0, 1.0, 2.0])[:, None, None]}),
        (Aligned(how="silent"), {"gains": np.zeros((3, 1, 1))}),
        (Mine(), {"announced": 1.5}),
    ],
    ids=repr,
)
def test_an_aligned_policy_may_keep_those_silent_who_cannot_be_heard(policy: Policy, changes: dict[str, Any]) -> None:
    ones = np.ones(3)
    task = PowerTask(np.array([1.0, 1.0, 2.0])[:, None, None], np.ones((1, 1)), ones, ones, 0.1, np.inf, ones)
    task = replace(task, **changes)
    power.check_plan(policy, task, policy.plan(task))


def test_of_a_policy_that_says_nothing_the_most_is_granted() -> None:
    """Not said to be aligned, it is taken to show who was selected."""
    assert not received_equally(mine(Broken(how="")).radio, "equal", "analog")
    said = one_line("power.alignment: policy 'broken' derives beta from the devices")
    with pytest.raises(airfl.UserError, match=said):
        airfl.link_budget(mine(Broken(how=""), "power.alignment=population"))
