"""The receiver's converter: Max's table, closed forms, samples in time against the model per element, and links."""

import math

import numpy as np
import pytest

from airfl.uplinks import LinkReport
from channels.hardware import Converter
from channels.waveform import Waveform, receive, transmit
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, Complex, assert_mean, gaussian

# J. Max, Quantizing for minimum distortion, IRE Trans. Inf. Theory 6, 1960, table II: step and mean squared error.
MAX = {1: (1.596, 0.3634), 2: (0.9957, 0.1188), 3: (0.5860, 0.03744), 4: (0.3352, 0.01154), 5: (0.1881, 0.003495)}
SUBCARRIERS, SYMBOLS = 128, 300
WAVEFORM = Waveform(SUBCARRIERS, 8, SUBCARRIERS)


def quantised(converter: Converter, values: Array) -> Array:
    """The output for real inputs of unit variance."""
    return np.asarray(converter.quantise(values + 0j, 1.0).real)


@pytest.mark.parametrize("bits", MAX)
def test_step_and_error_are_those_of_the_published_table(bits: int) -> None:
    """The error of the output that is not rescaled: E[Q^2] - 2 E[x Q] + 1 = gain^2 (1 + D) - 2 gain + 1."""
    converter, (step, error) = Converter(bits), MAX[bits]
    assert converter.step == pytest.approx(step, abs=6e-4)
    gain = converter.gain
    assert gain**2 * (1 + converter.distortion) - 2 * gain + 1 == pytest.approx(error, rel=1e-3)


def test_one_bit_keeps_two_thirds_of_the_power() -> None:
    """E[x sign x]^2 = 2/pi, so that the noise over the signal is pi/2 - 1; noises of equal inputs are equal, and of
    independent ones independent."""
    converter = Converter(1)
    assert 1 / (1 + converter.distortion) == pytest.approx(2 / math.pi, rel=1e-9)
    for angle in (0.1, 0.5, 1.2):
        expected = (angle - math.sin(angle)) / (math.pi / 2 - 1)
        assert converter.likeness(math.sin(angle)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("bits", [7, 9, 12])
def test_a_bit_more_is_six_decibels_less_loading(bits: int) -> None:
    """Noise is step^2/12 and what exceeds the largest level; of many bits nearly all of it is the first."""
    converter = Converter(bits)
    granular = converter.step**2 / 12
    assert granular < converter.distortion < 1.2 * granular


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.95, -0.95])
@pytest.mark.parametrize("bits", [1, 2, 4, 6])
def test_samples_have_gain_noise_and_likeness_of_the_closed_forms(bits: int, correlation: float) -> None:
    """200,000 pairs of Gaussian samples: 5 standard errors, and the rounding of the quadrature."""
    converter, rng = Converter(bits), np.random.default_rng([bits, 7])
    first, other = rng.standard_normal((2, 200_000))
    second = correlation * first + math.sqrt(1 - correlation**2) * other
    noises = [quantised(converter, one) - one for one in (first, second)]
    assert_mean(noises[0] * first, 0.0)
    assert_mean(noises[0] ** 2, converter.distortion)
    assert_mean(noises[0] * noises[1], converter.distortion * converter.likeness(correlation), 1e-6)


def test_many_bits_have_the_likeness_of_a_quantiser_without_limits() -> None:
    """Of pairs that no level is too small for: 8 bits, inputs apart by a fraction of a step."""
    converter, rng = Converter(8), np.random.default_rng(11)
    first, other = rng.standard_normal((2, 400_000))
    for apart in (0.05, 0.2, 0.5):
        correlation = 1 - (apart * converter.step) ** 2 / 2
        second = correlation * first + math.sqrt(1 - correlation**2) * other
        within = np.maximum(np.abs(first), np.abs(second)) < 100 * converter.step
        noises = [quantised(converter, one[within]) - one[within] for one in (first, second)]
        granular = converter.step**2 / 12
        assert_mean(noises[0] * noises[1] / granular, converter.likeness(correlation), 0.01)


def test_levels_are_symmetric_and_limited() -> None:
    converter = Converter(3)
    values = np.array([-9.0, -0.1, 0.1, 0.7, 9.0])
    levels = np.array([-3.5, -0.5, 0.5, 1.5, 3.5]) * converter.step * 2.0 / converter.gain
    np.testing.assert_allclose(converter.quantise(2.0 * values + 0j, 2.0).real, levels)
    np.testing.assert_allclose(converter.quantise(-2j * values, 2.0).imag, -levels)
    for bits in (0, 13):
        with pytest.raises(ValueError, match=f"bits must be 1 to 12, got {bits}"):
            Converter(bits)


# --- in time, against the model per element --------------------------------------------------------------------------


def converted(bits: int, symbols: Complex, noise_std: float) -> tuple[Complex, float]:
    """Noise of the converter on the received entries of symbols [symbols, subcarriers] beside CN(0, 2 noise_std^2), and
    the mean power of a sample."""
    rng = np.random.default_rng([bits, 12])
    samples = transmit(symbols[None], WAVEFORM).samples[0]
    arriving = samples + math.sqrt(2) * noise_std * gaussian(rng, len(samples))
    power = float((np.abs(arriving) ** 2).mean())
    output = Converter(bits).quantise(arriving, math.sqrt(power / 2))
    return receive(output - arriving, WAVEFORM, len(symbols)), power


