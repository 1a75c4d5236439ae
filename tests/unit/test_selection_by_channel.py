"""Device selection based on the channel or on spent energy: the rules, their costs, and their privacy accounting."""

import itertools
import math
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from airfl.analysis.budget import link_budget
from airfl.config import Settings
from airfl.core.accounting import noise_multiplier
from airfl.core.building import build_scenario
from airfl.core.record import Record
from airfl.core.round import run_round
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.core.scenario import Scenario
from airfl.core.state import State, World
from airfl.errors import UserError
from airfl.privacy.accountants import account
from airfl.privacy.events import Event, Gaussian, NonPrivate
from airfl.privacy.gaussian import gaussian_epsilon
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.observer import Participation
from airfl.privacy.statement import Observer, Statement
from airfl.selection import BestK, Candidates, ChannelRule, EnergyBudget, ProportionalFair, Sampling, Threshold
from airfl.uplinks.stages import Batch
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.small_data import world as world_of

Array = NDArray[np.float64]

UNBOUNDED_RAYLEIGH = (
    *("channel.fading=rayleigh", f"channel.mean_gain={math.sqrt(math.pi) / 2!r}"),
    *("channel.min_gain=1e-12", "channel.max_gain=1e12"),
)


def candidates(gains: list[float], **others: list[float]) -> Candidates:
    """Candidates 10, 11, ... with these gains; rates, spent, costs and mean rates as given, or 1, 0, 1, 1."""
    count = len(gains)
    values = {"rates": [1.0] * count, "mean_rates": [1.0] * count, "spent": [0.0] * count, "costs": [1.0] * count}
    arrays = {name: np.array(value, dtype=np.float64) for name, value in (values | others).items()}
    return Candidates(ids=np.arange(10, 10 + count), gains=np.array(gains, dtype=np.float64), **arrays)


def chosen(rule: ChannelRule, given: Candidates, selected: int, seed: int = 0) -> list[int]:
    rows = rule.choose_among(given, selected, np.random.default_rng(seed))
    assert rows.dtype == np.int64
    assert np.all(np.diff(rows) > 0)
    return [int(row) for row in rows]


def scenario_of(*overrides: str, entries: int = 20) -> Scenario:
    settings = small_settings("run.devices=12", "run.selected=3", "scheme.ratio=1.0", *UNBOUNDED_RAYLEIGH, *overrides)
    return build_scenario(settings, entries, np.ones(settings.run.devices))


def opened(scenario: Scenario) -> RoundPlan:
    """The first round."""
    return plan_round(scenario, 0, scenario.memory)


def rounds_of(scenario: Scenario, count: int) -> list[RoundPlan]:
    plans = [opened(scenario)]
    for t in range(1, count):
        plans.append(plan_round(scenario, t, plans[-1].memory))
    return plans


def everybodys_gains(scenario: Scenario, t: int) -> Array:
    """|hhat| of the whole population, flat channels."""
    ids = np.arange(scenario.run.devices)
    csi = scenario.radio.csi_of(t, ids, scenario.frame, scenario.power_limits / scenario.dimension)
    return np.abs(csi.estimate.gains)


def rounds_run(settings: Settings) -> tuple[World, torch.Tensor, list[Record]]:
    """A whole run, round by round, without a trace: the parameters it ends with, and the records."""
    world = world_of(settings)
    state, records = State(0, world.model.initial(), world.scenario.memory), []
    for _ in range(settings.run.rounds):
        state, record = run_round(world, state)
        records.append(record)
    return world, state.parameters, records


# --- the rules ------------------------------------------------------------------------------------------------------

RATED = candidates([0.0] * 4, rates=[4.0, 1.0, 3.0, 2.0], mean_rates=[8.0, 1.0, 2.0, 1.0])
NEVER_SERVED = candidates([0.0] * 4, rates=[4.0, 1.0, 3.0, 2.0], mean_rates=[1e-3, 0.0, 1e-3, 0.0])
TWO_HAVE_SPENT = candidates([0.0] * 6, spent=[0.0, 5.0, 0.0, 0.0, 5.0, 0.0], costs=[5.0] * 6)
SPENT = candidates([0.0] * 5, spent=[9.0, 8.0, 0.0, 7.5, 10.0], costs=[1.0, 2.5, 10.5, 2.0, 0.5])


