"""Power of an analog device that sends fewer resource elements than the band has subcarriers.

With `power.spread = "message"` the elements of an OFDM symbol share the transmit power, so that a message of E < K
elements uses power x symbol, and the error of the mean is E/K of the error with 1/K of the power on every element.
"""

import math

import numpy as np
import pytest

from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.uplinks import Reception
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array
from tests.refusals import one_line

POWER_W, SYMBOL_S, GAIN = 0.1, 1e-3 / 14, 1e-6
DEVICES, DIMENSION = 6, 240
with_both_packings = pytest.mark.parametrize("packing", ["real", "iq"])


def scenario_of(entries: int, subcarriers: int, spread: str, *overrides: str) -> Scenario:
    """Devices of 20 dBm and one gain, all in every round; rand-k keeps so many of 240 entries, messages of norm 1."""
    scheme = ("scheme.name=pfels", f"scheme.ratio={entries / DIMENSION!r}", "privacy.epsilon=inf")
    channel = ("channel.units=physical", "channel.fading=fixed", f"channel.mean_gain={GAIN!r}")
    power = ("power.tx_power_dbm=20", f"power.spread={spread}", f"grid.subcarriers={subcarriers}")
    norm = f"local.clip_norm={math.sqrt(DIMENSION / entries)!r}"
    scenario = built(DIMENSION, *everybody(DEVICES), *scheme, norm, *channel, *power, *overrides)
    assert scenario.bound.entries == entries
    return scenario


def elements_of(entries: int, packing: str) -> int:
    return entries if packing == "real" else math.ceil(entries / 2)


def messages_of(entries: int) -> Array:
    """Of norm 1, all entries alike but for their signs, so that a symbol's energy is its share of the elements."""
    signs = np.sign(np.random.default_rng(1).standard_normal((DEVICES, entries)))
    return np.asarray(signs / math.sqrt(entries))


def sent(scenario: Scenario, messages: Array, t: int = 0) -> Reception:
    return send(planned(scenario, t), messages)


def symbol_powers(reception: Reception, subcarriers: int) -> Array:
    """Of each device in each OFDM symbol, filled subcarrier first, over the whole symbol, W, [devices, symbols]."""
    elements = np.abs(reception.signals.tx.astype(np.complex128)) ** 2
    padded = np.pad(elements, ((0, 0), (0, -elements.shape[1] % subcarriers)))
    return np.asarray(padded.reshape(DEVICES, -1, subcarriers).sum(axis=2))


# 13 entries are an odd number of them, the last I/Q element half filled; 240 of 240 are sent as they are.
@with_both_packings
@pytest.mark.parametrize(("entries", "subcarriers"), [(12, 48), (13, 100), (60, 120), (240, 1000)])
def test_a_message_within_a_symbol_has_the_whole_power(packing: str, entries: int, subcarriers: int) -> None:
    """0.1 W in its one symbol, in what is sent, the account, the budget and what a selection reckons with."""
    scenario = scenario_of(entries, subcarriers, "message", f"grid.packing={packing}", "trace.signals=true")
    reception = sent(scenario, messages_of(entries))
    np.testing.assert_allclose(symbol_powers(reception, subcarriers), POWER_W, rtol=1e-5)
    np.testing.assert_allclose(reception.report.devices.energy, POWER_W * SYMBOL_S, rtol=1e-5)
    link_budget = planned(scenario).link.link_budget().devices.energy
    np.testing.assert_allclose(link_budget, POWER_W * SYMBOL_S, rtol=1e-12)
    np.testing.assert_allclose(scenario.most_energy, POWER_W * SYMBOL_S, rtol=1e-12)
    np.testing.assert_allclose(scenario.element_power, POWER_W / elements_of(entries, packing), rtol=1e-12)


