"""Effect of a device's line of sight on its fading: the K-factor of its law, moments, ageing, and Sionna's models."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import j0

from airfl.core.scenario import Scenario
from airfl.uplinks.radio import checks, laws, power
from channels.fading import FADING_LAWS
from channels.selective import SELECTIVE_MODELS
from tests.conftest import small_settings
from tests.laws.decoding import built
from tests.laws.samples import Array, assert_law, assert_mean

RICIAN = ("channel.units=physical", "channel.fading=rician", "topology.kind=disc", "run.selected=4")
DEVICES, ROUNDS = 200, 50


def scenario_of(*overrides: str, devices: int = DEVICES) -> Scenario:
    return built(27, *RICIAN, "grid.subcarriers=8", "scheme.name=wfl-p", f"run.devices={devices}", *overrides)


def faded(scenario: Scenario) -> tuple[Array, NDArray[np.bool_]]:
    """|h|^2 over the path's own power, [rounds, devices], and who is in line of sight."""
    drop, ids = scenario.radio.drop, np.arange(DEVICES)
    found = [scenario.radio.channel(t, ids, scenario.frame).response[:, 0, 0, 0] for t in range(ROUNDS)]
    return np.abs(np.array(found)) ** 2 * 10 ** (drop.path_loss_db / 10), drop.line_of_sight


def assert_rician(powers: Array, k: Array | float) -> None:
    """Powers [rounds, devices] of mean 1 may come from these K: 2 (K + 1) |h|^2 is chi-square, about 2 K."""
    assert_law(stats.ncx2.cdf(2 * (np.asarray(k) + 1) * powers, 2, 2 * np.asarray(k)).ravel(), "uniform")


@pytest.mark.parametrize(("model", "radius_m"), [("umi", 120), ("uma", 200), ("rma", 900)])
def test_a_device_in_line_of_sight_is_rician_and_another_is_rayleigh(model: str, radius_m: float) -> None:
    """200 devices, 50 rounds: the law of K = 6 in line of sight, the exponential law of |h|^2 without, unit power."""
    scenario = scenario_of("channel.rician_k=6.0", f"topology.path_loss={model}", f"topology.radius_m={radius_m}")
    powers, seen = faded(scenario)
    assert 20 < seen.sum() < DEVICES - 20
    assert_rician(powers[:, seen], 6.0)
    assert_law(powers[:, ~seen].ravel(), stats.expon.cdf)
    for some, k in ((seen, 6.0), (~seen, 0.0)):  # E|h|^4 = (2 + 4 K + K^2)/(1 + K)^2
        spread = math.sqrt((2 + 4 * k + k**2) / (1 + k) ** 2 - 1)
        assert abs(powers[:, some].mean() - 1) < 5 * spread / math.sqrt(powers[:, some].size)
    np.testing.assert_allclose(scenario.radio.mean_power, 10 ** (-scenario.radio.drop.path_loss_db / 10), rtol=1e-12)
    assert scenario.radio.fades is None
    assert scenario.radio.law is None


def test_k_is_drawn_by_the_table_for_each_device() -> None:
    """200 devices, 50 rounds: every device follows the law of the K that was drawn for it, 0 without line of sight."""
    scenario = scenario_of("channel.rician_k=tr38901", "topology.radius_m=120.0")
    powers, seen = faded(scenario)
    k = scenario.radio.drop.k_factor
    assert len(np.unique(k)) == seen.sum() + 1
    assert_rician(powers, k)
    spread = (1 + 2 * k) / (1 + k) ** 2  # variance of |h|^2
    assert stats.spearmanr(powers[:, seen].var(axis=0), spread[seen]).statistic > 0.8
    mean_gain = stats.rice.mean(np.sqrt(2 * k), scale=np.sqrt(1 / (2 * (k + 1))))
    amplitude = 10 ** (-scenario.radio.drop.path_loss_db / 20)
    np.testing.assert_allclose(scenario.radio.scale, mean_gain * amplitude, rtol=1e-9)