@pytest.mark.parametrize(
    ("rule", "given", "selected", "wanted"),
    [
        (Threshold(min_gain=0.5), candidates([0.1, 0.5, 0.2, 0.9]), 3, [1, 3]),
        (Threshold(min_gain=1.0), candidates([0.1, 0.5, 0.2, 0.9]), 3, []),
        (Threshold(min_gain=1.0), candidates([]), 3, []),
        (BestK(), candidates([0.1, 0.5, 0.2, 0.9, 0.3]), 2, [1, 3]),
        (BestK(), candidates([0.1, 0.5, 0.2, 0.9, 0.3]), 4, [1, 2, 3, 4]),
        (BestK(), candidates([0.1, 0.5, 0.2, 0.9, 0.3]), 9, [0, 1, 2, 3, 4]),
        (ProportionalFair(), RATED, 1, [3]),
        (ProportionalFair(), RATED, 2, [2, 3]),
        # Whoever was never served comes first, the larger rate before the smaller.
        (ProportionalFair(), NEVER_SERVED, 1, [3]),
        (ProportionalFair(), NEVER_SERVED, 3, [0, 1, 3]),
        (EnergyBudget(energy_budget=10.0), SPENT, 3, [0, 3]),
    ],
)
def test_the_choice_by_hand(rule: ChannelRule, given: Candidates, selected: int, wanted: list[int]) -> None:
    """All above the threshold if fewer, the largest gains or rates over mean rates, whom a budget still covers."""
    assert chosen(rule, given, selected) == wanted


@pytest.mark.parametrize(
    ("rule", "given", "selected", "eligible"),
    [
        (Threshold(min_gain=0.5), candidates([0.1, 0.5, 0.2, 0.9, 0.499, 0.7, 0.5]), 2, [1, 3, 5, 6]),
        (BestK(), candidates([0.5, 0.5, 0.1, 0.5, 0.5]), 2, [0, 1, 3, 4]),
        (EnergyBudget(energy_budget=5.0), TWO_HAVE_SPENT, 2, [0, 2, 3, 5]),
    ],
)
def test_among_equals_chance_decides(rule: ChannelRule, given: Candidates, selected: int, eligible: list[int]) -> None:
    """n = 3,000 choices over all subsets of the eligible: chi-square below its 99.99% point."""
    found = [tuple(chosen(rule, given, selected, seed)) for seed in range(3000)]
    possible = list(itertools.combinations(eligible, selected))
    assert set(found) <= set(possible)
    assert stats.chisquare([found.count(one) for one in possible]).pvalue > 1e-4


@pytest.mark.parametrize("antennas", [1, 3])
@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
def test_in_a_round_the_estimated_gains_choose(fading: str, antennas: int) -> None:
    """Root mean square of |hhat| over antennas and elements, under estimation error: of all candidates, by hand."""
    radio = (f"channel.fading={fading}", f"antennas.count={antennas}", "grid.subcarriers=5", "csi.estimation=mmse")
    noisy = ("csi.pilot_snr_db=0", "selection.min_gain=0.8")
    best, above = (scenario_of(*radio, *noisy, f"selection.kind={kind}") for kind in ("best-k", "threshold"))
    for t in range(5):
        ids = np.arange(12)
        csi = best.radio.csi_of(t, ids, best.frame, best.power_limits / best.dimension)
        known = np.sqrt((np.abs(csi.estimate.response) ** 2).mean(axis=(1, 2, 3)))
        true = np.sqrt((np.abs(csi.state.response) ** 2).mean(axis=(1, 2, 3)))
        assert not np.array_equal(known.argsort(), true.argsort())
        plan = plan_round(best, t, best.memory)
        np.testing.assert_array_equal(plan.devices, np.sort(known.argsort()[-3:]))
        np.testing.assert_array_equal(plan.estimate.response, csi.estimate.response[plan.devices])
        taken = plan_round(above, t, above.memory).devices
        strong = np.flatnonzero(known >= 0.8)
        assert set(taken) <= set(strong)
        assert len(taken) == min(3, len(strong))


