"""Power amplifiers: closed forms against integrals, the model per element against the waveform, and links with them."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from airfl.errors import UserError
from airfl.uplinks import LinkReport
from channels.hardware import (
    AMPLIFIERS,
    Amplification,
    Amplifier,
    Amplifiers,
    Polynomial,
    Rapp,
    Saleh,
    SoftLimiter,
    consumed_over_radiated,
    in_band_shares,
    operating_point,
)
from channels.waveform import Waveform, receive, transmit
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Complex, assert_mean, gaussian

SUBCARRIERS, SYMBOLS = 128, 400
WAVEFORM = Waveform(SUBCARRIERS, 8, SUBCARRIERS)
TURNING = Polynomial(coefficients=(-0.2, 0.02), coefficients_imag=(0.1, -0.01))
ALL: tuple[Amplifier, ...] = (SoftLimiter(), Rapp(smoothness=1.0), Rapp(smoothness=3.0), Saleh(), Polynomial(), TURNING)
of_all = pytest.mark.parametrize("amplifier", ALL, ids=repr)
at_back_offs = pytest.mark.parametrize("back_off_db", [0.0, 3.0, 8.0])


def ratio(decibels: float) -> float:
    return float(10 ** (decibels / 10))


def integral(amplifier: Amplifier, back_off: float, power: int, times: Any) -> float:
    """E[t^(power/2) times(gain)] for t exponential with mean 1, by scipy's adaptive quadrature in two parts."""

    def value(t: float) -> float:
        gain = amplifier.gain(np.array([math.sqrt(t / back_off)]))[0]
        return float(t ** (power / 2) * times(gain) * math.exp(-t))

    return sum(
        integrate.quad(value, low, high, limit=400, epsabs=1e-12)[0] for low, high in ((0, back_off), (back_off, 60))
    )


def amplified(amplifier: Amplifier, back_off: float, symbols: Complex) -> tuple[Complex, Complex, float]:
    """Entries of unit power before and after an amplifier in time, [symbols, subcarriers], and the radiated power."""
    amplification = Amplification(amplifier, np.array([math.sqrt(back_off)]), np.ones(1, dtype=np.complex128))
    sent = transmit(symbols[None], WAVEFORM, amplification)
    received = receive(sent.samples[0], WAVEFORM, len(symbols))
    radiated = float(sent.energy[0] * (1 - sent.prefix_share[0]) + sent.outside[0]) / symbols.size
    return symbols, received, radiated


def entries(seed: int, real: bool = False, symbols: int = SYMBOLS) -> Complex:
    """Independent entries of unit power, real or complex Gaussian."""
    generator = np.random.default_rng(seed)
    if real:
        return generator.standard_normal((symbols, SUBCARRIERS)) + 0j
    return gaussian(generator, symbols, SUBCARRIERS)


# --- closed forms ----------------------------------------------------------------------------------------------------


@at_back_offs
@of_all
def test_moments_are_the_integrals_over_the_exponential_law(amplifier: Amplifier, back_off_db: float) -> None:
    back_off = ratio(back_off_db)
    point = operating_point(amplifier, back_off)
    gain = integral(amplifier, back_off, 2, np.real) + 1j * integral(amplifier, back_off, 2, np.imag)
    assert point.gain == pytest.approx(gain, abs=1e-8)
    assert point.power == pytest.approx(integral(amplifier, back_off, 2, lambda one: abs(one) ** 2), abs=1e-8)
    assert point.amplitude == pytest.approx(integral(amplifier, back_off, 1, abs), abs=1e-4)  # |1 - u^2/3| has an edge


def test_moments_worked_out_by_hand() -> None:
    """Soft limiter at rho = 1: alpha = 1 - 1/e + sqrt(pi)/2 erfc(1) = 0.771523..., E|y|^2 = 1 - 1/e. Rapp with p = 1 at
    rho = 1: E|y|^2 = 1 - e E1(1) = 0.403653... . Polynomial u - u^3/3 at rho = 4: alpha = 1 - 2/12, E|y|^2 = 1 - 4/12
    + 6/144, so that a third-order distortion of 2/144 is left. All of it is in the first term of the expansion."""
    limiter, rapp = operating_point(SoftLimiter(), 1.0), operating_point(Rapp(smoothness=1.0), 1.0)
    assert limiter.gain == pytest.approx(0.7715234, abs=1e-7)
    assert limiter.power == pytest.approx(0.6321206, abs=1e-7)
    assert rapp.power == pytest.approx(0.4036526, abs=1e-7)
    cubic = operating_point(Polynomial(coefficients=(-1 / 3,)), 4.0)
    assert cubic.gain == pytest.approx(1 - 2 / 12)
    assert cubic.distortion == pytest.approx(2 / 144)
    np.testing.assert_allclose(np.abs(cubic.terms) ** 2, [2 / 144, *[0.0] * 15], atol=1e-12)


