"""The power of a resource element at a device's limit, which peak limits, pilots and selection rates refer to.

Computed by hand from the settings: in physical units the transmit power over the used subcarriers, for either packing;
in normalised units P_i/d = SNR sigma_0^2 per entry, and twice that if two entries share an element.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erfc

from airfl.core.building import build_scenario
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.core.scenario import Scenario
from airfl.uplinks import Reception
from tests.conftest import small_settings
from tests.laws.decoding import everybody, send
from tests.laws.samples import assert_mean

Array = NDArray[np.float64]

BOLTZMANN = 1.380649e-23
DEVICES = 10
SUBCARRIERS = 48
ENTRIES = 4000  # 84 or 42 symbols of 48 subcarriers, the last one filled in part
SYMBOL_S = 1e-3 / 14
UNITS = ["normalised", "physical"]
PACKINGS = ["real", "iq"]


def scenario_of(units: str, packing: str, *overrides: str, gain: float = 1.0) -> Scenario:
    """Ten devices with this |h|, all in every round, messages of norm sqrt(ENTRIES); 13 dB an entry, or 20 dBm."""
    if units == "physical":
        radio: tuple[str, ...] = ("channel.units=physical", "power.tx_power_dbm=20")
    else:
        radio = ("power.max_snr_db=13", "channel.noise_std=3", "channel.min_gain=1e-12", "channel.max_gain=1e12")
    fixed = (f"local.clip_norm={math.sqrt(ENTRIES)!r}", "channel.fading=fixed", f"channel.mean_gain={gain!r}")
    grid = (f"grid.subcarriers={SUBCARRIERS}", f"grid.packing={packing}")
    settings = small_settings(*everybody(DEVICES), *fixed, *grid, *radio, *overrides)
    return build_scenario(settings, ENTRIES, np.ones(DEVICES))


def element_energy(units: str, packing: str) -> float:
    """By hand: 0.1 W over 48 subcarriers, or 13 dB over sigma_0^2 = 9 for each entry."""
    if units == "physical":
        return 0.1 / SUBCARRIERS
    return 10**1.3 * 9 * (2 if packing == "iq" else 1)


def complex_noise(units: str) -> float:
    """N_0: k_B 290 K F 15 kHz, with the noise figure of the settings; 2 sigma_0^2."""
    if units == "physical":
        return BOLTZMANN * 290 * 10**0.7 * 15e3
    return 2 * 9.0


def sent(scenario: Scenario, messages: Array) -> tuple[RoundPlan, Reception]:
    plan = plan_round(scenario, 0, scenario.memory)
    return plan, send(plan, messages)


# --- peak limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("peak_db", [0.0, 3.0, 6.0])
def test_the_share_of_gaussian_elements_that_is_cut(units: str, packing: str, peak_db: float) -> None:
    """The energy of an element is over kappa times its mean with probability 2 Q(sqrt(kappa)) where it holds a real
    Gaussian entry and e^-kappa where it holds two: n = 40,000 or 20,000 elements, within 5 standard errors. At 3 dB
    that is 13.6% of the I/Q elements. What is left has kappa times the element's energy at most, and reaches it. Of
    complex Gaussian elements of mean energy 1, E(|x| - sqrt(kappa))^2 over those that are cut is e^-kappa -
    sqrt(pi kappa) erfc(sqrt(kappa)): within 5 standard errors."""
    kappa = 10 ** (peak_db / 10)
    scenario = scenario_of(units, packing, f"power.peak_db={peak_db}", "power.peak=clip", "trace.signals=true")
    messages = np.random.default_rng(5).standard_normal((DEVICES, ENTRIES))
    _, reception = sent(scenario, messages)
    elements = ENTRIES if packing == "real" else ENTRIES // 2
    law = erfc(math.sqrt(kappa / 2)) if packing == "real" else math.exp(-kappa)
    share = reception.report.clipped_share
    assert abs(share - law) < 5 * math.sqrt(law * (1 - law) / (DEVICES * elements))
    power = np.abs(reception.signals.tx.astype(np.complex128)) ** 2
    assert power.max() == pytest.approx(kappa * element_energy(units, packing), rel=1e-5)
    assert (np.isclose(power, power.max(), rtol=1e-5)).mean() == pytest.approx(share, abs=2e-4)
    if packing == "iq":
        given = np.abs(messages[:, 0::2] + 1j * messages[:, 1::2]) / math.sqrt(2)
        missing = (given - np.sqrt(power / element_energy(units, "iq"))) ** 2
        assert_mean(missing, law - math.sqrt(math.pi * kappa) * erfc(math.sqrt(kappa)))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_whole_message_on_one_element_backs_off_to_the_peak(units: str, packing: str) -> None:
    """beta^2 C^2 = kappa times the energy of an element, kappa below the number of elements: of a message that is one
    entry at the norm C every element has just that."""
    kappa = 10**1.5
    scenario = scenario_of(units, packing, "power.peak_db=15", "trace.signals=true", gain=0.25)
    message = np.zeros((DEVICES, ENTRIES))
    message[:, 8] = math.sqrt(ENTRIES)
    plan, reception = sent(scenario, message)
    power = np.abs(reception.signals.tx.astype(np.complex128)) ** 2
    np.testing.assert_allclose(power.max(axis=1), kappa * element_energy(units, packing), rtol=1e-5)
    beta = plan.link.link_budget().alignment_coefficient
    assert beta**2 * ENTRIES == pytest.approx(kappa * element_energy(units, packing) * 0.25**2, rel=1e-9)
    assert reception.report.clipped_share == 0


# --- pilots ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_pilot_has_what_an_element_of_data_has(units: str, packing: str) -> None:
    """In the account, and in the noise of a least squares estimate, hhat - h ~ CN(0, N_0/E): n = 10 devices of 48
    coefficients in 30 rounds, |CN|^2 within 5 standard errors of its mean."""
    energy, unit = element_energy(units, packing), SYMBOL_S if units == "physical" else 1.0
    elements = ENTRIES if packing == "real" else ENTRIES // 2
    data = (
        plan_round(scenario_of(units, packing), 0, scenario_of(units, packing).memory).link.link_budget().devices.energy
    )
    np.testing.assert_allclose(data, elements * energy * unit, rtol=1e-9)

    gain = 1.0 if units == "normalised" else 1e-6
    scenario = scenario_of(units, packing, "csi.estimation=ls", "channel.fading=tapped-line", gain=gain)
    # With a threshold that nobody reaches all are listened to and nothing but pilots is sent.
    nobody = ("selection.kind=threshold", "selection.min_gain=1e9")
    listening = scenario_of(units, packing, "csi.estimation=ls", "channel.fading=tapped-line", *nobody, gain=gain)
    charged = plan_round(listening, 0, listening.memory).link.link_budget().energy_of_others
    assert charged == pytest.approx(DEVICES * SUBCARRIERS * energy * unit, rel=1e-9)

    found = []
    for t in range(30):
        plan = plan_round(scenario, t, scenario.memory)
        found.append(np.abs(plan.estimate.response - plan.channel.response) ** 2)
    law = complex_noise(units) / energy
    assert np.shape(found) == (30, DEVICES, 1, 1, SUBCARRIERS)
    assert abs(np.mean(found) / law - 1) < 5 / math.sqrt(np.size(found))


# --- the rate of proportional-fair selection -------------------------------------------------------------------------


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("packing", PACKINGS)
def test_the_rate_that_selection_remembers(units: str, packing: str) -> None:
    """log2(1 + |h|^2 E/N_0) bit/s/Hz of a complex element of energy E: after one round with a window of 4 a device that
    was served has a quarter of it."""
    gain = 0.1 if units == "normalised" else 1e-6
    chosen = ("selection.kind=proportional-fair", "selection.window=4", "run.selected=3")
    scenario = scenario_of(units, packing, *chosen, gain=gain)
    plan = plan_round(scenario, 0, scenario.memory)
    rate = math.log2(1 + gain**2 * element_energy(units, packing) / complex_noise(units))
    assert 0.05 < rate < 20
    np.testing.assert_allclose(plan.memory.mean_rate[plan.devices], rate / 4, rtol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    "disturbance",
    [
        ("channel.interference_to_noise_db=7",),
        ("csi.frequency_offset_hz=5000",),
        ("csi.timing_offset_s=3e-5",),
        ("channel.fading=tapped-line", "channel.delay_spread_s=5e-6"),
        ("channel.fading=tapped-line", "channel.delay_spread_s=5e-6", "csi.timing_offset_s=3e-5"),
        ("channel.interference_to_noise_db=7", "antennas.count=3"),
    ],
    ids=" ".join,
)
def test_the_rate_of_selection_is_at_the_sinr(units: str, disturbance: tuple[str, ...]) -> None:
    """log2(1 + S/(N_0 (1 + I) + L)) with S what is left on a device's own elements and L the rest of what is received
    of it: offsets take the share 1 - |h'/h|^2 of all, and late paths come on top of |h|^2; antennas added up,
    the mean of the rates of all elements. Of three rounds."""
    gain = 0.5 if units == "normalised" else 1e-6
    chosen = ("selection.kind=proportional-fair", "selection.window=1", "run.selected=3")
    scenario = scenario_of(units, "real", *chosen, *disturbance, gain=gain)
    more = 10**0.7 if "interference" in disturbance[0] else 0.0
    for t in range(3):
        plan = plan_round(scenario, t, scenario.memory)
        true, known = (np.abs(one.response) ** 2 for one in (plan.channel, plan.estimate))
        leaked_power = 0.0 if plan.channel.leaked_power is None else plan.channel.leaked_power.mean(axis=(1, 2))
        heard = known.sum(axis=1).mean(axis=(1, 2)) + leaked_power
        kept = known.sum(axis=1) * (true / known).mean(axis=(1, 2, 3))[:, None, None]
        energy, noise = element_energy(units, "real"), complex_noise(units) * (1 + more)
        leaked = (heard - kept.mean(axis=(1, 2)))[:, None, None]
        rate = np.log2(1 + kept * energy / (noise + leaked * energy)).mean(axis=(1, 2))
        np.testing.assert_allclose(plan.memory.mean_rate[plan.devices], rate, rtol=1e-5)