# --- proportional fair ----------------------------------------------------------------------------------------------


def test_mean_rates_of_three_rounds_by_hand(tmp_path: Path) -> None:
    """R <- (1 - 1/W) R + rate/W for those served, (1 - 1/W) R for the others, rate = log2(1 + |h|^2 P/(d N_0)),
    N_0 = 2 sigma0^2. W = 4, 10 dB over sigma0^2: the rates of gains 1, 2, .5 are 2.5850, 4.3923, 1.1699."""
    gains = np.array([[1.0, 2.0, 0.5], [0.5, 1.0, 2.0], [2.0, 0.5, 1.0]])
    with h5py.File(tmp_path / "gains.h5", "w") as file:
        file["h"] = gains * np.exp(1j)
    replayed = ("channel.noise_std=3", "channel.fading=replay", f"channel.replay_file={tmp_path / 'gains.h5'}")
    fair = ("selection.kind=proportional-fair", "selection.window=4", "power.max_snr_db=10")
    scenario = scenario_of("run.devices=3", "run.selected=2", "run.rounds=3", *fair, *replayed)
    rate = {gain: math.log2(1 + gain**2 * 10 / 2) for gain in (0.5, 1.0, 2.0)}
    assert rate[1.0] == pytest.approx(2.5850, abs=5e-5)
    np.testing.assert_array_equal(scenario.memory.mean_rate, [0, 0, 0])
    # Nobody was served: the two largest rates. Then device 2, never served, and of 0 and 1 the larger ratio,
    # 1.17/0.49 against 2.59/0.82. Last, 4.40/0.36, 1.17/1.27, 2.59/1.10.
    expected = np.zeros(3)
    for t, (served, plan) in enumerate(zip(([0, 1], [1, 2], [0, 2]), rounds_of(scenario, 3), strict=True)):
        np.testing.assert_array_equal(plan.devices, served)
        expected = 0.75 * expected
        for device in served:
            expected[device] += rate[gains[t, device]] / 4
        np.testing.assert_allclose(plan.memory.mean_rate, expected, rtol=1e-12)
        assert plan.memory.spent is None


@pytest.mark.parametrize(
    "snr", [pytest.param("power.max_snr_db=-15", marks=pytest.mark.full), "power.max_snr_db=[-25.0, -5.0]"]
)
def test_in_the_long_run_shares_are_nearly_equal_and_at_ones_own_peaks(snr: str) -> None:
    """8 devices, 2 a round, W = 50, 400 rounds after 100. Rates are nearly proportional to |h|^2 at such SNR, so
    that a device competes by |h|^2 over its own mean: shares of 1/4 within 5 binomial standard errors and 10% of it
    (strong devices have flatter rates), whether mean SNR are equal or 20 dB apart. Served at the upper quarter of its
    fades, a device sees 1 + ln 4 = 2.39 times its mean power; the average that follows it costs a little."""
    fair = ("selection.kind=proportional-fair", "selection.window=50", snr)
    scenario = scenario_of("run.devices=8", "run.selected=2", *fair)
    snrs = scenario.power_limits / scenario.dimension
    assert (snrs.max() / snrs.min() > 5) == ("[" in snr)
    count, power = np.zeros(8), np.zeros(8)
    for plan in rounds_of(scenario, 500)[100:]:
        count[plan.devices] += 1
        power[plan.devices] += np.abs(plan.channel.gains) ** 2
    shares = count / 400
    assert shares.sum() == pytest.approx(2)
    assert np.all(np.abs(shares - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 400) + 0.025)
    assert np.all(power / count > 1.9)
    assert np.all(power / count < 2.7)
    if "[" in snr:  # by gain times power alone the strong ones would be served nearly always
        greedy = np.zeros(8)
        for t in range(100):
            greedy[np.argsort(everybodys_gains(scenario, t) ** 2 * snrs)[-2:]] += 1
        assert greedy.min() < 0.05 * 100


# --- energy budget --------------------------------------------------------------------------------------------------