@pytest.mark.parametrize("smoothness", [1.0, 2.0, 50.0])
def test_amplitudes_at_saturation(smoothness: float) -> None:
    """Rapp: 2^(-1/2p) at u = 1, towards 1 beyond; Saleh: 1/2, its maximum, turned by alpha/(beta_a + beta_phi)."""
    rapp, u = Rapp(smoothness=smoothness), np.array([0.0, 1.0, 1e3, 1e200])
    np.testing.assert_allclose(u * np.abs(rapp.gain(u)), [0, 2 ** (-1 / (2 * smoothness)), 1, 1], atol=1e-6)
    saleh = Saleh()
    assert saleh.gain(np.ones(1))[0] == pytest.approx(0.5 * np.exp(1j * 4.0033 / (1.1517 + 9.1040)))
    assert saleh.gain(np.full(1, 2.0))[0] == pytest.approx(0.2 * np.exp(4j * 4.0033 / (1.1517 + 4 * 9.1040)))
    around = np.array([0.9, 1.1])
    assert (around * np.abs(saleh.gain(around)) < 0.5).all()


def test_a_rapp_amplifier_with_a_sharp_edge_is_a_soft_limiter() -> None:
    for back_off in (1.0, 4.0):
        sharp, limit = operating_point(Rapp(smoothness=100.0), back_off), operating_point(SoftLimiter(), back_off)
        assert sharp.gain == pytest.approx(limit.gain, abs=1e-3)
        assert sharp.distortion == pytest.approx(limit.distortion, abs=1e-3)


def test_shares_in_the_band_are_those_of_sums_of_uniform_numbers() -> None:
    """Irwin and Hall's law at the centre is the central Eulerian number over n!: 4/3!, 66/5!, 2416/7!. One subcarrier
    has no neighbours."""
    np.testing.assert_allclose(in_band_shares(4096)[:3], [4 / 6, 66 / 120, 2416 / 5040], rtol=1e-6)
    np.testing.assert_allclose(in_band_shares(1), 1.0)
    counted = sum(0 <= a - b + c < 5 for a in range(5) for b in range(5) for c in range(5)) / 125
    assert in_band_shares(5)[0] == pytest.approx(counted)


def test_supply_power_of_the_classes() -> None:
    """A limiter far beyond saturation has a constant amplitude: efficiencies 1/2 and pi/4. Far below, class A draws
    2 rho, and class B 2 sqrt(rho/pi) of the radiated power."""
    limiter = SoftLimiter()
    for back_off, of_a, of_b in ((1e-6, 2.0, 4 / math.pi), (1e4, 2e4, 2 * math.sqrt(1e4 / math.pi))):
        point = operating_point(limiter, back_off)
        assert consumed_over_radiated(limiter, point, back_off, "a") == pytest.approx(of_a, rel=2e-3)
        assert consumed_over_radiated(limiter, point, back_off, "b") == pytest.approx(of_b, rel=2e-3)


@of_all
def test_no_amplifier_radiates_more_than_it_draws(amplifier: Amplifier) -> None:
    for back_off_db in (3.0, 6.0, 20.0):
        point = operating_point(amplifier, ratio(back_off_db))
        for kind in ("a", "b"):
            assert consumed_over_radiated(amplifier, point, ratio(back_off_db), kind) > 1.0


# --- the waveform against the model per element ----------------------------------------------------------------------


