"""Interference and leakage on links that carry bits: rates at the SINR of closed forms, and of symbols in time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.building import build_cell
from airfl.cell import Cell
from airfl.opening import Opening, open_round
from tests.conftest import small_settings

Array = NDArray[np.float64]

DIMENSION, SPACING_HZ, SUBCARRIERS = 2000, 15e3, 24
RADIO = (
    "run.devices=8",
    "run.selected=4",
    "scheme.name=fedavg",
    "scheme.link=digital",
    "channel.fading=rayleigh",
    "channel.mean_gain=1.0",
    "channel.min_gain=1e-6",
    "channel.max_gain=1e6",
    f"grid.subcarriers={SUBCARRIERS}",
    "power.max_snr_db=20",
)
MODELS = ("capacity", "finite-blocklength", "nr")


def cell_of(*overrides: str) -> Cell:
    settings = small_settings(*RADIO, *overrides)
    return build_cell(settings, DIMENSION, np.ones(settings.run.devices))


def opened(*overrides: str, round_index: int = 0) -> Opening:
    cell = cell_of(*overrides)
    return open_round(cell, round_index, cell.memory)


def devices_of(opening: Opening) -> dict[str, Any]:
    return vars(opening.link.at_bound().devices)


# --- interference ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over_noise_db", [-10.0, 0.0, 30.0])
def test_rates_at_capacity_have_interference_in_their_noise(over_noise_db: float) -> None:
    """log2(1 + SNR/(1 + I)), the power of four devices on a quarter of the band each."""
    opening = opened(f"channel.interference_to_noise_db={over_noise_db}")
    snr = 4 * 100 * np.abs(opening.channel.response[:, 0, 0, 0]) ** 2
    expected = np.log2(1 + snr / (1 + 10 ** (over_noise_db / 10)))
    np.testing.assert_allclose(devices_of(opening)["rate"], expected, rtol=1e-9)
    assert opening.link.heard.all()  # of a level that is known


@pytest.mark.parametrize("allocation", ["equal", "rate-fair", "gain"])
@pytest.mark.parametrize("model", MODELS)
def test_interference_is_as_much_less_power(model: str, allocation: str) -> None:
    """1 + I times the noise: the same rates, errors and elements as with 1/(1 + I) of every device's power."""
    more = 10 * math.log10(1 + 10**0.7)
    digital = (f"digital.error_model={model}", f"digital.allocation={allocation}")
    disturbed = opened(*digital, "channel.interference_to_noise_db=7")
    weaker = opened(*digital, f"power.max_snr_db={20 - more}")
    one, other = disturbed.link.at_bound(), weaker.link.at_bound()
    assert one.use == other.use
    for name in ("rate", "block_error_rate", "bits_on_air", "active", "air_time_s"):
        np.testing.assert_allclose(vars(one.devices)[name], vars(other.devices)[name], rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(one.devices.energy / 10 ** (more / 10), other.devices.energy, rtol=1e-9)


@pytest.mark.parametrize("units", ["normalised", "physical"])
def test_the_ideal_link_and_the_broadcast_pay_for_interference(units: str) -> None:
    """ceil(B/log2(1 + SNR/(1 + I))) elements; the broadcast at the weakest of those that listen."""
    physical = ("channel.units=physical", "channel.mean_gain=1e-6", "power.tx_power_dbm=-10")
    words = ("scheme.link=ideal", "grid.downlink=true", *(physical if units == "physical" else ()))
    plain, disturbed = opened(*words), opened(*words, "channel.interference_to_noise_db=10")
    snr = 10 ** (devices_of(plain)["snr_db"] / 10)
    np.testing.assert_allclose(10 ** (devices_of(disturbed)["snr_db"] / 10), snr, rtol=1e-12)
    elements = np.ceil(devices_of(plain)["bits"] / np.log2(1 + snr / 11))
    assert disturbed.link.at_bound().use.resource_elements == elements.sum()
    assert plain.broadcast is not None
    assert disturbed.broadcast is not None
    # The rate of the plain broadcast gives its SNR back, to the rounding of the elements.
    bits, before = plain.broadcast.bits, plain.broadcast.resource_elements
    after = bits / math.log2(1 + (2 ** (bits / before) - 1) / 11)
    assert disturbed.broadcast.resource_elements == pytest.approx(after, rel=2 / before + 1e-9)


# --- leakage --------------------------------------------------------------------------------------------------------


def in_time(
    late_s: float, offset_hz: float, size: int = 2048, prefix_s: float = 1 / 14e3 - 1 / 15e3
) -> tuple[Array, Array]:
    """Power that a device's subcarrier [column] has on every subcarrier [row], by a DFT of OFDM symbols in time: of
    this symbol and of the one before. The receiver's window opens when the prefix of who is on time has passed."""
    prefix = round(prefix_s * SPACING_HZ * size)
    late = round(late_s * SPACING_HZ * size)
    k = np.arange(SUBCARRIERS)
    symbol = np.arange(-prefix, size)
    tones = np.exp(2j * np.pi * np.outer(symbol, k) / size)
    silence = np.zeros_like(tones)
    turned = np.exp(2j * np.pi * offset_hz / SPACING_HZ * np.arange(size) / size)[:, None]
    powers = []
    for before, now in ((silence, tones), (tones, silence)):
        sent = np.concatenate([before, now])
        start = len(tones) + prefix - late
        window = sent[start : start + size] * turned
        powers.append(np.abs(np.fft.fft(window, axis=0)[:SUBCARRIERS] / size) ** 2)
    return powers[0], powers[1]


def drawn_offsets(cell: Cell, opening: Opening) -> tuple[Array, Array]:
    """Arrival and carrier of each device, from the ramp and the turn that they put on the true channel."""
    ratio = opening.channel.response / opening.estimate.response
    late = np.zeros(len(ratio))
    carrier = np.zeros(len(ratio))
    if ratio.shape[3] > 1:
        late = -np.angle(ratio[:, 0, 0, 1] / ratio[:, 0, 0, 0]) / (2 * np.pi * SPACING_HZ)
    if ratio.shape[2] > 1:
        carrier = np.angle(ratio[:, 0, 1, 0] / ratio[:, 0, 0, 0]) / (2 * np.pi * cell.frame.symbol_s)
    return late, carrier


@pytest.mark.parametrize("power", ["total", "per-element"])
@pytest.mark.parametrize(
    "offset", ["csi.frequency_offset_hz=600", "csi.frequency_offset_hz=6000", "csi.timing_offset_s=3e-5"]
)
def test_digital_rates_have_what_all_devices_leak_in_their_noise(offset: str, power: str) -> None:
    """Useful power over noise and everybody's leakage, on every subcarrier, from the waveform; one part in 200 (2048
    samples a symbol for late arrivals, aliases of the far end of the band)."""
    words = (offset, f"digital.power={power}")
    cell = cell_of(*words)
    for t in range(3):
        opening = open_round(cell, t, cell.memory)
        late, carrier = drawn_offsets(cell, opening)
        gains = np.abs(opening.estimate.response[:, 0, 0, 0]) ** 2 * 100 * (4 if power == "total" else 1)
        owner = np.repeat(np.arange(4), SUBCARRIERS // 4)
        useful, leaked = np.zeros(SUBCARRIERS), np.zeros(SUBCARRIERS)
        for device in range(4):
            now, before = in_time(late[device], carrier[device])
            own = owner == device
            useful[own] = gains[device] * np.diag(now)[own]
            leaked += gains[device] * ((now - np.diag(np.diag(now))) + before) @ own
        rate = np.log2(1 + useful / (1 + leaked)).reshape(4, -1).mean(axis=1)
        without = np.log2(1 + gains)
        np.testing.assert_allclose(devices_of(opening)["rate"], rate, rtol=0.005)
        assert np.abs(rate / without - 1).max() > 0.02  # so that the tolerance means something
        assert opening.link.heard.all()


@pytest.mark.parametrize("offset", ["csi.frequency_offset_hz=3000", "csi.timing_offset_s=3e-5"])
def test_the_ideal_link_and_the_broadcast_have_their_leakage_in_their_noise(offset: str) -> None:
    """One sender on a whole band that is loaded: S (1 - L)/(1 + S L), with L = 1 - sinc^2 or e (2 - e)."""
    words = ("scheme.link=ideal", "grid.downlink=true", "grid.downlink_snr_db=25")
    cell = cell_of(*words, offset)
    opening = open_round(cell, 0, cell.memory)
    late, carrier = drawn_offsets(cell, opening)
    beyond = np.maximum(late - (1 / 14e3 - 1 / 15e3), 0) * SPACING_HZ
    kept = (1 - beyond) ** 2 * np.sinc(carrier / SPACING_HZ) ** 2
    power = np.abs(opening.estimate.response[:, 0, 0, 0]) ** 2
    elements = np.ceil(devices_of(opening)["bits"] / np.log2(1 + 100 * power * kept / (1 + 100 * power * (1 - kept))))
    assert opening.link.at_bound().use.resource_elements == pytest.approx(elements.sum(), rel=1e-5)
    assert opening.broadcast is not None
    sent = 10**2.5 * power
    worst = (sent * kept / (1 + sent * (1 - kept))).min()
    wanted = math.ceil(opening.broadcast.bits / math.log2(1 + worst))
    assert opening.broadcast.resource_elements == pytest.approx(wanted, rel=1e-5)
    assert kept.min() < 0.98


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
@pytest.mark.parametrize("offset_hz", [1.0, 100.0, 2000.0])
def test_a_sender_that_knows_its_leakage_has_no_cliff(offset_hz: float, fading: str) -> None:
    """What leaks is in the SINR that rates are taken from: they fall, and no message is lost, in single precision
    either."""
    words = (f"channel.fading={fading}", "run.devices=40", "run.selected=20")
    plain, turned = opened(*words), opened(*words, f"csi.frequency_offset_hz={offset_hz}")
    assert turned.link.heard.all()
    one, other = (opening.link.at_bound().use.resource_elements for opening in (plain, turned))
    assert other >= one
    assert other > one or offset_hz == 1.0


def test_antennas_gather_a_devices_own_leakage_and_not_that_of_others() -> None:
    """Maximum-ratio weights of norm 1: |w^H h_i|^2 = sum_a |h_ia|^2, and of another device the mean over antennas."""
    words = ("antennas.count=4", "csi.frequency_offset_hz=4000")
    cell = cell_of(*words)
    opening = open_round(cell, 0, cell.memory)
    _, carrier = drawn_offsets(cell, opening)
    gains = (np.abs(opening.estimate.response[:, :, 0, 0]) ** 2).sum(axis=1) * 400
    owner = np.repeat(np.arange(4), SUBCARRIERS // 4)
    useful, leaked = np.zeros(SUBCARRIERS), np.zeros(SUBCARRIERS)
    for device in range(4):
        now, _ = in_time(0.0, carrier[device])
        own = owner == device
        useful[own] = gains[device] * np.diag(now)[own]
        leaked += gains[device] * np.where(own, 1.0, 0.25) * ((now - np.diag(np.diag(now))) @ own)
    rate = np.log2(1 + useful / (1 + leaked)).reshape(4, -1).mean(axis=1)
    np.testing.assert_allclose(devices_of(opening)["rate"], rate, rtol=0.005)


# --- late paths -----------------------------------------------------------------------------------------------------


def test_what_late_paths_spill_is_noise_on_a_devices_own_subcarriers() -> None:
    """Six subcarriers each: the mean of log2(1 + |h|^2 E/(N_0 + S E)) over them, S spilled for one unit of power."""
    opening = opened("channel.fading=tapped-line", "channel.delay_spread_s=8e-6")
    spilled = opening.channel.spilled
    assert spilled is not None
    assert float(spilled.mean()) > 0.01
    for device, rate in enumerate(devices_of(opening)["rate"]):
        own = slice(6 * device, 6 * device + 6)
        gain = np.abs(opening.channel.response[device, 0, 0, own].astype(complex)) ** 2
        snr = 4 * 100 * gain / (1 + 4 * 100 * spilled[device, 0, own])
        assert rate == pytest.approx(np.log2(1 + snr).mean(), rel=1e-5)