BUDGET = (
    *("run.devices=10", "run.selected=4", "run.rounds=8", "run.evaluate_every=8", "local.steps=1", "scheme.ratio=1.0"),
    *("privacy.epsilon=1e6", "power.max_snr_db=10", "selection.kind=energy-budget"),
)
PILOTS = ("csi.estimation=mmse", "csi.pilots=2", "csi.pilot_snr_db=45")


@pytest.mark.parametrize(("allowed", "pilots"), [(2.8e5, ()), (3.5e5, PILOTS)])
def test_a_budget_is_never_exceeded_as_the_link_budget_says(allowed: float, pilots: tuple[str, ...]) -> None:
    """Over a whole run; beta follows the weakest of the round, so devices spend differently, and rest at last."""
    settings = small_settings(*BUDGET, *pilots, f"selection.energy_budget={allowed}")
    scenario = build_scenario(settings, 25_450, np.ones(10))
    plans = rounds_of(scenario, 8)
    _, _, records = rounds_run(settings)
    spent, could_spend = np.zeros(10), np.zeros(10)
    for plan, record in zip(plans, records, strict=True):
        taken, energy = record["device_id"], record["transmit_energy_j"]
        np.testing.assert_array_equal(taken, plan.devices)
        allotted = plan.link.link_budget().devices.energy
        assert np.all(energy <= allotted * (1 + 1e-5))
        spent[taken] += energy
        could_spend[taken] += allotted
        np.testing.assert_allclose(plan.memory.spent, could_spend, rtol=1e-12)
        assert could_spend.max() <= allowed
        if pilots:
            assert np.all(energy > 2 * 10**4.5)
    assert spent.max() <= allowed
    assert sum(record["energy_j"] for record in records) == pytest.approx(spent.sum())
    sizes = [len(plan.devices) for plan in plans]
    assert sizes[0] == 4
    assert min(sizes) < 4
    budget = link_budget(settings)
    np.testing.assert_allclose(budget.round_energy, [plan.link.link_budget().devices.energy.sum() for plan in plans])


def test_a_budget_that_covers_nobody_any_more_lets_everybody_rest() -> None:
    """In the end nobody is selected, and nothing is spent or received."""
    everybody = ("run.devices=3", "run.selected=3", "privacy.epsilon=1e6")
    enough = float(scenario_of(*everybody).most_energy.max())
    scenario = scenario_of(*everybody, "selection.kind=energy-budget", f"selection.energy_budget={enough!r}")
    first, *_, last = rounds_of(scenario, 60)
    assert len(first.devices) == 3
    assert len(last.devices) == 0
    reception = last.link.close()
    assert not reception.mean.any()
    assert reception.report.devices.energy.sum() == 0


@pytest.mark.parametrize(
    ("cost", "pilots"), [(200, ()), (400, ("csi.estimation=ls", "csi.pilots=2", "csi.pilot_snr_db=20"))]
)
def test_a_budget_below_one_round_is_refused(cost: int, pilots: tuple[str, ...]) -> None:
    """A round may take P_i and its pilots; with one device's limit, 20 entries at 10 dB: 200, and 2 pilots at 20 dB."""
    common = ("selection.kind=energy-budget", "power.max_snr_db=10", *pilots)
    scenario = scenario_of(*common, f"selection.energy_budget={cost + 1}")
    np.testing.assert_allclose(scenario.most_energy, cost)
    assert len(opened(scenario).devices) == 3
    with pytest.raises(UserError, match=rf"selection\.energy_budget: {cost - 1} does not cover"):
        scenario_of(*common, f"selection.energy_budget={cost - 1}")


def test_a_budget_holds_where_limits_are_on_the_mean_over_fades() -> None:
    """There a single round may take more than P_i, and what it may take is what has to be covered."""
    fading = ("power.policy=truncated-inversion", "power.threshold=0.1", "power.average_over=fading")
    loose = ("power.max_snr_db=20", "privacy.epsilon=1e6")
    scenario = scenario_of("selection.kind=energy-budget", "selection.energy_budget=3e4", *loose, *fading)
    plans = rounds_of(scenario, 60)
    assert max(plan.link.link_budget().devices.energy.max(initial=0) for plan in plans) > 20 * 100
    for plan in plans:
        assert plan.memory.spent.max() <= 3e4


