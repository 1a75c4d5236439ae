"""Interference and leakage on digital and ideal links: rates at the SINR of closed forms and of symbols in time."""

import math
from typing import Any

import numpy as np
import pytest

from airfl.core.round_plan import RoundPlan
from airfl.core.scenario import Scenario
from tests.laws.decoding import built, planned, send
from tests.laws.samples import Array, assert_share

DIMENSION, SPACING_HZ, SUBCARRIERS = 2000, 15e3, 24
MAX_SNR_DB = 20 + 10 * math.log10(2)
"""100 over N_0 = 2 sigma_0^2."""
RADIO = (
    *("run.devices=8", "run.selected=4", "scheme.name=fedavg", "scheme.link=digital"),
    *("channel.fading=rayleigh", "channel.mean_gain=1.0", "channel.min_gain=1e-6", "channel.max_gain=1e6"),
    *(f"grid.subcarriers={SUBCARRIERS}", f"power.max_snr_db={MAX_SNR_DB!r}"),
)
PHYSICAL = ("channel.units=physical", "channel.mean_gain=1e-6", "power.tx_power_dbm=-10")
in_both_units = pytest.mark.parametrize("units", [(), PHYSICAL], ids=["normalised", "physical"])


def scenario_of(*overrides: str) -> Scenario:
    return built(DIMENSION, *RADIO, *overrides)


def opened(*overrides: str) -> RoundPlan:
    return planned(scenario_of(*overrides))


def devices_of(plan: RoundPlan) -> dict[str, Any]:
    return vars(plan.link.link_budget().devices)


@pytest.mark.parametrize("over_noise_db", [-10.0, 0.0, 30.0])
def test_rates_at_capacity_have_interference_in_their_noise(over_noise_db: float) -> None:
    """log2(1 + SNR/(1 + I)), the power of four devices on a quarter of the band each."""
    plan = opened(f"channel.interference_to_noise_db={over_noise_db}")
    snr = 4 * 100 * np.abs(plan.channel.response[:, 0, 0, 0]) ** 2
    expected = np.log2(1 + snr / (1 + 10 ** (over_noise_db / 10)))
    np.testing.assert_allclose(devices_of(plan)["rate"], expected, rtol=1e-9)
    assert plan.link.heard.all()  # of a level that is known