@at_back_offs
@of_all
def test_an_element_of_the_waveform_has_gain_and_distortion_of_the_model(
    amplifier: Amplifier, back_off_db: float
) -> None:
    """400 symbols of 128 entries, each symbol a sample: within 5 standard errors and 3 of 2 K, for which neighbouring
    samples of few subcarriers are not quite independent Gaussian."""
    back_off = ratio(back_off_db)
    point = operating_point(amplifier, back_off)
    sent, received, radiated = amplified(amplifier, back_off, entries(41))
    power = (np.abs(sent) ** 2).mean(axis=1)
    rounding = 1.5 / SUBCARRIERS
    assert_mean((received * sent.conj()).mean(axis=1) / power.mean(), point.gain, rounding * abs(point.gain))
    distortion = (np.abs(received - point.gain * sent) ** 2).mean(axis=1)
    # The distortion of order 2n + 1 grows with that power of a symbol's energy, whose variance is 1/K.
    assert_mean(distortion, sum(point.in_band(SUBCARRIERS)), 25 / SUBCARRIERS * sum(point.in_band(SUBCARRIERS)))
    assert radiated == pytest.approx(point.power, rel=5 / math.sqrt(sent.size) + rounding)


@pytest.mark.parametrize("amplifier", [Rapp(), Saleh(), TURNING], ids=repr)
def test_real_entries_have_the_distortion_of_the_model_in_each_part(amplifier: Amplifier) -> None:
    """Of an amplifier that does not turn the phase nothing falls on the imaginary part."""
    point = operating_point(amplifier, 2.0)
    turn = abs(point.gain) / point.gain
    sent, received, _ = amplified(amplifier, 2.0, entries(42, real=True))
    left = (received - point.gain * sent) * turn
    for part, expected in zip((left.real, left.imag), point.in_band(SUBCARRIERS, turn), strict=True):
        assert_mean((part**2).mean(axis=1), expected, 25 / SUBCARRIERS * expected + 1e-20)
    if isinstance(amplifier, Rapp):
        assert point.in_band(SUBCARRIERS, turn)[1] == 0.0


def test_third_order_distortion_is_not_flat() -> None:
    """Its density is 3/4 of the whole over the band at the centre and 1/2 at the edges: a model with one number has the
    mean, 2/3. Mean over 8 subcarriers of 2,000 symbols."""
    point = operating_point(Polynomial(), 8.0)
    sent, received, _ = amplified(Polynomial(), 8.0, entries(43, symbols=2000))
    spectrum = np.abs(received - point.gain * sent) ** 2 / point.distortion
    centre, edge = spectrum[:, 60:68].mean(axis=1), np.hstack([spectrum[:, :4], spectrum[:, -4:]]).mean(axis=1)
    assert_mean(centre, 0.75, 0.75 * 25 / SUBCARRIERS)
    assert_mean(edge, 0.5, 0.5 * 25 / SUBCARRIERS)
    assert stats.ttest_ind(centre, edge).pvalue < 1e-6


# --- rounds ---------------------------------------------------------------------------------------------------------

DEVICES, ENTRIES = 6, 6000
FLAT = (
    *everybody(DEVICES),
    *("channel.fading=fixed", "channel.mean_gain=1.0", "channel.min_gain=1e-9", "channel.max_gain=1e9"),
    *("channel.noise=false", "grid.subcarriers=200", "power.max_snr_db=20", "local.clip_norm=1.0"),
)
HARD = ("hardware.amplifier=soft-limiter", "hardware.back_off_db=1")


def received(*overrides: str, norm: float = 1.0, seed: int = 5) -> tuple[float, LinkReport, LinkReport]:
    """Error of the mean over its power for messages of this norm, report and link budget of a round."""
    import torch

    plan = planned(built(ENTRIES, *FLAT, *overrides))
    budget = plan.link.link_budget()
    values = np.random.default_rng(seed).standard_normal((DEVICES, ENTRIES))
    values *= norm / np.linalg.norm(values, axis=1, keepdims=True)
    messages = torch.from_numpy(values.astype(np.float32))
    reception = send(plan, messages)
    missed = reception.mean.numpy() - values.mean(axis=0)
    return float(missed @ missed) * DEVICES / norm**2, reception.report, budget


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("calibrated", ["true", "false"])
@pytest.mark.parametrize("amplifier", ["soft-limiter", "rapp", "saleh"])
def test_a_round_has_the_error_of_the_closed_form_and_of_the_waveform(
    amplifier: str, calibrated: str, packing: str
) -> None:
    """|c - 1|^2 or, for a real payload, (Re c - 1)^2 for gain c, and distortion; 6 x 6,000 entries, whose squares
    of the means have a relative deviation of sqrt(2/6,000), 5 of which are 0.09; 30 symbols have another 25/200."""
    back_off = ratio(3.0)
    point = operating_point(AMPLIFIERS[amplifier](), back_off)
    output = 1 / point.gain if calibrated == "true" else 1.0
    gain, turn = output * point.gain, output / abs(output)
    parts = point.in_band(200, turn)
    distortion = abs(output) ** 2 * (parts[0] if packing == "real" else sum(parts))
    # Between the two entries of a pair, and between devices of equal phases, deviations of the phase add up.
    misled = (gain.real - 1) ** 2 + (gain.imag**2 if packing == "iq" else 0.0)
    given = (
        *(f"hardware.amplifier={amplifier}", "hardware.back_off_db=3", f"hardware.calibrated={calibrated}"),
        f"grid.packing={packing}",
    )
    modelled, report, budget = received(*given)
    simulated, in_time, _ = received(*given, "grid.waveform=true")
    assert modelled == pytest.approx(misled + distortion, rel=0.09)
    assert simulated == pytest.approx(misled + distortion, rel=0.2)
    np.testing.assert_allclose(report.devices.energy, budget.devices.energy, rtol=1e-5)
    np.testing.assert_allclose(in_time.devices.energy, report.devices.energy, rtol=0.03)
    assert report.interference_std == pytest.approx(budget.interference_std, rel=1e-5)
    assert report.interference_std**2 * DEVICES * ENTRIES == pytest.approx(distortion, rel=1e-5)