@pytest.mark.parametrize("link", ["digital", "ideal"])
@pytest.mark.parametrize("mode", ["total", "per-element"])
def test_a_budget_holds_where_messages_are_bits(link: str, mode: str) -> None:
    """A device may send until the deadline; without one, nothing bounds what a round takes."""
    bits = ("scheme.name=fedavg", f"scheme.link={link}", f"digital.power={mode}", "selection.kind=energy-budget")
    bits = (*bits, "grid.subcarriers=4")
    without = (*bits, "selection.energy_budget=1e20")
    with pytest.raises(UserError, match=r"nothing bounds the energy of a round over the (digital|ideal) link"):
        scenario_of(*without)
    most = float(scenario_of(*without, "digital.deadline_s=8e-4").most_energy.max())
    scenario = scenario_of(*bits, f"selection.energy_budget={most!r}", "digital.deadline_s=8e-4")
    spent, sizes = np.zeros(12), []
    for plan in rounds_of(scenario, 60):
        energy = plan.link.link_budget().devices.energy
        assert np.all(energy <= scenario.most_energy[plan.devices] * (1 + 1e-9))
        spent[plan.devices] += energy
        sizes.append(len(plan.devices))
    assert 0 < spent.max() <= most
    assert sizes[0] == 3
    assert min(sizes) < 3


# --- candidates and their pilots ------------------------------------------------------------------------------------


def test_candidates_are_drawn_uniformly_and_the_choice_is_among_them() -> None:
    """Best 1 of 4 candidates of 12 in 300 rounds: everybody is it equally often, by chi-square, and the best of all 12
    is a candidate in a third of them, within 5 standard errors."""
    scenario = scenario_of("run.selected=1", "selection.kind=best-k", "selection.candidates=4")
    counts, best = np.zeros(12), 0
    for t in range(300):
        (device,) = plan_round(scenario, t, scenario.memory).devices
        counts[device] += 1
        best += int(everybodys_gains(scenario, t).argmax() == device)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert abs(best / 300 - 1 / 3) < 5 * math.sqrt(2 / 9 / 300)


def test_candidates_do_not_move_anybodys_fade() -> None:
    """A device has the channel that it has where it is drawn blindly, and its estimate."""
    noisy = ("csi.estimation=mmse", "csi.pilot_snr_db=5")
    everybody = opened(scenario_of(*noisy, "run.selected=12"))
    for kind in ("best-k", "proportional-fair"):
        plan = opened(scenario_of(*noisy, f"selection.kind={kind}", "selection.candidates=7"))
        np.testing.assert_array_equal(plan.channel.gains, everybody.channel.gains[plan.devices])
        np.testing.assert_array_equal(plan.estimate.gains, everybody.estimate.gains[plan.devices])


@pytest.mark.parametrize(("fading", "coefficients"), [("rayleigh", 1), ("tapped-line", 5)])
@pytest.mark.parametrize(("kind", "heard"), [("best-k", 7), ("threshold", 7), ("proportional-fair", 7), ("uniform", 3)])
def test_all_candidates_are_charged_for_their_pilots(kind: str, heard: int, fading: str, coefficients: int) -> None:
    """2 pilots for each of 1 or 5 coefficients, 100 sigma0^2 each, of 7 candidates; the blind rule estimates its r."""
    choice = (f"selection.kind={kind}", "selection.candidates=7", "selection.min_gain=0.1")
    radio = (f"channel.fading={fading}", "grid.subcarriers=5", "channel.noise_std=2")
    link = opened(scenario_of(*choice, *radio, "csi.estimation=mmse", "csi.pilots=2", "csi.pilot_snr_db=20")).link
    report = link.link_budget()
    assert report.pilot_elements == heard * 2 * coefficients
    assert report.use.resource_elements == 20 + report.pilot_elements
    each = 2 * coefficients * 100 * 4.0
    assert report.energy_of_others == pytest.approx((heard - 3) * each)
    link.send(Batch(torch.zeros(3, 20), torch.ones(3)), slice(0, 3))
    np.testing.assert_allclose(link.close().report.devices.energy, [each] * 3)