@pytest.mark.parametrize("allocation", ["equal", "rate-fair", "gain"])
@pytest.mark.parametrize("model", ["capacity", "finite-blocklength", "nr"])
def test_interference_is_as_much_less_power(model: str, allocation: str) -> None:
    """1 + I times the noise: the same rates, errors and elements as with 1/(1 + I) of every device's power."""
    more = 10 * math.log10(1 + 10**0.7)
    digital = (f"digital.error_model={model}", f"digital.allocation={allocation}")
    disturbed = opened(*digital, "channel.interference_to_noise_db=7")
    weaker = opened(*digital, f"power.max_snr_db={MAX_SNR_DB - more!r}")
    one, other = disturbed.link.link_budget(), weaker.link.link_budget()
    assert one.use == other.use
    for name in ("rate", "block_error_rate", "bits_on_air", "active", "air_time_s"):
        np.testing.assert_allclose(vars(one.devices)[name], vars(other.devices)[name], rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(one.devices.energy / 10 ** (more / 10), other.devices.energy, rtol=1e-9)


@in_both_units
def test_the_ideal_link_and_the_broadcast_pay_for_interference(units: tuple[str, ...]) -> None:
    """ceil(B/log2(1 + SNR/(1 + I))) elements; the broadcast at the weakest of those that listen."""
    words = ("scheme.link=ideal", "grid.downlink=true", *units)
    plain, disturbed = opened(*words), opened(*words, "channel.interference_to_noise_db=10")
    snr = 10 ** (devices_of(plain)["snr_db"] / 10)
    np.testing.assert_allclose(10 ** (devices_of(disturbed)["snr_db"] / 10), snr, rtol=1e-12)
    elements = np.ceil(devices_of(plain)["bits"] / np.log2(1 + snr / 11))
    assert disturbed.link.link_budget().use.resource_elements == elements.sum()
    # The rate of the plain broadcast gives its SNR back, to the rounding of the elements.
    bits, before = plain.broadcast.bits, plain.broadcast.resource_elements
    after = bits / math.log2(1 + (2 ** (bits / before) - 1) / 11)
    assert disturbed.broadcast.resource_elements == pytest.approx(after, rel=2 / before + 1e-9)


# --- one noise, and the rate of a code over the whole message -------------------------------------------------------


@in_both_units
@pytest.mark.parametrize("link", ["digital", "ideal"])
def test_links_that_carry_bits_have_all_noise_of_a_complex_element(link: str, units: tuple[str, ...]) -> None:
    """As a receiver measures it: n = 200,000 numbers of noise, sigma_0^2 on each part; 5/sqrt(n) = 0.011."""
    scenario = scenario_of(f"scheme.link={link}", *units)
    plan = planned(scenario)
    received = np.abs(plan.channel.response[:, 0, 0, 0]) ** 2 * scenario.element_power[plan.devices]
    noise = np.random.default_rng(0).normal(0, scenario.radio.noise_std, (2, 200_000))
    ratio = 10 ** (devices_of(plan)["snr_db"] / 10) / received * np.mean(noise[0] ** 2 + noise[1] ** 2)
    np.testing.assert_allclose(ratio, 1.0, atol=0.011)


@pytest.mark.parametrize(
    ("fading", "words"),
    [
        ("tdl-c", ("grid.subcarriers=1200", "channel.delay_spread_s=3e-7")),
        ("tapped-line", ("channel.delay_spread_s=1e-6", "channel.variation=jakes", "channel.speed_m_s=30")),
    ],
)
def test_ideal_link_and_broadcast_have_the_mean_of_the_rates(fading: str, words: tuple[str, ...]) -> None:
    """Over all subcarriers and blocks, the logarithm's mean by numpy: 5 to 30% less here than at the mean SNR."""
    if fading == "tdl-c":
        pytest.importorskip("sionna")
    links = ("scheme.link=ideal", "grid.downlink=true", f"grid.downlink_snr_db={MAX_SNR_DB!r}")
    plan = opened(*links, "channel.coherence=symbol", f"channel.fading={fading}", *words)
    power = 100 * np.abs(plan.channel.response[:, 0].astype(complex)) ** 2
    rate, at_mean = np.log2(1 + power).mean(axis=(1, 2)), np.log2(1 + power.mean(axis=(1, 2)))
    np.testing.assert_allclose(devices_of(plan)["rate"], rate, rtol=1e-5)
    elements = np.ceil(32 * DIMENSION / rate)
    assert plan.link.link_budget().use.resource_elements == pytest.approx(elements.sum(), abs=5)
    assert plan.broadcast.resource_elements == pytest.approx(plan.broadcast.bits / rate.min(), rel=1e-4)
    assert 0.7 < (rate / at_mean).mean() < 0.95
    assert (fading == "tapped-line") == (power.shape[1] > 1)


def test_a_digital_link_has_the_mean_of_the_rates_over_blocks() -> None:
    """A quarter of the band each, twenty blocks in which the channel changes."""
    moving = ("channel.speed_m_s=30", "channel.carrier_hz=2e10", "channel.coherence=symbol", "channel.variation=jakes")
    plan = opened("channel.fading=tapped-line", "channel.delay_spread_s=1e-6", *moving)
    snr = 400 * np.abs(plan.channel.response[:, 0].astype(complex)) ** 2
    own = np.stack([snr[device, :, 6 * device : 6 * device + 6] for device in range(4)])
    rate = np.log2(1 + own).mean(axis=(1, 2))
    np.testing.assert_allclose(devices_of(plan)["rate"], rate, rtol=1e-5)
    assert (np.abs(rate / np.log2(1 + own.mean(axis=1)).mean(axis=1) - 1) > 0.01).any()


SYMBOLS = 18_500
CROWD = (
    *("run.devices=24", "run.selected=24", f"channel.mean_gain={math.sqrt(math.pi) / 2!r}"),
    *("digital.power=per-element", f"digital.deadline_s={SYMBOLS / 14e3 + 1e-9!r}"),
)


def test_a_deadline_puts_deep_fades_in_outage() -> None:
    """Rayleigh fading at mean SNR g = 100, a subcarrier each: B bits are through in S symbols where log2(1 + g |h|^2)
    is B/S, 3.5 bits. The share of 150 rounds of 24 devices that is not heard is 1 - exp(-(2^(B/S) - 1)/g), 0.095."""
    scenario = scenario_of(*CROWD)
    silent = 1 - math.exp(-(2 ** (32 * DIMENSION / SYMBOLS) - 1) / 100)
    plans = [planned(scenario, t) for t in range(150)]
    heard = np.array([plan.link.heard for plan in plans])
    assert_share(~heard, silent)
    assert 0.05 < silent < 0.2
    np.testing.assert_array_equal(devices_of(plans[0])["active"], heard[0])
    np.testing.assert_allclose(devices_of(plans[0])["air_time_s"][~heard[0]], SYMBOLS / 14e3, rtol=1e-9)


def test_the_ideal_link_has_the_same_deadline_and_serves_the_fastest_first() -> None:
    """As many of the shortest messages as fit into S symbols of the whole band, by numpy; the next one is cut off."""
    scenario = scenario_of(*CROWD, "scheme.link=ideal", f"digital.deadline_s={0.3 + 1e-9}")
    limit = math.floor(0.3 * 14e3) * SUBCARRIERS
    for t in range(20):
        plan = planned(scenario, t)
        snr = 100 * np.abs(plan.channel.response[:, 0, 0, 0]) ** 2
        wanted = np.ceil(32 * DIMENSION / np.log2(1 + snr))
        fits = int((np.cumsum(np.sort(wanted)) <= limit).sum())
        assert 3 < fits < 24
        assert plan.link.heard[np.argsort(wanted)[:fits]].all()
        assert plan.link.heard.sum() == fits
        assert plan.link.link_budget().use.resource_elements == limit


@pytest.mark.parametrize("link", ["digital", "ideal"])
def test_a_sum_may_be_divided_by_those_that_were_heard(link: str) -> None:
    words = (*CROWD, f"scheme.link={link}", f"digital.deadline_s={1.3 if link == 'digital' else 0.3}")
    for divide_by in ("selected", "active"):
        plan = planned(scenario_of(*words, f"power.divide_by={divide_by}"), 1)
        heard, mean = plan.link.heard.sum(), send(plan, np.ones((24, DIMENSION))).mean
        assert 0 < heard < 24
        assert float(mean[0]) == pytest.approx(heard / 24 if divide_by == "selected" else 1.0)


def in_time(late_s: float, offset_hz: float) -> tuple[Array, Array]:
    """By a DFT of OFDM symbols of 2,048 samples in time: what a device's subcarrier keeps of its power, [subcarriers],
    and what a subcarrier [column] puts on every other [row] in this symbol and, sent one before, on any. The receiver's
    window opens when the prefix of who is on time has passed."""
    size, prefix_s = 2048, 1 / 14e3 - 1 / 15e3
    prefix, late = (round(time_s * SPACING_HZ * size) for time_s in (prefix_s, late_s))
    tones = np.exp(2j * np.pi * np.outer(np.arange(-prefix, size), np.arange(SUBCARRIERS)) / size)
    turned = np.exp(2j * np.pi * offset_hz / SPACING_HZ * np.arange(size) / size)[:, None]
    powers = []
    for sent in (np.concatenate([0 * tones, tones]), np.concatenate([tones, 0 * tones])):
        window = sent[len(tones) + prefix - late :][:size] * turned
        powers.append(np.abs(np.fft.fft(window, axis=0)[:SUBCARRIERS] / size) ** 2)
    useful = np.diag(powers[0])
    return useful, powers[0] - np.diag(useful) + powers[1]


def drawn_offsets(scenario: Scenario, plan: RoundPlan) -> tuple[Array, Array]:
    """Arrival and carrier of each device, from the ramp and the turn that they put on the true channel."""
    ratio = plan.channel.response / plan.estimate.response
    late, carrier = np.zeros((2, len(ratio)))
    if ratio.shape[3] > 1:
        late = -np.angle(ratio[:, 0, 0, 1] / ratio[:, 0, 0, 0]) / (2 * np.pi * SPACING_HZ)
    if ratio.shape[2] > 1:
        carrier = np.angle(ratio[:, 0, 1, 0] / ratio[:, 0, 0, 0]) / (2 * np.pi * scenario.frame.symbol_s)
    return late, carrier


def rates_in_time(gains: Array, late: Array, carrier: Array, through: Array | float = 1.0) -> Array:
    """Of four devices on a quarter of the band each, of this SNR: useful power over noise and what all leak, of which
    the weights of device [row] let this share of device [column] through."""
    owner = np.repeat(np.arange(4), SUBCARRIERS // 4)
    useful, leaked = np.zeros(SUBCARRIERS), np.zeros(SUBCARRIERS)
    shares = np.broadcast_to(through, (4, 4))
    for device in range(4):
        kept, leaked_power = in_time(late[device], carrier[device])
        own = owner == device
        useful[own] = gains[device] * kept[own]
        leaked += gains[device] * shares[owner, device] * (leaked_power @ own)
    return np.asarray(np.log2(1 + useful / (1 + leaked)).reshape(4, -1).mean(axis=1))


@pytest.mark.parametrize("power", ["total", "per-element"])
@pytest.mark.parametrize("offset", ["frequency_offset_hz=600", "frequency_offset_hz=6000", "timing_offset_s=3e-5"])
def test_digital_rates_have_what_all_devices_leak_in_their_noise(offset: str, power: str) -> None:
    """Useful power over noise and everybody's leakage, on every subcarrier, from the waveform; one part in 200 (2048
    samples a symbol for late arrivals, aliases of the far end of the band)."""
    scenario = scenario_of(f"csi.{offset}", f"digital.power={power}")
    for plan in (planned(scenario, t) for t in range(3)):
        late, carrier = drawn_offsets(scenario, plan)
        gains = np.abs(plan.estimate.response[:, 0, 0, 0]) ** 2 * 100 * (4 if power == "total" else 1)
        rate, without = rates_in_time(gains, late, carrier), np.log2(1 + gains)
        np.testing.assert_allclose(devices_of(plan)["rate"], rate, rtol=0.005)
        assert np.abs(rate / without - 1).max() > 0.02  # so that the tolerance means something
        assert plan.link.heard.all()


@pytest.mark.parametrize("offset", ["csi.frequency_offset_hz=3000", "csi.timing_offset_s=3e-5"])
def test_the_ideal_link_and_the_broadcast_have_their_leakage_in_their_noise(offset: str) -> None:
    """One sender on the whole band, against what of it falls beside its element, from the waveform; one part in 200."""
    words = ("scheme.link=ideal", "grid.downlink=true", f"grid.downlink_snr_db={MAX_SNR_DB + 5!r}")
    scenario = scenario_of(*words, offset)
    plan = planned(scenario)
    late, carrier = drawn_offsets(scenario, plan)
    power = np.abs(plan.estimate.response[:, 0, 0, 0]) ** 2
    up, down = np.empty((2, 4))
    for device in range(4):
        kept, leaked_power = in_time(late[device], carrier[device])
        for rates, energy in ((up, 100), (down, 10**2.5)):
            received = energy * power[device]
            rates[device] = np.log2(1 + received * kept / (1 + received * leaked_power.sum(axis=1))).mean()
    np.testing.assert_allclose(devices_of(plan)["rate"], up, rtol=0.005)
    assert plan.broadcast.resource_elements == pytest.approx(plan.broadcast.bits / down.min(), rel=0.005)
    assert (up / np.log2(1 + 100 * power)).min() < 0.9


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
@pytest.mark.parametrize("offset_hz", [1.0, 100.0, 2000.0])
def test_a_sender_that_knows_its_leakage_has_no_cliff(offset_hz: float, fading: str) -> None:
    """What leaks is in the SINR that rates are taken from: they fall, but no message is lost by rounding."""
    words = (f"channel.fading={fading}", "run.devices=40", "run.selected=20")
    plain, turned = opened(*words), opened(*words, f"csi.frequency_offset_hz={offset_hz}")
    assert turned.link.heard.all()
    one, other = (plan.link.link_budget().use.resource_elements for plan in (plain, turned))
    assert other >= one
    assert other > one or offset_hz == 1.0


RICIAN, BROADSIDE = ("channel.fading=rician", "channel.rician_k=10"), "antennas.angle=broadside"
CORRELATED = ("antennas.correlation=exponential", "antennas.correlation_coefficient=0.9", BROADSIDE)


@pytest.mark.parametrize("words", [(), CORRELATED, RICIAN, (*RICIAN, BROADSIDE)], ids=" ".join)
def test_of_what_others_leak_maximum_ratio_weights_let_their_share_through(words: tuple[str, ...]) -> None:
    """w_i = h_i/|h_i|: |w_i^H h_j|^2 of device j's signal, all of device i's own."""
    scenario = scenario_of("antennas.count=4", "csi.frequency_offset_hz=4000", *words)
    plan = planned(scenario)
    _, carrier = drawn_offsets(scenario, plan)
    h = plan.estimate.response[:, :, 0, 0]
    powers = (np.abs(h) ** 2).sum(axis=1)
    through = np.abs(h.conj() @ h.T) ** 2 / np.outer(powers, powers)
    rate = rates_in_time(powers * 400, np.zeros(4), carrier, through)
    np.testing.assert_allclose(devices_of(plan)["rate"], rate, rtol=0.005)


def test_what_late_paths_spill_is_noise_on_a_devices_own_subcarriers() -> None:
    """Six subcarriers each: the mean of log2(1 + |h|^2 E/(N_0 + S E)) over them, S leaking for one unit of power."""
    plan = opened("channel.fading=tapped-line", "channel.delay_spread_s=8e-6")
    leaked_power = plan.channel.leaked_power
    assert float(leaked_power.mean()) > 0.01
    for device, rate in enumerate(devices_of(plan)["rate"]):
        own = slice(6 * device, 6 * device + 6)
        gain = np.abs(plan.channel.response[device, 0, 0, own].astype(complex)) ** 2
        snr = 4 * 100 * gain / (1 + 4 * 100 * leaked_power[device, 0, own])
        assert rate == pytest.approx(np.log2(1 + snr).mean(), rel=1e-5)
