"""privacy.bound = "accountant": the run ends at the requested epsilon, and not far below it."""

import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld

from airfl.analysis.budget import link_budget
from airfl.analysis.calculator import privacy_of, unmet
from airfl.config import Settings
from airfl.core.accounting import noise_multiplier
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.errors import UserError
from airfl.privacy.accountants import Rdp
from airfl.privacy.calibration import SMALLEST, remedies, run_epsilon, smallest_noise
from airfl.privacy.events import Gaussian
from airfl.privacy.statement import Statement
from airfl.runtime.streams import Streams
from airfl.schemes.calibrated import participations_of
from airfl.selection import Uniform, select
from tests.conftest import small_settings
from tests.rounds import opened
from tests.small_data import run

PAPER = Statement("client", "without_replacement", 32, 1000, "third_party", 1e-3)
POISSON = replace(PAPER, sampling="poisson")
SERVER = replace(PAPER, observer="server")
# Of a few orders, which are computed in no time.
QUICK = replace(POISSON, accountant=Rdp(orders=[2, 4, 8, 16, 32]))
ASKED = 2.0
CALIBRATED = ("privacy.bound=accountant", f"privacy.epsilon={ASKED}", "run.rounds=4", "run.evaluate_every=4")


def calibrated(*overrides: str) -> Settings:
    return small_settings(*CALIBRATED, *overrides)


def noise_of(*overrides: str) -> float:
    """The noise multiplier that every round has at least."""
    return link_budget(calibrated(*overrides)).noise_multiplier_min


def test_noise_of_the_paper_s_run_as_poisson() -> None:
    """To end at 1.5 after 2,000 rounds: 2.7376 by loss distributions, 3.048 by RDP."""
    assert smallest_noise(POISSON, 1.5, 2000, 1) == pytest.approx(2.7376, abs=5e-4)
    assert smallest_noise(replace(POISSON, accountant=Rdp()), 1.5, 2000, 1) == pytest.approx(3.048, abs=5e-4)


@pytest.mark.parametrize(
    ("said", "epsilon", "rounds"),
    [
        *((PAPER, 0.3, 50), (PAPER, 500.0, 20), (PAPER, 1.5, 1)),
        *((POISSON, 8.0, 300), (POISSON, 1.5, 1), (SERVER, 0.3, 50), (SERVER, 500.0, 20)),
    ],
)
def test_the_smallest_noise_is_enough_and_hardly_less_would_be(said: Statement, epsilon: float, rounds: int) -> None:
    multiplier = smallest_noise(said, epsilon, rounds, rounds)
    assert run_epsilon(said, Gaussian(multiplier), rounds, rounds) <= epsilon
    assert run_epsilon(said, Gaussian(multiplier * 0.999), rounds, rounds) > epsilon


def test_without_sampling_the_noise_is_that_of_the_gaussian_mechanism() -> None:
    """T rounds compose to mu sqrt(T), replace-one: z = 2 sqrt(T)/mu."""
    multiplier = smallest_noise(SERVER, 1.0, 2000, 64)
    exact = dp_accounting.dp_event.GaussianDpEvent(multiplier / 2 / math.sqrt(64))
    oracle = pld.PLDAccountant(value_discretization_interval=1e-4)
    oracle.compose(exact)
    assert oracle.get_epsilon(1e-3) == pytest.approx(1.0, rel=1e-3)


def test_an_epsilon_out_of_reach_is_refused() -> None:
    """Where delta pays for everything no noise is needed."""
    assert smallest_noise(replace(PAPER, selected=1, delta=0.5), 1.0, 1, 1) == SMALLEST
    with pytest.raises(UserError, match=r"^privacy\.epsilon: .* 1e-09 over 2,000 rounds"):
        smallest_noise(replace(PAPER, delta=1e-12), 1e-9, 2000, 1)
    with pytest.raises(ValueError, match="epsilon must be positive"):
        smallest_noise(PAPER, 0.0, 1, 1)


def test_what_would_do_does_and_hardly_less_would() -> None:
    found = remedies(QUICK, 1.5, 2000, 1, 2.0)
    assert found.noise_multiplier == pytest.approx(smallest_noise(QUICK, 1.5, 2000, 1), rel=1e-9)
    assert found.power_db == pytest.approx(20 * math.log10(found.noise_multiplier / 2), rel=1e-9)
    assert found.in_words(over_the_air=True).startswith(f"a received power {found.power_db:.1f} dB lower, or T <= ")
    for enough, statement, rounds in (
        (True, QUICK, found.rounds),
        (False, QUICK, round(found.rounds * 1.03)),
        (True, replace(QUICK, devices=found.devices), 2000),
        (False, replace(QUICK, devices=round(found.devices / 1.03)), 2000),
        (True, replace(QUICK, selected=found.selected), 2000),
        (False, replace(QUICK, selected=found.selected + 1), 2000),
    ):
        assert (run_epsilon(statement, Gaussian(2.0), rounds, 1) <= 1.5) == enough