def test_pilots_at_the_devices_own_power_are_charged_to_each() -> None:
    """By default a pilot has the energy of an element, P_i/d under real packing, and limits differ."""
    scenario = scenario_of("selection.kind=best-k", "csi.estimation=ls", "power.max_snr_db=[0.0, 20.0]")
    plan = opened(scenario)
    plan.link.send(Batch(torch.zeros(3, 20), torch.ones(3)), slice(0, 3))
    report = plan.link.close().report
    np.testing.assert_allclose(report.devices.energy, scenario.power_limits[plan.devices] / 20)
    assert report.energy_of_others == pytest.approx(np.delete(scenario.power_limits, plan.devices).sum() / 20)


def test_energy_of_others_is_in_the_rounds_energy_but_in_nobodys() -> None:
    settings = small_settings("selection.kind=best-k", "selection.candidates=30", *PILOTS, "local.steps=1")
    for record in rounds_run(settings)[2]:
        others = record["energy_j"] - record["transmit_energy_j"].sum()
        assert others == pytest.approx((30 - 8) * 2 * 10**4.5, rel=1e-6)
        assert record["pilot_elements"] == 60


def test_the_mean_is_over_those_that_were_selected() -> None:
    """A threshold that fewer than r pass: what they send is divided by how many they are."""
    strong = ("run.selected=12", "selection.kind=threshold", "selection.min_gain=0.9")
    scenario = scenario_of(*strong, "channel.noise=false")
    plan = opened(scenario)
    count = len(plan.devices)
    assert 1 < count < 12
    np.testing.assert_array_equal(plan.devices, np.flatnonzero(everybodys_gains(scenario, 0) >= 0.9))
    messages = torch.arange(count * 20, dtype=torch.float32).reshape(count, 20)
    plan.link.send(Batch(messages, torch.ones(count)), slice(0, count))
    torch.testing.assert_close(plan.link.close().mean, messages.mean(dim=0))


def test_the_error_of_a_mean_over_fewer_is_relative_to_their_mean() -> None:
    """WFL-P without noise decodes the mean of the clipped updates, to single precision."""
    strong = ("run.selected=12", "selection.kind=threshold", "selection.min_gain=0.9", "channel.noise=false")
    records = rounds_run(small_settings("scheme.name=wfl-p", "run.devices=12", *UNBOUNDED_RAYLEIGH, *strong))[2]
    for record in records:
        assert 1 < len(record["device_id"]) < 12
        assert record["aggregation_error"] < 1e-10 * (record["update_norm"].max() ** 2)


# --- laws of all devices, which are not those of the selected -------------------------------------------------------

BY_CHANNEL = ("best-k", "threshold", "proportional-fair")
TRUNCATED = ("scheme.name=wfl-p", "power.policy=truncated-inversion")
RELYING = {
    "power.policy = 'statistical'": ("scheme.name=wfl-p", "power.policy=statistical"),
    "power.policy = 'statistical-truncation'": ("scheme.name=wfl-p", "power.policy=statistical-truncation"),
    "power.participation": (*TRUNCATED, "power.participation=0.7"),
    'power.average_over = "fading"': (*TRUNCATED, "power.threshold=0.1", "power.average_over=fading"),
    'power.divide_by = "expected"': (*TRUNCATED, "power.threshold=0.1", "power.divide_by=expected"),
}


def with_rule(kind: str, *given: str) -> Scenario:
    settings = small_settings("selection.min_gain=0.5", *UNBOUNDED_RAYLEIGH, f"selection.kind={kind}", *given)
    return build_scenario(settings, 20, np.ones(settings.run.devices))


@pytest.mark.parametrize("kind", BY_CHANNEL)
@pytest.mark.parametrize("setting", RELYING)
def test_what_relies_on_the_law_of_all_devices_is_refused(setting: str, kind: str) -> None:
    said = f"{kind!r} selects by the channels, but {setting} relies on the fading law of all devices"
    with pytest.raises(UserError, match=one_line(said, "use uniform", begins="selection.kind: ")):
        with_rule(kind, *RELYING[setting])
    for other in ("uniform", "poisson"):
        with_rule(other, *RELYING[setting])
    with_rule(kind, *TRUNCATED, "power.threshold=0.1")


