"""The power of a resource element at a device's limit, which peak limits, pilots and selection rates refer to.

Computed by hand from the settings: in physical units the transmit power over the used subcarriers, for either packing;
in normalised units P_i/d = SNR sigma_0^2 per entry, and twice that if two entries share an element.
"""

import math

import numpy as np
import pytest
from scipy.special import erfc

from airfl.core.scenario import Scenario
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import assert_mean

DEVICES, SUBCARRIERS = 10, 48
ENTRIES = 4000  # 84 or 42 symbols of 48 subcarriers, the last one filled in part
in_both_units = pytest.mark.parametrize("units", ["normalised", "physical"])
with_both_packings = pytest.mark.parametrize("packing", ["real", "iq"])


def scenario_of(units: str, packing: str, *overrides: str, gain: float = 1.0) -> Scenario:
    """Ten devices with this |h|, all in every round, messages of norm sqrt(ENTRIES); 13 dB an entry, or 20 dBm."""
    normalised = ("power.max_snr_db=13", "channel.noise_std=3", "channel.min_gain=1e-12", "channel.max_gain=1e12")
    radio = ("channel.units=physical", "power.tx_power_dbm=20") if units == "physical" else normalised
    fixed = (f"local.clip_norm={math.sqrt(ENTRIES)!r}", "channel.fading=fixed", f"channel.mean_gain={gain!r}")
    grid = (f"grid.subcarriers={SUBCARRIERS}", f"grid.packing={packing}")
    return built(ENTRIES, *everybody(DEVICES), *fixed, *grid, *radio, *overrides)


def element_energy(units: str, packing: str) -> float:
    """By hand: 0.1 W over 48 subcarriers, or 13 dB over sigma_0^2 = 9 for each entry."""
    return 0.1 / SUBCARRIERS if units == "physical" else 10**1.3 * 9 * (2 if packing == "iq" else 1)


def complex_noise(units: str) -> float:
    """N_0: k_B 290 K F 15 kHz, with the noise figure of the settings; 2 sigma_0^2."""
    return 1.380649e-23 * 290 * 10**0.7 * 15e3 if units == "physical" else 2 * 9.0


@in_both_units
@with_both_packings
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
    reception = send(planned(scenario), messages)
    elements = ENTRIES if packing == "real" else ENTRIES // 2
    law = erfc(math.sqrt(kappa / 2)) if packing == "real" else math.exp(-kappa)
    share, power = reception.report.clipped_share, np.abs(reception.signals.tx.astype(np.complex128)) ** 2
    assert abs(share - law) < 5 * math.sqrt(law * (1 - law) / (DEVICES * elements))
    assert power.max() == pytest.approx(kappa * element_energy(units, packing), rel=1e-5)
    assert (np.isclose(power, power.max(), rtol=1e-5)).mean() == pytest.approx(share, abs=2e-4)
    if packing == "iq":
        given = np.abs(messages[:, 0::2] + 1j * messages[:, 1::2]) / math.sqrt(2)
        missing = (given - np.sqrt(power / element_energy(units, "iq"))) ** 2
        assert_mean(missing, law - math.sqrt(math.pi * kappa) * erfc(math.sqrt(kappa)))


@in_both_units
@with_both_packings
def test_a_whole_message_on_one_element_backs_off_to_the_peak(units: str, packing: str) -> None:
    """beta^2 C^2 is kappa times an element's energy: just that of every message that is one entry at the norm C."""
    plan = planned(scenario_of(units, packing, "power.peak_db=15", "trace.signals=true", gain=0.25))
    reception = send(plan, np.tile(math.sqrt(ENTRIES) * np.eye(ENTRIES)[8], (DEVICES, 1)))
    power, largest = np.abs(reception.signals.tx.astype(np.complex128)) ** 2, 10**1.5 * element_energy(units, packing)
    np.testing.assert_allclose(power.max(axis=1), largest, rtol=1e-5)
    beta = plan.link.link_budget().alignment_coefficient
    assert beta**2 * ENTRIES == pytest.approx(largest * 0.25**2, rel=1e-9)
    assert reception.report.clipped_share == 0