def test_bursts_of_other_cells_add_to_the_distortion() -> None:
    """Interference of about the power of the distortion, all of it in a tenth of the elements, so that its error is
    known to 5 sqrt(2/600)."""
    bursts = ("channel.interference=bernoulli-gaussian", "channel.interference_burst_probability=0.1")
    given = (*HARD, "channel.interference_to_noise_db=12")
    alone, report, _ = received(*HARD)
    gaussian_error, smooth, _ = received(*given)
    error, disturbed, budget = received(*given, *bursts)
    assert disturbed.interference_std == pytest.approx(smooth.interference_std, rel=1e-9)
    assert disturbed.interference_std == pytest.approx(budget.interference_std, rel=1e-5)
    others = smooth.interference_std**2 - report.interference_std**2
    assert others > 0
    added = others * DEVICES * ENTRIES
    assert gaussian_error - alone == pytest.approx(added, rel=0.15)
    assert error - alone == pytest.approx(added, rel=5 * math.sqrt(2 / 600))


def test_a_device_that_sends_less_is_distorted_less() -> None:
    """Messages of half the norm are driven 6 dB lower, in both models; devices are calibrated for whole ones."""
    at_limit, lower = (operating_point(SoftLimiter(), ratio(1) * factor) for factor in (1, 4))
    gain = lower.gain / at_limit.gain
    expected = abs(gain - 1) ** 2 + sum(lower.in_band(200)) / abs(at_limit.gain) ** 2
    for time in ("false", "true"):
        error, report, _ = received(*HARD, f"grid.waveform={time}", norm=0.5)
        assert error == pytest.approx(expected, rel=0.12)
        radiated = lower.power / abs(at_limit.gain) ** 2
        np.testing.assert_allclose(report.devices.energy, 0.25 * 100 * ENTRIES * radiated, rtol=0.03)


def test_devices_with_strong_channels_have_more_back_off() -> None:
    """Under alignment beta is that of the weakest device: one with |h|^2 four times as large sends a quarter."""
    plan = planned(built(ENTRIES, *FLAT, *HARD, "channel.fading=rayleigh", "channel.noise=true"))
    report = plan.link.link_budget()
    gains = np.abs(plan.channel.response[:, 0, 0, 0]) ** 2
    drive = gains.min() / gains
    for device in range(DEVICES):
        point = operating_point(SoftLimiter(), ratio(1) / drive[device])
        scale = 100 * ENTRIES * drive[device] / abs(point.gain) ** 2
        assert report.devices.energy[device] == pytest.approx(scale * point.power, rel=1e-6)
        drawn = consumed_over_radiated(SoftLimiter(), point, ratio(1) / drive[device], "b")
        assert report.devices.supply_energy is not None
        assert report.devices.supply_energy[device] == pytest.approx(scale * point.power * drawn, rel=1e-6)