def test_where_nothing_of_a_kind_would_do() -> None:
    """A round alone costs 49: neither fewer rounds nor fewer devices would do; against the server N does not matter."""
    found = remedies(QUICK, 1.5, 2000, 1, 0.1159)
    assert (found.rounds, found.selected) == (None, None)
    assert remedies(SERVER, 1.5, 2000, 64, 1.0).devices is None
    nothing = remedies(PAPER, 1.5, 1, 1, 0.0)
    assert (nothing.power_db, nothing.in_words(over_the_air=True)) == (None, "none")


@pytest.mark.parametrize(
    "overrides",
    [
        ("scheme.name=pfels",),
        ("scheme.name=pfels", "scheme.error_feedback=true"),
        ("scheme.name=pfels", "privacy.accountant={ name = 'rdp', orders = [4, 8, 16, 32] }"),
        ("scheme.name=pfels", "selection.kind=poisson", "privacy.epsilon=0.7"),
        ("scheme.name=pfels", "server.weights=samples", "task.partition=dirichlet"),
        ("scheme.name=wfl-pdp", "antennas.count=4"),
        *((f"scheme.name={name}",) for name in ("dp-fedavg", "fed-smp-randk", "fed-smp-topk", "soteriafl-gd")),
        ("scheme.name=dp-fedavg", "server.weights=samples", "task.partition=dirichlet"),
        ("scheme.name=dp-fedavg", "digital.secure_aggregation=off"),
        *((f"scheme.name={name}", "local.batch_size=3") for name in ("fed-spa", "dp-fed", "soteriafl-sgd")),
        pytest.param(("scheme.name=soteriafl-svrg", "local.batch_size=3"), marks=pytest.mark.full),
    ],
    ids=" ".join,
)
def test_a_run_ends_at_the_epsilon_that_was_asked_for(overrides: tuple[str, ...]) -> None:
    settings = calibrated(*overrides)
    assert 0.97 <= run(settings).summary().epsilon / settings.privacy.epsilon <= 1.001


def test_where_the_channel_chooses_every_round_may_be_anybody_s() -> None:
    """Who takes part how often is not known before: the noise is for somebody who is in all rounds."""
    assert run(calibrated("scheme.name=pfels", "selection.kind=best-k")).summary().epsilon <= ASKED


def test_the_paper_s_bound_is_what_it_was() -> None:
    """The same run by theorem 3: 2.0 claimed of each round, and the run far above."""
    summary = run(small_settings("privacy.epsilon=2.0", "run.rounds=4", "run.evaluate_every=4")).summary()
    assert summary.epsilon_paper == pytest.approx(2.0)
    assert summary.epsilon > 20


def test_beta_is_the_largest_that_ends_the_run_there() -> None:
    """beta = sigma_0/(z C) wherever the power limits allow it."""
    budget = link_budget(calibrated("scheme.name=pfels"))
    answer = privacy_of(small_settings("privacy.epsilon=2.0", "run.rounds=4"))
    assert budget.privacy_bound_binding_share == 1
    np.testing.assert_allclose(budget.alignment_coefficient, answer.alignment_coefficient, rtol=1e-3)
    assert answer.remedies.noise_multiplier == pytest.approx(budget.noise_multiplier_min, rel=1e-3)


def test_error_feedback_is_calibrated_without_a_sample_of_fixed_size_to_hide_in() -> None:
    """What is clipped last bounds what a device sends, whatever it remembers."""
    feedback, poisson = "scheme.error_feedback=true", "selection.kind=poisson"
    assert noise_of(poisson, feedback) == pytest.approx(noise_of(poisson))
    assert noise_of(feedback) > 2 * noise_of()


@pytest.mark.parametrize("bound", ["paper", "accountant"])
def test_an_accountant_without_a_bound_is_refused_by_its_key(bound: str) -> None:
    with pytest.raises(UserError, match=r"^privacy\.accountant: accountant 'pld' has no bound for a sample of fixed"):
        run(small_settings("privacy.accountant=pld", f"privacy.bound={bound}"))


ANALOG = ("scheme.name=dp-fedavg", "scheme.link=analog")
TAPPED, POLICY = "channel.fading=tapped-line", "power.policy=per-subcarrier"
DIMENSION = 25_450


def test_channel_and_devices_together_have_the_noise_that_was_asked_for() -> None:
    """The added noise is charged: a device spends a_i^2 (C^2 + m f^2 sigma_i^2), and never more than its limit."""
    settings = calibrated(*ANALOG, "power.max_snr_db=[25,35]", "run.rounds=2")
    scenario, plan, report = opened(settings, DIMENSION)
    bound, target = scenario.bound, scenario.recipe.noise_target
    assert noise_multiplier(scenario, report) == pytest.approx(target, rel=1e-6)
    channel, own = report.protection, bound.noise_std * math.sqrt(report.noisy_devices)
    assert 0 < plan.device_noise_factor < 1
    assert channel > 0
    assert math.hypot(channel, own) == pytest.approx(target * bound.sensitivity, rel=1e-6)
    noise_energy = bound.entries * (plan.device_noise_factor * bound.noise_std) ** 2
    energy, scales = report.devices.energy, report.devices.transmit_scale**2
    np.testing.assert_allclose(energy, scales * (bound.sensitivity**2 + noise_energy), rtol=1e-9)
    assert np.all(energy <= scenario.power_limits[plan.devices] * (1 + 1e-9))
    assert energy.max() > 0
    with run(settings).trace() as trace:
        spent, clipped = trace["transmit_energy_j"].values[0], trace["update_norm"].values[0]
    # What was really drawn: the noise's norm is within 5 standard errors of sqrt(m), d = 25,450.
    tolerance = 5 * math.sqrt(2 / bound.entries) + 0.01
    np.testing.assert_allclose(spent, scales * (clipped**2 + noise_energy), rtol=tolerance)