@pytest.mark.parametrize("kind", BY_CHANNEL)
@pytest.mark.parametrize("scheme", ["reed", "ncairfl", "affine-oac", "balanced-digits"])
def test_energies_are_decoded_with_the_mean_power_of_all_devices(scheme: str, kind: str) -> None:
    """So that this is refused, but for votes."""
    said = f"{kind!r} selects by the channels, but {scheme!r} is decoded with the mean power of all channels"
    with pytest.raises(UserError, match=one_line(said, "use uniform", begins="selection.kind: ")):
        with_rule(kind, f"scheme.name={scheme}")
    for other in ("uniform", "poisson"):
        with_rule(other, f"scheme.name={scheme}")
    with_rule(kind, "scheme.name=fsk-mv")


# --- nobody ---------------------------------------------------------------------------------------------------------

NOBODY = ("selection.kind=threshold", "selection.min_gain=5", "run.devices=20", "run.selected=4")


@pytest.mark.parametrize("scheme", ["pfels", "wfl-p", "wfl-pdp", "fedavg"])
def test_with_nobody_above_the_threshold_the_model_stays(scheme: str) -> None:
    """Two rounds: parameters to the bit, no energy but the candidates' pilots, nobody heard, and no privacy lost, as
    the choice is by the channel, so that who took part tells nothing."""
    settings = small_settings(*NOBODY, *PILOTS, f"scheme.name={scheme}", "run.evaluate_every=1")
    world, final, records = rounds_run(settings)
    assert torch.equal(final, world.model.initial())
    for record in records:
        assert len(record["device_id"]) == record["heard"] == record["noise_std"] == 0
        assert record["energy_j"] == pytest.approx(20 * 2 * 10**4.5)
        assert record["pilot_elements"] == 40
        if scheme != "fedavg":
            assert record["epsilon"] == record["epsilon_round"] == 0
    budget = link_budget(small_settings(*NOBODY, f"scheme.name={scheme}"))
    assert budget.energy_j == budget.silent_share == 0


# --- the ledger -----------------------------------------------------------------------------------------------------


def ledger_of(sampling: Sampling, devices: int = 1000, selected: int = 2) -> PrivacyLedger:
    return PrivacyLedger(Statement("client", sampling, selected, devices, "third_party", 1e-3))


def test_own_rounds_compose_as_gaussians_and_the_worst_device_counts() -> None:
    """mu^2 = sum over a device's own rounds of (2/multiplier)^2: device 1 in rounds 0 and 2, device 3 in round 1."""
    ledger, at_once = ledger_of("by_channel", devices=4), ledger_of("by_channel", devices=4)
    bare = math.sqrt(0.25 + (2 / 0.9) ** 2)
    rounds = [(7.0, [], 0.0), (4.0, [0, 1], 0.5), (1.0, [3], 2.0), (0.9, [1, 2], bare), (3.0, [], bare)]
    for multiplier, who, mu in rounds:
        devices = np.array(who, dtype=np.int64)
        each = ledger.record(Gaussian(multiplier), compose=True, devices=devices)
        assert each.epsilon == pytest.approx(gaussian_epsilon(1e-3, mu), rel=1e-12)
        figures = at_once.record(Gaussian(multiplier), multiplier == 3.0, devices, last=True)
    assert figures.epsilon == pytest.approx(gaussian_epsilon(1e-3, bare), rel=1e-12)
    # Exact but for what a lower bound leaves out to be one.
    assert figures.epsilon * (1 - 1e-8) <= figures.epsilon_at_least <= figures.epsilon


def test_participation_tells_by_how_much_the_worst_has_grown() -> None:
    """What brings the largest sum of 1/z^2 there, each time it has grown."""
    own = Participation(4)
    told: list[tuple[Event, int]] = []
    for multiplier, devices in ((2.0, [0, 1]), (4.0, [2]), (2.0, [2]), (1.0, [1]), (5.0, [])):
        own.enter(Gaussian(multiplier), np.array(devices, dtype=np.int64))
        told.extend(own.new_releases().parts)
    assert own.new_releases().parts == ()
    composed = account("closed-form", "replace_one")
    for event, count in told:
        composed.compose(event, count)
    # Device 2 came to 1/16 + 1/4 above the 1/4 of device 0; device 1 is at 1/4 + 1.
    assert [count for _, count in told] == [1, 1, 1]
    assert composed.epsilon(1e-3) == pytest.approx(gaussian_epsilon(1e-3, 2 * math.sqrt(1.25)), rel=1e-12)
    own.enter(NonPrivate(), np.array([], dtype=np.int64))
    assert own.new_releases().parts == ()
    own.enter(NonPrivate(), None)
    assert own.new_releases().parts == ((NonPrivate(), 1),)