def test_over_a_selective_channel_half_of_the_distortion_is_observed() -> None:
    """Waveform and model over the same tapped line, messages aligned on every subcarrier, 20 rounds."""
    selective = (
        *HARD,
        *("channel.fading=tapped-line", "channel.delay_spread_s=1e-6", "channel.taps=6", "power.policy=per-subcarrier"),
    )
    errors = np.array(
        [
            [received(*selective, f"run.seed={seed}", f"grid.waveform={time}")[0] for time in ("false", "true")]
            for seed in range(20)
        ]
    )
    assert np.median(errors[:, 1] / errors[:, 0]) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("link", ["digital", "ideal"])
def test_bits_are_sent_at_the_sinr_of_the_distortion(link: str) -> None:
    """log2(1 + 1/(1/(|alpha|^2 SNR) + D/|alpha|^2)), and the energy is that of the output."""
    point = operating_point(Rapp(), ratio(2))
    given = (*FLAT, "scheme.name=fedavg", f"scheme.link={link}", f"run.selected={1 if link == 'digital' else DEVICES}")
    plain = planned(built(ENTRIES, *given)).link.link_budget().devices
    devices = (
        planned(built(ENTRIES, *given, "hardware.amplifier=rapp", "hardware.back_off_db=2")).link.link_budget().devices
    )
    gain = abs(point.gain) ** 2
    sinr = 1 / (1 / (gain * 50.0) + point.distortion / gain)
    assert plain.rate is not None
    assert devices.rate is not None
    assert devices.supply_energy is not None
    np.testing.assert_allclose(plain.rate, math.log2(51), rtol=1e-6)
    np.testing.assert_allclose(devices.rate, math.log2(1 + sinr), rtol=1e-6)
    more = plain.rate / devices.rate
    np.testing.assert_allclose(devices.energy, plain.energy * more * point.power, rtol=1e-3)
    drawn = consumed_over_radiated(Rapp(), point, ratio(2), "b")
    np.testing.assert_allclose(devices.supply_energy, devices.energy * drawn, rtol=1e-9)


# --- privacy --------------------------------------------------------------------------------------------------------


def test_distortion_is_no_privacy_noise() -> None:
    """Protection is sigma_0 over the largest amplitude, which a calibrated amplifier raises by 1/|alpha|, whatever the
    distortion; noise of 0 protects nobody."""
    alone = received("channel.noise=true")[1].protection
    limited = operating_point(SoftLimiter(), ratio(1))
    assert received(*HARD, "channel.noise=true")[1].protection == pytest.approx(alone * abs(limited.gain), rel=1e-6)
    assert received(*HARD, "channel.noise=true", "hardware.calibrated=false")[1].protection == pytest.approx(alone)
    assert received(*HARD)[1].protection == 0.0
    assert received("hardware.amplifier=polynomial", "channel.noise=true")[1].protection == 0.0  # |gain| has no bound


@pytest.mark.parametrize("amplifier", [SoftLimiter(), Rapp(), Saleh()], ids=repr)
def test_no_message_leaves_an_amplifier_with_more_than_its_bound(amplifier: Amplifier) -> None:
    """Messages that concentrate their norm, in one entry, in one sample or in one symbol, beside Gaussian ones."""
    amplifiers = Amplifiers(amplifier, back_off_db=2.0)
    bound = amplifiers.largest_gain(1.0)
    rows = np.zeros((4, 10, SUBCARRIERS), dtype=np.complex128)
    rows[0, 3, 17], rows[1, 2], rows[2, 0] = 1.0, 1.0, np.exp(2j * np.pi * np.random.default_rng(1).random(SUBCARRIERS))
    rows[3] = entries(44)[:10]
    for scale in (1e-3, 1.0, 1e3):
        messages = scale * rows / np.linalg.norm(rows, axis=(1, 2), keepdims=True)
        amplification = Amplification(amplifier, np.full(4, math.sqrt(ratio(2.0))), amplifiers.output(np.ones(4)))
        sent = transmit(messages, WAVEFORM, amplification)
        norms = [np.linalg.norm(receive(one, WAVEFORM, 10)) for one in sent.samples]
        assert max(norms) <= bound * scale * (1 + 1e-9)
        if scale == 1e-3:
            assert max(norms) >= 0.99 * bound * scale  # a weak message is not compressed at all


def test_noise_of_devices_before_an_amplifier_is_refused() -> None:
    with pytest.raises(UserError, match=r"^hardware.amplifier: no privacy figure .*'dp-fedavg'.*another scheme$"):
        built(ENTRIES, *FLAT, "scheme.name=dp-fedavg", "scheme.link=analog", "hardware.amplifier=rapp")