@pytest.mark.parametrize("noise_std", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("bits", [1, 2, 4, 6])
def test_noise_on_elements_of_a_real_sum_is_that_of_the_model(bits: int, noise_std: float) -> None:
    """Real entries, as of messages that arrive in phase: D P/2 (1 + r) on the real part and D P/2 (1 - r) on the other.
    5 standard errors of 300 symbols, and 1/K twice for the samples at which a symbol is its own mirror image."""
    converter = Converter(bits)
    symbols = np.random.default_rng(13).standard_normal((SYMBOLS, SUBCARRIERS)) + 0j
    noise, power = converted(bits, symbols, noise_std)
    alike = converter.likeness(1.0 / (1.0 + 2 * noise_std**2))
    for part, sign in ((noise.real, 1), (noise.imag, -1)):
        expected = converter.distortion * power / 2 * (1 + sign * alike)
        # The noise grows with a symbol's own power, of which the model has the mean.
        assert_mean((part**2).mean(axis=1), expected, 8 / SUBCARRIERS * converter.distortion * power)


@pytest.mark.parametrize("bits", [1, 3, 5])
def test_noise_on_elements_of_complex_entries_is_the_same_on_both_parts(bits: int) -> None:
    noise, power = converted(bits, gaussian(np.random.default_rng(14), SYMBOLS, SUBCARRIERS), 0.5)
    for part in (noise.real, noise.imag):
        expected = Converter(bits).distortion * power / 2
        assert_mean((part**2).mean(axis=1), expected, 8 / SUBCARRIERS * expected)


# --- rounds ----------------------------------------------------------------------------------------------------------

DEVICES, ENTRIES = 4, 8000
FLAT = (
    *everybody(DEVICES),
    *("channel.fading=fixed", "channel.mean_gain=1.0", "channel.min_gain=1e-9", "channel.max_gain=1e9"),
    *("grid.subcarriers=200", "power.max_snr_db=10", "local.clip_norm=1.0"),
)


def received(*overrides: str, correlated: bool = False) -> tuple[float, LinkReport, LinkReport]:
    """Squared error of an entry of the decoded sum over that of a message, r E|mhat - m|^2 in units of beta^2 C^2/d, of
    messages at their bound, independent or equal; report and link budget."""
    plan = planned(built(ENTRIES, *FLAT, *overrides))
    budget = plan.link.link_budget()
    values = np.random.default_rng(5).standard_normal((1 if correlated else DEVICES, ENTRIES))
    values = np.repeat(values, DEVICES // len(values), axis=0)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    reception = send(plan, values)
    missed = reception.mean.numpy() - values.mean(axis=0)
    return float(missed @ missed) * DEVICES**2, reception.report, budget


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("noise", ["true", "false"])
@pytest.mark.parametrize("bits", [1, 4])
def test_a_round_has_the_noise_of_the_closed_form(bits: int, noise: str, packing: str) -> None:
    """Entries of the sum of four messages have the energy 40 sigma_0^2, of equal ones 160; what is left is receiver
    noise of 1 and the converter's. 8,000 entries, 5 standard errors of their squares, and 0.05 for the messages'
    random inner products."""
    converter = Converter(bits)
    noise_variance = 1.0 if noise == "true" else 0.0
    for correlated, signal in ((False, 40.0), (True, 160.0)):
        power = signal * (2 if packing == "iq" else 1) + 2 * noise_variance  # of an element, which has two entries
        added = converter.distortion * power / 2
        if packing == "real":
            added *= 1 + converter.likeness(signal / power)
        given = (f"hardware.adc_bits={bits}", f"channel.noise={noise}", f"grid.packing={packing}")
        error, report, budget = received(*given, correlated=correlated)
        beta = report.alignment_coefficient
        assert error * beta**2 / ENTRIES == pytest.approx(added + noise_variance, rel=5 * math.sqrt(2 / ENTRIES) + 0.05)
        assert (report.interference_std * DEVICES * beta) ** 2 == pytest.approx(added, rel=0.05)
        if not correlated:
            assert budget.interference_std == pytest.approx(report.interference_std, rel=0.03)


def test_the_converters_noise_protects_nobody() -> None:
    exact, coarse = received()[1], received("hardware.adc_bits=1")[1]
    assert coarse.protection == exact.protection > 0
    assert received("hardware.adc_bits=1", "channel.noise=false")[1].protection == 0.0


@pytest.mark.parametrize("allocation", ["equal", "gain"])
def test_a_strong_neighbour_costs_a_weak_device_its_rate(allocation: str) -> None:
    """Digital: SNR/(1 + D (1 + T)), T the received power of all devices over the noise, mean over the band."""
    given = (
        *("scheme.name=fedavg", "scheme.link=digital", "channel.fading=rayleigh", f"digital.allocation={allocation}"),
        "power.max_snr_db=20",
    )
    plan = planned(built(ENTRIES, *FLAT, *given, "hardware.adc_bits=3"))
    plain = planned(built(ENTRIES, *FLAT, *given))
    rates = plan.link.link_budget().devices.rate
    exact = plain.link.link_budget().devices.rate
    assert rates is not None
    assert exact is not None
    snr = 2**exact - 1
    gains = np.abs(plan.channel.response[:, 0, 0, 0]) ** 2
    widths = 200 * 50 * gains / snr  # of a device's power over K_i subcarriers
    np.testing.assert_allclose(widths.sum(), 200, rtol=1e-6)
    band = float((snr * widths).sum() / 200)
    conversion = Converter(3).distortion
    np.testing.assert_allclose(rates, np.log2(1 + snr / (1 + conversion * (1 + band))), rtol=1e-6)


def test_the_ideal_link_has_the_noise_of_one_device_at_a_time() -> None:
    devices = planned(built(ENTRIES, *FLAT, "scheme.name=fedavg", "scheme.link=ideal", "hardware.adc_bits=2")).link
    conversion = Converter(2).distortion
    expected = math.log2(1 + 5 / (1 + conversion * 6))  # 10 dB over sigma_0^2, half of that over N_0
    rate = devices.link_budget().devices.rate
    assert rate is not None
    np.testing.assert_allclose(rate, expected, rtol=1e-6)
