"""The fronthaul of access points: noise of converters whose inputs are correlated, its powers, bits, and refusals."""

import math

import numpy as np
import pytest

from airfl.errors import UserError
from channels.hardware.converter import Converter
from channels.hardware.fronthaul import SecondMoments, _likeness, carried_bits, combined_noise
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Complex, assert_mean

ENTRIES = 64
CELL = (
    "channel.units=physical", "channel.fading=rayleigh", "grid.subcarriers=64", "privacy.epsilon=inf",
    "topology.kind=disc", "topology.radius_m=150", "topology.path_loss=log-distance", "power.policy=full-inversion",
)  # fmt: skip
PAIR = ("topology.access_points=[[-100,0],[100,0]]", "antennas.count=4")
BITS = "hardware.fronthaul_bits=2"


def added(*given: str, entries: int = ENTRIES) -> float:
    """The variance that the fronthaul adds to an observed entry."""
    found = []
    for extra in ((), (BITS,)):
        report = planned(built(entries, *given, *extra)).link.link_budget()
        found.append((report.interference_std / report.noise_std) ** 2)
    return (found[1] - found[0]) * built(entries, *given).radio.noise_std ** 2


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("bits", [1, 3])
def test_the_noise_is_that_of_samples_in_time(bits: int, packing: str) -> None:
    """Three antennas that receive 4 devices, with much in common: OFDM samples of 1,024 subcarriers, quantised antenna
    by antenna and combined, against the closed form from the channels. 2% for what is not Gaussian: samples 0 and
    512 of real entries are real numbers."""
    generator, converter, k, symbols = np.random.default_rng(1), Converter(bits), 1024, 60

    def normal(*shape: int) -> Complex:
        return np.asarray((generator.standard_normal(shape) + 1j * generator.standard_normal(shape)) / math.sqrt(2))

    gains = normal(4, 1) * np.array([1, 0.5 + 0.5j, 0.3j]) + 0.4 * normal(4, 3)
    weights = normal(3)
    weights /= np.linalg.norm(weights)
    white = 0.2
    energies = 1.0 if packing == "real" else 2.0
    pseudo = gains.T @ gains if packing == "real" else np.zeros((3, 3), dtype=complex)
    expected = combined_noise(converter, weights, SecondMoments(energies * gains.T @ gains.conj(), pseudo), white)
    messages: Complex = generator.standard_normal((symbols, 4, k)).astype(complex)
    if packing == "iq":
        messages = messages + 1j * generator.standard_normal((symbols, 4, k))
    received = np.einsum("ia,sik->sak", gains, messages) + math.sqrt(white) * normal(symbols, 3, k)
    samples = np.fft.ifft(received, axis=2, norm="ortho")
    noise = np.empty_like(samples)
    for antenna in range(3):
        rms = math.sqrt(float((energies * np.abs(gains[:, antenna]) ** 2).sum() + white) / 2)
        noise[:, antenna] = converter.quantise(samples[:, antenna], rms) - samples[:, antenna]
    observed = np.einsum("a,sak->sk", weights.conj(), np.fft.fft(noise, axis=2, norm="ortho"))
    assert_mean(observed.real**2 / expected, 1.0, rounding=0.02)
    assert_mean(np.mean(observed.real * observed.imag) / expected, 0.0, rounding=0.5)


def test_one_antenna_is_a_converter() -> None:
    """For both packings, in a link budget and in a round."""
    for packing in ("real", "iq"):
        given = (*everybody(5), *CELL, f"grid.packing={packing}")
        found = []
        for key in ("hardware.adc_bits=3", "hardware.fronthaul_bits=3"):
            plan = planned(built(ENTRIES, *given, key))
            budget = plan.link.link_budget()
            messages = np.random.default_rng(1).standard_normal((5, ENTRIES)) + 1
            found.append((budget.interference_std, send(plan, messages).report.interference_std))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
        assert found[0][0] != pytest.approx(found[0][1], rel=0.1)


def test_independent_inputs_have_independent_noise() -> None:
    """Of two antennas that each hear one device alone: D (|a_1|^2 p_1 + |a_2|^2 p_2)/2 under I/Q packing."""
    converter, weights = Converter(2), np.array([0.6, 0.8j])
    moments = SecondMoments(np.diag([3.0, 5.0]).astype(complex), np.zeros((2, 2), dtype=complex))
    expected = converter.distortion * (0.36 * 4 + 0.64 * 6) / 2
    assert combined_noise(converter, weights, moments, 1.0) == pytest.approx(expected, rel=1e-9)


def test_equal_inputs_have_equal_noise() -> None:
    """Without noise, antennas that receive the same have the noise of one, times |sum_k a_k|^2."""
    converter, weights = Converter(4), np.array([0.6, 0.8])
    moments = SecondMoments(np.full((2, 2), 3.0 + 0j), np.zeros((2, 2), dtype=complex))
    expected = converter.distortion * 3 * 1.4**2 / 2
    assert combined_noise(converter, weights.astype(complex), moments, 0.0) == pytest.approx(expected, rel=1e-9)
    assert combined_noise(converter, weights.astype(complex), SecondMoments(*[np.zeros((2, 2), complex)] * 2), 0) == 0