@pytest.mark.parametrize(
    ("sampling", "observer", "sensitivity"),
    [
        *(("by_channel", "third_party", 2.0), ("by_channel", "server", 2.0)),
        *(("without_replacement", "server", 2.0), ("poisson", "server", 1.0)),
    ],
)
def test_nothing_is_amplified_of_known_devices(sampling: Sampling, observer: Observer, sensitivity: float) -> None:
    """By the channel, and to the server whatever drew the devices: device 7 pays for each round in full."""
    ledger = PrivacyLedger(Statement("client", sampling, 2, 1000, observer, 1e-3))
    assert not ledger.statement.hidden
    for t in range(1, 5):
        figures = ledger.record(Gaussian(8.0), compose=True, devices=np.array([7, 100 + t]))
        exact = gaussian_epsilon(1e-3, sensitivity / 8.0 * math.sqrt(t))
        assert figures.epsilon == pytest.approx(exact, rel=1e-12)
    assert figures.epsilon_round == pytest.approx(gaussian_epsilon(1e-3, sensitivity / 8.0), rel=1e-12)
    # The literature's convention hides the device all the same.
    assert figures.epsilon_as_poisson < figures.epsilon / 10
    blind = ledger_of("without_replacement")
    assert [blind.record(Gaussian(8.0), compose=True) for _ in range(4)][-1].epsilon < figures.epsilon / 2
    # What was released without noise stays released.
    assert ledger.record(Gaussian(0.0), compose=True, devices=np.array([1])).epsilon == math.inf
    assert ledger.record(Gaussian(8.0), compose=True, devices=np.array([1])).epsilon == math.inf


def test_epsilon_of_a_run_is_that_of_its_worst_device() -> None:
    """From nothing but the record: who took part in which round, and at which noise multiplier."""
    few = ("selection.candidates=12", "run.devices=16", "run.selected=3", "run.rounds=6", "run.evaluate_every=3")
    settings = small_settings("selection.kind=best-k", *few, "local.steps=1", "scheme.name=wfl-p")
    _, _, records = rounds_run(settings)
    squared = np.zeros(16)
    for rounds, record in enumerate(records, start=1):
        multiplier = record["noise_multiplier"]
        squared[record["device_id"]] += (2 / multiplier) ** 2
        assert record["epsilon_round"] == pytest.approx(gaussian_epsilon(settings.delta, 2 / multiplier), rel=1e-9)
        if rounds % 3 == 0:
            expected = gaussian_epsilon(settings.delta, math.sqrt(squared.max()))
            assert record["epsilon"] == pytest.approx(expected, rel=1e-9)
    assert len(np.unique(squared)) > 2


@pytest.mark.parametrize("kind", ["best-k", "threshold", "proportional-fair", "energy-budget"])
def test_no_rule_by_the_channel_is_amplified(kind: str) -> None:
    scenario = scenario_of(f"selection.kind={kind}", "selection.min_gain=0.02", "selection.energy_budget=1e9")
    assert scenario.statement.sampling == "by_channel"


def test_the_link_budget_counts_rounds_without_amplification() -> None:
    settings = small_settings("selection.kind=best-k", "run.rounds=3", "scheme.name=wfl-p", "privacy.delta=0.01")
    scenario = build_scenario(settings, 25_450, np.ones(100))
    least = min(noise_multiplier(scenario, plan.link.link_budget()) for plan in rounds_of(scenario, 3))
    budget = link_budget(settings)
    assert budget.noise_multiplier_min == pytest.approx(least, rel=1e-12)
    assert budget.epsilon_round_max == pytest.approx(gaussian_epsilon(0.01, 2 / least), rel=1e-9)
