"""Alignment: what determines beta, reveals and costs, by power.alignment and privacy.gains in whole runs."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from airfl import link_budget, load_settings
from airfl.analysis.budget import planned_rounds
from airfl.analysis.calculator import privacy_of
from airfl.config import Settings
from airfl.core.accounting import noise_multiplier
from airfl.core.building import build_scenario
from airfl.core.round_plan import disclosure_again
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.privacy.calibration import run_epsilon
from airfl.privacy.disclosure import Disclosure
from airfl.privacy.events import Gaussian, noise_of
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.observer import with_rounded_pool
from airfl.privacy.statement import Statement
from airfl.report.table import TableRow, notes
from airfl.uplinks import LinkReport
from tests.refusals import one_line
from tests.small_data import run

WIDEBAND = (
    *("channel.fading=tapped-line", "channel.delay_spread_s=1e-5", "run.devices=12", "run.selected=4"),
    "grid.subcarriers=12",
)
NOISY = ("scheme.name=dp-fedavg", "scheme.noise_multiplier=1.0")
SILENT_RADIO = (
    *("scheme.name=wfl-p", "channel.variation=constant", "power.max_snr_db=-20.0", "run.rounds=4"),
    "privacy.epsilon=inf",  # nothing is looked for that would do
)


def settings_of(*overrides: str) -> Settings:
    return load_settings("demo", overrides)


def scenario_of(*overrides: str) -> Scenario:
    settings = settings_of(*overrides)
    return build_scenario(settings, 1000, np.ones(settings.run.devices))


def budgets(scenario: Scenario) -> list[LinkReport]:
    """Of each round, what is reported before anything is sent."""
    return [plan.link.link_budget() for plan in planned_rounds(scenario)]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Balle and Wang 2018, by its formula."""

    def excess(epsilon: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return float(brentq(excess, 0, 200)) if excess(0) > 0 else 0.0


def test_whom_beta_names_pays_in_full() -> None:
    """Where power alone sets beta, no figure is below what a Gaussian that hides nobody costs the one who set it."""
    settings = settings_of(*SILENT_RADIO)
    budget, found = link_budget(settings), privacy_of(settings)
    multiplier = settings.channel.noise_std / (budget.alignment_coefficient.max() * settings.local.update_bound)
    paid = gaussian_epsilon(2 / multiplier, settings.delta)
    assert found.epsilon_at_least >= paid * (1 - 1e-6) > 0.05
    assert found.epsilon >= found.epsilon_at_least
    assert (found.epsilon_round, budget.epsilon_round_max) == pytest.approx((paid, paid), rel=1e-6)
    assert found.beta_tells == "granted"  # with equal limits, gains at their bounds might tie
    private = scenario_of(*SILENT_RADIO, "privacy.gains=private")
    assert private.beta_tells == "unknown"
    rounds = settings.run.rounds
    assert run_epsilon(private.statement, Gaussian(multiplier), rounds, rounds) < paid / 5


@pytest.mark.parametrize(
    ("overrides", "tells"),
    [
        ((), "exact"),
        (("power.max_snr_db=30.0",), "granted"),  # equal limits: gains at their bounds tie
        (("antennas.count=4", "antennas.combining=principal"), "granted"),
        *(((one,), "granted") for one in ("antennas.count=4", "power.policy=cao", "power.divide_by=active")),
        (("power.peak_db=3.0",), "granted"),
        (("power.peak_db=3.0", "power.alignment=schedule"), "granted"),  # lowered by what those selected could send
        (("power.peak_db=3.0", "power.alignment=schedule", "power.peak=clip"), "nothing"),
        (("power.strict=true",), "exact"),
        ((*WIDEBAND, "power.policy=per-subcarrier"), "granted"),
        *(((f"power.alignment={by}",), "nothing") for by in ("population", "schedule")),
        (("power.policy=full-inversion", "power.coefficient=0.5"), "nothing"),
        *(((one,), "nothing") for one in ("privacy.observer=server", "selection.kind=best-k", "scheme.name=fedavg")),
        (("scheme.name=fedavg", "privacy.gains=private"), "nothing"),
        (("privacy.gains=private",), "unknown"),
    ],
)
def test_what_is_said_of_beta(overrides: tuple[str, ...], tells: str) -> None:
    """Of every way in which beta, or the divisor, comes about."""
    scenario = scenario_of(*overrides)
    assert scenario.beta_tells == tells
    plan = next(planned_rounds(scenario))
    assert (plan.disclosure is not None) == (tells in ("exact", "granted"))
    if tells == "granted" and overrides[0] != "power.max_snr_db=30.0":
        assert plan.disclosure.named.tolist() == plan.devices.tolist()


def test_whoever_sets_beta_is_named() -> None:
    """In the demo nobody where the privacy bound binds, else the device that reaches no more; and once more afterwards,
    from the round's number alone, as a resumed run does."""
    scenario, named = scenario_of("run.rounds=30"), 0
    for index, plan in enumerate(planned_rounds(scenario)):
        told = plan.disclosure
        report = plan.link.link_budget()
        if report.privacy_bound_binding:
            assert (len(told.named), told.sample) == (0, 32)
        else:
            gains = np.abs(plan.estimate.response[:, 0, 0, 0])
            weakest = np.argmin(gains * np.sqrt(scenario.power_limits[plan.devices]))
            assert told.named.tolist() == [plan.devices[weakest]]
            assert told.sample == 31
            named += 1
        assert 31 <= told.pool <= 1000
        again = disclosure_again(scenario, index)
        assert (again.named.tolist(), again.pool) == (told.named.tolist(), told.pool)
    assert named > 5


def test_a_schedule_is_the_same_in_every_round() -> None:
    """beta is the coefficient, else the privacy bound; who cannot reach it is silent, and all N hide everybody."""
    given = ("power.alignment=schedule", "power.coefficient=3.0")
    reports = budgets(scenario_of(*given, "run.rounds=20"))
    assert {report.alignment_coefficient for report in reports} == {3.0}
    assert any((report.devices.active == 0).any() for report in reports)
    assert all(report.devices.active.any() for report in reports)
    schedule = privacy_of(settings_of(*given, "run.rounds=5", "privacy.epsilon=inf", "scheme.ratio=0.25"))
    statement = Statement("client", "without_replacement", 32, 1000, "third_party", 1e-3)
    (event, *_) = schedule.released.events
    seen = noise_of(event).seen
    assert seen == pytest.approx(0.25, rel=1e-3)
    one = PrivacyLedger(statement).of_one_round(Gaussian(schedule.noise_multiplier_min, seen))
    assert schedule.epsilon_round == pytest.approx(one, rel=1e-6)
    bounded = budgets(scenario_of(given[0], "run.rounds=5"))
    assert all(report.privacy_bound_binding for report in bounded)
    assert len({report.alignment_coefficient for report in bounded}) == 1


def test_the_population_takes_the_least_of_all() -> None:
    """beta does not depend on who was selected, everybody selected is heard, and everybody sends pilots."""
    overrides = ("run.rounds=4", "privacy.epsilon=inf", "channel.fading=rayleigh", "csi.estimation=ls")
    scenario, of_sample = scenario_of(*overrides, "power.alignment=population"), scenario_of(*overrides)
    for index, (report, sampled) in enumerate(zip(budgets(scenario), budgets(of_sample), strict=True)):
        everyone = scenario.radio.csi_of(index, np.arange(1000), scenario.frame, scenario.element_power)
        reach = np.abs(everyone.estimate.response[:, 0, 0, 0]) * np.sqrt(scenario.power_limits) / scenario.bound.rms
        assert report.alignment_coefficient == pytest.approx(reach.min(), rel=1e-12)
        assert report.alignment_coefficient <= sampled.alignment_coefficient
        assert report.power_bound_binding
        assert report.devices.active.all()
        assert report.pilot_elements > 10 * sampled.pilot_elements


@pytest.mark.parametrize("alignment", ["auto", "sample", "schedule", "population"])
def test_a_calibrated_run_ends_where_it_was_to(alignment: str) -> None:
    """Whoever settles beta, epsilon of the run is within what was asked; "auto" takes a beta that does not tell."""
    overrides = ("privacy.bound=accountant", "run.rounds=40", f"power.alignment={alignment}")
    found = privacy_of(settings_of(*overrides))
    assert 0 < found.epsilon <= 1.5 * (1 + 5e-3)
    if alignment == "sample":
        assert found.beta_tells == "granted"
    if alignment in ("auto", "schedule"):
        assert found.beta_tells == "nothing"
        assert found.epsilon > 1.4


def test_the_better_deal_is_taken() -> None:
    """An observer who is granted the sample needs more noise than where beta does not tell."""
    auto, told = (scenario_of("privacy.bound=accountant", *more) for more in ((), ("power.alignment=sample",)))
    assert auto.recipe.uplink.control.alignment == "schedule"
    assert budgets(auto)[0].noise_std < budgets(told)[0].noise_std


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("scheme.name=wfl-p", "power.alignment=schedule"), "set power.coefficient"),
        (("power.policy=cao", "power.alignment=population"), "derives beta from the devices that send"),
        (("power.alignment=population", "antennas.count=4", "antennas.combining=principal"), "combined antennas"),
        (("power.policy=full-inversion", "power.alignment=population", "power.coefficient=1.0"), "power.coefficient:"),
        (("power.coefficient=1.0",), "no parameter coefficient"),
        (("power.alignment=everybody",), "power.alignment"),
        (("privacy.gains=known",), "privacy.gains"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(overrides: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=one_line(words)):
        scenario_of(*overrides)


def test_pools_are_rounded_to_the_proven_side() -> None:
    """A smaller pool hides less: down for an upper bound, up for a lower one, never below the sample, N as it is."""
    mask, nobody = np.zeros(16, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    for pool in range(31, 1001):
        told = Disclosure(nobody, 31, pool, mask, exact=True)
        down, up = with_rounded_pool(told, 1000), with_rounded_pool(told, 1000, upwards=True)
        assert max(31, pool * 0.985 - 1) <= down.pool <= pool <= up.pool <= min(1000, pool * 1.011 + 1)
    assert with_rounded_pool(Disclosure(nobody, 32, 1000, mask, exact=True), 1000).pool == 1000


def test_the_trace_says_what_its_figures_rest_on(tmp_path: Path) -> None:
    """As an attribute of epsilon, in the summary and in the notes of a table."""
    small = ("run.rounds=2", "run.devices=50", "run.selected=4", "task.public_samples=0", "run.threads=1")
    for gains, tells, words in (("public", "exact", "by β accounted"), ("private", "unknown", "no gains known")):
        found = run(settings_of(*small, f"privacy.gains={gains}"), tmp_path / gains)
        with found.trace() as trace:
            assert trace["epsilon"].attrs["beta_tells"] == tells
        assert words in notes([TableRow("one", [found.summary()])])


def test_a_round_in_which_nobody_is_heard_looks_like_any_other() -> None:
    """Silence would tell that nobody who could be heard was selected: noise is decoded, at the cost of other rounds."""
    overrides = ("scheme.name=wfl-p", "power.alignment=schedule", "power.coefficient=40.0", "run.rounds=60")
    scenario = scenario_of(*overrides, "run.selected=2")
    plans = list(planned_rounds(scenario))
    silent = [plan for plan in plans if not plan.link.link_budget().devices.active.any()]
    assert 0 < len(silent) < len(plans)
    multipliers = {noise_multiplier(scenario, plan.link.link_budget()) for plan in plans}
    assert max(multipliers) == pytest.approx(min(multipliers), rel=1e-9)
    assert min(multipliers) == pytest.approx(1 / (40.0 * settings_of().local.update_bound), rel=1e-9)
    received = silent[0].link.close()
    assert float(received.mean.std()) == pytest.approx(1 / (2 * 40.0), rel=0.1)


@pytest.mark.parametrize(
    "overrides",
    [
        ("channel.fading=rayleigh", "csi.estimation=ls"),
        ("channel.fading=rayleigh", "csi.estimation=mmse", "power.alignment=population"),
        ("channel.fading=rayleigh", "csi.phase_std_rad=0.1", "privacy.gains=private"),
        (*NOISY, "digital.deadline_s=0.01"),
        (*NOISY, "server.weights=samples"),
        (*NOISY, "scheme.link=analog", "power.alignment=schedule", "power.coefficient=1.0"),
        ("scheme.name=cpsgd", "digital.error_model=finite-blocklength"),
    ],
)
def test_what_else_may_tell_is_granted(overrides: tuple[str, ...]) -> None:
    """Noise of another worth for other devices: all who were selected pay in full, and no known neighbours do."""
    scenario = scenario_of(*overrides)
    told = scenario.beta_tells, scenario.statement.hidden, scenario.statement.attained
    assert told == ("granted", False, False)


def test_the_server_at_several_antennas_has_no_lower_bound() -> None:
    """All arrive with beta in the sum, and each with a norm of its own at the antennas."""
    server = ("privacy.observer=server", "channel.fading=rayleigh")
    assert scenario_of(*server).statement.attained
    assert not scenario_of(*server, "antennas.count=4").statement.attained
    assert scenario_of("channel.fading=rayleigh", "antennas.count=4").statement.attained


def test_no_claim_is_refuted_by_rounds_in_which_devices_were_silent() -> None:
    """All 50 devices are in every round, none heard in more than 18 of 60: no figure may count them as heard."""
    scheme = ("scheme.name=dp-fedavg", "scheme.link=analog", "scheme.noise_multiplier=16.0", "channel.fading=rayleigh")
    run = ("run.devices=50", "run.selected=50", "run.rounds=60", "power.max_snr_db=60.0")
    power = ("power.policy=truncated-inversion", "power.threshold=1.5", "power.coefficient=0.3")
    found = privacy_of(settings_of(*scheme, *run, *power))
    assert math.isnan(found.epsilon_at_least)
    assert found.epsilon > found.epsilon_paper
    assert "is not proven" in found.verdict()
    assert "really" not in found.verdict()


def test_an_empty_sample_costs_nothing() -> None:
    """A Poisson sample may come out empty; without a privacy bound beta is then infinite, and nothing is sent."""
    few = ("run.devices=100", "run.selected=1", "run.rounds=8", "privacy.epsilon=inf")
    found = privacy_of(settings_of("scheme.name=wfl-p", "selection.kind=poisson", *few))
    assert any(len(devices) == 0 for devices in found.released.devices)
    assert 0 < found.noise_multiplier_min < math.inf
    assert 0 < found.epsilon_as_poisson < math.inf
    assert found.epsilon_at_least <= found.epsilon < math.inf