@pytest.mark.parametrize("bits", [1, 2, 5, 9])
def test_the_table_is_the_likeness(bits: int) -> None:
    converter = Converter(bits)
    given = np.array([-1.0, -0.7, 0.0, 0.013, 0.31, 0.83, 0.97, 0.9993, 1.0])
    expected = [converter.likeness(one) if one else 0.0 for one in given]
    np.testing.assert_allclose(_likeness(converter)(given), expected, atol=2e-4)


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_powers_are_those_of_the_sums_as_they_are(packing: str) -> None:
    """Second moments of what antennas receive, from messages that are alike, computed here; an odd number of them."""
    given = (*everybody(5), *CELL, *PAIR, BITS, f"grid.packing={packing}")
    scenario = built(63, *given)
    plan = planned(scenario)
    messages = np.random.default_rng(1).standard_normal((5, 63)) + 1.0
    reception = send(plan, messages)
    control = plan.link._control  # type: ignore[attr-defined]
    gains = plan.channel.response[:, :, 0, 0] * control.precoders[:, :, 0]
    padded = np.pad(messages, ((0, 0), (0, 1)))
    elements = messages if packing == "real" else padded[:, 0::2] + 1j * padded[:, 1::2]
    received = gains.T @ elements
    covariance = received @ received.conj().T / elements.shape[1]
    pseudo = received @ received.T / elements.shape[1] * (packing == "real")
    white = 2 * scenario.radio.noise_std**2
    expected = combined_noise(Converter(2), control.combiner[:, 0, 0], SecondMoments(covariance, pseudo), white)
    found = (reception.report.interference_std / reception.report.noise_std * scenario.radio.noise_std) ** 2
    assert found == pytest.approx(expected, rel=1e-4, abs=0)


def test_a_budget_takes_messages_to_be_uncorrelated() -> None:
    given = (*everybody(5), *CELL, *PAIR)
    scenario = built(ENTRIES, *given, BITS)
    plan = planned(scenario)
    control = plan.link._control  # type: ignore[attr-defined]
    gains = plan.channel.response[:, :, 0, 0] * control.precoders[:, :, 0] * scenario.bound.rms / math.sqrt(ENTRIES)
    moments = SecondMoments(gains.T @ gains.conj(), gains.T @ gains)
    white = 2 * scenario.radio.noise_std**2
    expected = combined_noise(Converter(2), control.combiner[:, 0, 0], moments, white)
    assert added(*given) == pytest.approx(expected, rel=1e-6, abs=0)


def test_it_is_received_as_the_report_says() -> None:
    scenario = built(4096, *everybody(6), *CELL, *PAIR, BITS, "channel.noise=false")
    messages = np.random.default_rng(1).standard_normal((6, 4096))
    reception = send(planned(scenario), messages)
    missed = reception.mean.numpy() - messages.mean(axis=0)
    assert_mean((missed / reception.report.interference_std) ** 2, 1.0, rounding=1e-4)


def test_more_bits_add_less_and_are_charged() -> None:
    """64 entries on one symbol of 64 subcarriers, real and imaginary part of every sample of 4 antennas."""
    given, stds = (*everybody(5), *CELL, *PAIR), []
    for bits in (1, 4, 8, 12):
        report = planned(built(ENTRIES, *given, f"hardware.fronthaul_bits={bits}")).link.link_budget()
        assert report.fronthaul_bits == 2 * bits * 4 * 64
        stds.append(report.interference_std)
    assert stds == sorted(stds, reverse=True)
    assert stds[-1] < 1e-3 * stds[0]
    exact = planned(built(ENTRIES, *given)).link.link_budget()
    assert (exact.fronthaul_bits, exact.interference_std) == (0, 0)
    assert carried_bits(Converter(3), 5, 100) == 3000
    assert report.protection == exact.protection


REFUSALS = {
    "channel.fading=tapped-line topology.access_points=[[0,0]]": "hardware.fronthaul_bits: needs a flat fading law",
    "csi.estimation=ls": "csi.estimation: pilots that a fronthaul of 2 bits",
    "hardware.amplifier=rapp": "hardware.amplifier: is not modelled for samples",
    "hardware.adc_bits=3 antennas.count=1 topology.access_points=[[0,0]]": "hardware.adc_bits: is not modelled",
    "grid.waveform=true antennas.count=1 topology.access_points=[[0,0]]": "grid.waveform: is not modelled",
    "channel.variation=jakes channel.speed_m_s=3 channel.coherence=slot": "channel.coherence: is not modelled",
    "csi.timing_offset_s=1e-6": "csi.timing_offset_s: is not modelled",
    "csi.frequency_offset_hz=100": "csi.frequency_offset_hz: is not modelled",
    "csi.linewidth_hz=5": "csi.linewidth_hz, csi.oscillator: is not modelled",
    "scheme.name=fedavg scheme.link=digital": "hardware.fronthaul_bits: its effect is not known on the digital link",
    "scheme.name=fsk-mv": "hardware.fronthaul_bits: its effect is not known on energies",
    "power.policy=blind antennas.combining=sum": "hardware.fronthaul_bits: its effect is not known for power policy",
    "antennas.combining=median": "hardware.fronthaul_bits: its effect is not known on what antennas.combining",
    "channel.interference_to_noise_db=3 channel.interference=alpha-stable": "beside channel.interference",
    "topology.neighbours=[[400,0]] topology.access_points=[[0,0]]": "hardware.fronthaul_bits: is not simulated",
}


@pytest.mark.parametrize("given", REFUSALS)
def test_refusals(given: str) -> None:
    with pytest.raises(UserError, match=REFUSALS[given]) as refusal:
        built(ENTRIES, *everybody(6), *CELL, *PAIR, BITS, *given.split())
    assert "\n" not in str(refusal.value)