def test_devices_add_what_the_channel_lacks() -> None:
    """Nothing where it is enough, all of it without noise of the channel."""
    scenario, plan, report = opened(calibrated(*ANALOG, "power.max_snr_db=[-10,-5]"))
    assert (plan.device_noise_factor, report.noisy_devices) == (0, 0)
    multiplier = noise_multiplier(scenario, report)
    assert multiplier == report.protection / scenario.bound.sensitivity > scenario.recipe.noise_target
    scenario, plan, report = opened(calibrated(*ANALOG, "channel.noise=false"))
    assert report.protection == 0
    assert plan.device_noise_factor == pytest.approx(1.0)
    assert noise_multiplier(scenario, report) == pytest.approx(scenario.recipe.noise_target)
    scenario, plan, _ = opened(calibrated("scheme.name=dp-fedavg", "scheme.noise_multiplier=0.5"))
    assert (scenario.recipe.noise_target, plan.device_noise_factor) == (None, 1)  # given noise is left alone


LINKS = {"analog": ANALOG, "antennas": (*ANALOG, "antennas.count=4"), "tapped line": (*ANALOG, TAPPED, POLICY)} | {
    link: ("scheme.name=dp-fedavg", f"scheme.link={link}") for link in ("digital", "ideal")
}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_with_other_noise_is_the_one_opened_with_it(link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, in everything that it reports; and one uplink is opened a round, however many factors are tried."""
    settings = calibrated(*LINKS[link])
    scenario = build_scenario(settings, 500, np.ones(settings.run.devices))
    uplink, context = scenario.recipe.uplink, []
    opens = type(uplink).open
    monkeypatch.setattr(type(uplink), "open", lambda self, given: (context.append(given), opens(self, given))[1])
    plan = plan_round(scenario, 0, scenario.memory)
    assert len(context) == 1
    for factor in (0.0, 0.7, 2.0, plan.device_noise_factor):
        first = opens(uplink, context[0]).with_device_noise(factor)
        again = opens(uplink, context[0].with_device_noise(factor))
        assert repr(first.link_budget()) == repr(again.link_budget())
        np.testing.assert_array_equal(first.heard, again.heard)
    assert repr(first.link_budget()) == repr(plan.link.link_budget())


def test_a_lost_device_s_noise_is_made_up_for() -> None:
    """Who is heard is known before anybody trains: the others add more."""
    settings = calibrated("scheme.name=dp-fedavg", "digital.error_model=finite-blocklength", "digital.target_error=0.3")
    factors = []
    for index in range(12):
        scenario, plan, report = opened(settings, DIMENSION, index)
        if heard := int(report.devices.active.sum()):
            assert noise_multiplier(scenario, report) == pytest.approx(scenario.recipe.noise_target)
            assert plan.device_noise_factor == pytest.approx(math.sqrt(settings.run.selected / heard))
            factors.append(plan.device_noise_factor)
    assert max(factors) > 1


def test_the_device_with_most_rounds_is_counted_from_the_run_s_own_draws() -> None:
    settings = calibrated("scheme.name=fed-spa", "run.rounds=20")
    streams, counts = Streams(settings.run.seed), np.zeros(100, dtype=int)
    for t in range(20):
        counts[select(Uniform(), streams, t, 100, 8)] += 1
    assert participations_of(settings.selection, settings.run, SERVER) == counts.max()
    assert participations_of(settings.selection, settings.run, PAPER) == 1
    by_channel = calibrated("selection.kind=best-k", "run.rounds=20")
    assert participations_of(by_channel.selection, by_channel.run, replace(PAPER, sampling="by_channel")) == 20


def test_a_scheme_without_noise_of_its_own_says_what_would_do() -> None:
    settings = calibrated("scheme.name=wfl-p")
    epsilon = run(settings).summary().epsilon
    sentence = unmet(settings, epsilon)
    assert sentence.startswith("wfl-p, seed 0: the run ends at epsilon ")
    for said in ("above the target of 2; changes that meet it: ", "dB lower", "devices"):
        assert said in sentence
    assert unmet(settings, 2.0) is unmet(small_settings("scheme.name=wfl-p"), epsilon) is None
    assert "the run has no noise" in (unmet(calibrated("scheme.name=fedavg"), math.inf) or "")
    assert "the accountant cannot tell" in (unmet(calibrated("scheme.name=cpsgd"), 1e4) or "")