@with_both_packings
@pytest.mark.parametrize("subcarriers", [5, 6, 7, 12, 30])
def test_no_symbol_has_more_and_full_ones_have_all_of_it(packing: str, subcarriers: int) -> None:
    """60 entries, or 30 elements: every full symbol has 0.1 W, the last one the share of it that it is filled by, under
    either setting: an element of it is worth no more than one of the others."""
    found = {}
    for spread in ("band", "message"):
        scenario = scenario_of(60, subcarriers, spread, f"grid.packing={packing}", "trace.signals=true")
        found[spread] = sent(scenario, messages_of(60))
        powers, elements = symbol_powers(found[spread], subcarriers), elements_of(60, packing)
        filled = np.minimum(elements - subcarriers * np.arange(powers.shape[1]), subcarriers)
        np.testing.assert_allclose(powers, np.tile(POWER_W * filled / subcarriers, (DEVICES, 1)), rtol=1e-5)
    np.testing.assert_array_equal(found["band"].mean.numpy(), found["message"].mean.numpy())


@with_both_packings
@pytest.mark.parametrize(("entries", "subcarriers"), [(12, 48), (24, 100)])
def test_the_error_falls_by_the_share_of_the_band(packing: str, entries: int, subcarriers: int) -> None:
    """Over the mean's power sigma_0^2 k/(r beta)^2 with beta^2 = |h|^2 power E/K or |h|^2 power: n = 200 rounds of k
    entries, mean squares within 5 of their standard errors sqrt(2/(n k)); and from one setting to the other the same
    noise, so that the ratio is E/K to rounding."""
    messages, share = messages_of(entries), elements_of(entries, packing) / subcarriers
    least = 1.380649e-23 * 290 * 10**0.7 * 15e3 / 2 * entries / (DEVICES**2 * GAIN**2 * POWER_W)
    found = {}
    for spread, expected in (("band", least / share), ("message", least)):
        scenario = scenario_of(entries, subcarriers, spread, f"grid.packing={packing}")
        means = np.array([sent(scenario, messages, t).mean.double().numpy() for t in range(200)])
        found[spread] = float(((means - messages.mean(axis=0)) ** 2).sum(axis=1).mean())
        assert abs(found[spread] / expected - 1) < 5 * math.sqrt(2 / (200 * entries))
    assert found["message"] / found["band"] == pytest.approx(share, rel=1e-3)


def test_pilots_and_peaks_are_set_against_the_elements_of_the_message() -> None:
    """12 entries of 48 subcarriers: a pilot has 1/12 of the power, an element at most 2 dB over that."""
    nobody = ("selection.kind=threshold", "selection.min_gain=1e9", "csi.estimation=ls")
    charged = planned(scenario_of(12, 48, "message", *nobody)).link.link_budget().energy_of_others
    assert charged == pytest.approx(DEVICES * POWER_W / 12 * SYMBOL_S, rel=1e-9)
    scenario = scenario_of(12, 48, "message", "power.peak_db=2", "power.peak=clip", "trace.signals=true")
    reception = sent(scenario, np.tile(np.eye(12)[3], (DEVICES, 1)))
    largest = (np.abs(reception.signals.tx) ** 2).max(axis=1)
    np.testing.assert_allclose(largest, POWER_W / 12 * 10**0.2, rtol=1e-5)


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
def test_no_fade_makes_a_symbol_exceed_the_power(fading: str) -> None:
    """Over gains that differ the weakest device has all of its power, and the others less."""
    scenario = scenario_of(12, 48, "message", f"channel.fading={fading}", "channel.delay_spread_s=2e-6")
    energy = planned(scenario).link.link_budget().devices.energy
    assert energy.max() == pytest.approx(POWER_W * SYMBOL_S, rel=1e-9)
    assert energy.min() < 0.9 * POWER_W * SYMBOL_S


def test_a_waveform_has_the_same_power() -> None:
    scenario = scenario_of(12, 64, "message", "grid.waveform=true")
    np.testing.assert_allclose(sent(scenario, messages_of(12)).report.devices.energy, POWER_W * SYMBOL_S, rtol=1e-5)


def test_normalised_units_have_no_power_to_spread() -> None:
    said = one_line('channel.units = "physical"', "normalised", '"band"', begins="power.spread: ")
    with pytest.raises(UserError, match=said):
        built(DIMENSION, "scheme.name=wfl-p", "power.spread=message")