@in_both_units
@with_both_packings
def test_a_pilot_has_what_an_element_of_data_has(units: str, packing: str) -> None:
    """In the account, and in the noise of a least squares estimate, hhat - h ~ CN(0, N_0/E): n = 10 devices of 48
    coefficients in 30 rounds, |CN|^2 within 5 standard errors of its mean."""
    energy, unit = element_energy(units, packing), 1e-3 / 14 if units == "physical" else 1.0
    elements = ENTRIES if packing == "real" else ENTRIES // 2
    data = planned(scenario_of(units, packing)).link.link_budget().devices
    np.testing.assert_allclose(data.energy, elements * energy * unit, rtol=1e-9)

    gain, given = 1.0 if units == "normalised" else 1e-6, ("csi.estimation=ls", "channel.fading=tapped-line")
    # With a threshold that nobody reaches all are listened to and nothing but pilots is sent.
    nobody = ("selection.kind=threshold", "selection.min_gain=1e9")
    listening = scenario_of(units, packing, *given, *nobody, gain=gain)
    charged = planned(listening).link.link_budget().energy_of_others
    assert charged == pytest.approx(DEVICES * SUBCARRIERS * energy * unit, rel=1e-9)

    scenario = scenario_of(units, packing, *given, gain=gain)
    plans = [planned(scenario, t) for t in range(30)]
    found = np.array([np.abs(plan.estimate.response - plan.channel.response) ** 2 for plan in plans])
    assert found.shape == (30, DEVICES, 1, 1, SUBCARRIERS)
    assert abs(found.mean() / complex_noise(units) * energy - 1) < 5 / math.sqrt(found.size)


@in_both_units
@with_both_packings
def test_the_rate_that_selection_remembers(units: str, packing: str) -> None:
    """log2(1 + |h|^2 E/N_0) of a complex element of energy E: a quarter of it after a round with a window of 4."""
    gain = 0.1 if units == "normalised" else 1e-6
    chosen = ("selection.kind=proportional-fair", "selection.window=4", "run.selected=3")
    plan = planned(scenario_of(units, packing, *chosen, gain=gain))
    rate = math.log2(1 + gain**2 * element_energy(units, packing) / complex_noise(units))
    assert 0.05 < rate < 20
    np.testing.assert_allclose(plan.memory.mean_rate[plan.devices], rate / 4, rtol=1e-6)


INTERFERENCE, LATE = "channel.interference_to_noise_db=7", "csi.timing_offset_s=3e-5"
LONG = ("channel.fading=tapped-line", "channel.delay_spread_s=5e-6")
OFF = ("csi.frequency_offset_hz=5000",)


@in_both_units
@pytest.mark.parametrize(
    "given", [(INTERFERENCE,), OFF, (LATE,), LONG, (*LONG, LATE), (INTERFERENCE, "antennas.count=3")], ids=" ".join
)
def test_the_rate_of_selection_is_at_the_sinr(units: str, given: tuple[str, ...]) -> None:
    """log2(1 + S/(N_0 (1 + I) + L)) with S what is left on a device's own elements and L the rest of what is received
    of it: offsets take the share 1 - |h'/h|^2 of all, late paths come on top of |h|^2; the mean over
    elements of three rounds, antennas added up."""
    gain = 0.5 if units == "normalised" else 1e-6
    chosen = ("selection.kind=proportional-fair", "selection.window=1", "run.selected=3")
    scenario = scenario_of(units, "real", *chosen, *given, gain=gain)
    energy, noise = element_energy(units, "real"), complex_noise(units) * (1 + 10**0.7 * (INTERFERENCE in given))
    for plan in (planned(scenario, t) for t in range(3)):
        true, known = (np.abs(one.response) ** 2 for one in (plan.channel, plan.estimate))
        leaked_power = 0.0 if plan.channel.leaked_power is None else plan.channel.leaked_power.mean(axis=(1, 2))
        heard = known.sum(axis=1).mean(axis=(1, 2)) + leaked_power
        kept = known.sum(axis=1) * (true / known).mean(axis=(1, 2, 3))[:, None, None]
        leaked = (heard - kept.mean(axis=(1, 2)))[:, None, None]
        rate = np.log2(1 + kept * energy / (noise + leaked * energy)).mean(axis=(1, 2))
        np.testing.assert_allclose(plan.memory.mean_rate[plan.devices], rate, rtol=1e-5)