@pytest.mark.parametrize(
    ("law", "overrides"),
    [
        (FADING_LAWS["rician"](k=4.0), ("topology.los=los",)),
        (FADING_LAWS["rician"](k=4.0), ("topology.path_loss=log-distance",)),
        (FADING_LAWS["rician"](k=4.0), ("topology.kind=none", "topology.los=nlos")),
        (FADING_LAWS["rayleigh"](), ("topology.los=nlos",)),
        (FADING_LAWS["rayleigh"](), ("topology.los=nlos", "topology.path_loss=log-distance")),
    ],
)
def test_where_all_have_one_state_the_law_is_known(law: Any, overrides: tuple[str, ...]) -> None:
    """And so are thresholds by participation, E[1/|h|^2] and expected senders."""
    whole = ("power.policy=truncated-inversion", "power.participation=0.8", "power.divide_by=expected")
    settings = small_settings(*RICIAN, "channel.rician_k=4.0", *overrides, *whole)
    checks.check_radio(settings.radio, settings.run.devices)
    least_power = power.power_policy(settings.radio).least_power
    assert laws.statistics_of(settings.radio).exceedance(least_power) == pytest.approx(0.8, abs=1e-6)
    found, gains = laws.fading_law(settings.channel, settings.topology, settings.blockage), np.linspace(0.1, 2, 20)
    np.testing.assert_array_equal(found.cdf(gains), law.law().cdf(gains))


def test_other_laws_do_not_look_at_the_line_of_sight() -> None:
    """Rayleigh, exponential, Nakagami and `fixed` are one law for all, whoever is in line of sight."""
    for fading in ("rayleigh", "exponential", "nakagami", "fixed"):
        assert scenario_of(f"channel.fading={fading}").radio.k_factors is None


def test_only_what_comes_by_the_line_of_sight_keeps_its_phase() -> None:
    """K = 6, an exact estimate 3 ms old at 30 m/s whose turn is known: E[h' hhat*]/P = (K + rho)/(K + 1) in line of
    sight, rho = J0(2 pi f_D 3 ms) without, and E|h'|^2 = P. 200 devices, 50 rounds, 5 of their own standard errors."""
    moving = ("channel.speed_m_s=30.0", "csi.delay_s=0.003", "csi.los_doppler=known")
    scenario = scenario_of("channel.rician_k=6.0", *moving)
    seen, h, hhat = scenario.radio.drop.line_of_sight, *np.empty((2, ROUNDS, DEVICES), dtype=complex)
    for t in range(ROUNDS):
        known = scenario.radio.csi_of(t, np.arange(DEVICES), scenario.frame, np.ones(DEVICES))
        h[t], hhat[t] = known.state.response[:, 0, 0, 0], known.estimate.response[:, 0, 0, 0]
    rho = j0(2 * math.pi * 30 * 3.5e9 / 299_792_458 * 0.003)
    for some, expected in ((seen, (6 + rho) / 7), (~seen, rho)):
        assert_mean((h * hhat.conj() / scenario.radio.mean_power)[:, some], expected)
        assert_mean((np.abs(h) ** 2 / scenario.radio.mean_power)[:, some], 1.0)


@pytest.mark.parametrize("model", ["umi", "uma", "rma"])
def test_sionnas_cells_have_the_state_that_the_path_loss_has(model: str) -> None:
    """One state a device: its loss before shadowing is that of its state, and its response is what the model gives for
    that state and no other; on a mast as high as the scenario's, without a word about either."""
    pytest.importorskip("sionna")
    given = (f"channel.fading={model}", "topology.shadowing_std_db=0.0", "topology.radius_m=300.0")
    scenario = scenario_of(*given, devices=12)
    radio, ids = scenario.radio, np.arange(12)
    seen, far = radio.drop.line_of_sight, np.hypot(*radio.drop.positions_m[:, :2].T)
    assert 0 < seen.sum() < 12
    mast_m = {"umi": 10.0, "uma": 25.0, "rma": 35.0}[model]
    np.testing.assert_allclose(radio.drop.distance_m, np.hypot(far, mast_m - 1.5), rtol=1e-12)
    for los, some in (("los", seen), ("nlos", ~seen)):
        alike = scenario_of(*given, f"topology.los={los}", devices=12).radio.drop
        np.testing.assert_array_equal(radio.drop.path_loss_db[some], alike.path_loss_db[some])
    asked = radio._request(0, ids, scenario.frame)
    assert asked.base_height_m == mast_m
    found = radio.channel(0, ids, scenario.frame).response / radio.scale.astype(np.float32)[:, None, None, None]
    for state in (True, False):
        other = SELECTIVE_MODELS[model]().respond(replace(asked, line_of_sight=np.full(12, state))).response
        same = np.isclose(found, other, rtol=1e-4, atol=1e-6).all(axis=(1, 2, 3))
        np.testing.assert_array_equal(same, seen == state)
