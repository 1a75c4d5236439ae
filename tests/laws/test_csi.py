"""Imperfect CSI against closed forms and against OFDM symbols in time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from channels.csi import IMPAIRMENTS, ChannelInformation, ChannelState, Response, perfect_csi
from channels.csi.ageing import ageing_correlation
from channels.csi.feedback import quantise_phase
from channels.draws import Draw
from channels.frame import Frame
from tests.imperfections import impair
from tests.laws.ofdm import ALL, PREFIX, SAMPLE_S, SIZE, SPACING, demodulated, ofdm, qpsk
from tests.laws.samples import Array, Complex, assert_law, assert_mean, bessel, draws, gaussian

N = 40_000
FLAT = Frame(np.zeros(1), elements=1, symbol_s=1 / 14e3, symbols_per_block=1)


def given(values: Array) -> dict[str, Draw]:
    """The same numbers, [devices, 1], for every impairment."""
    return dict.fromkeys(IMPAIRMENTS, lambda count: values[:, :count])


def rayleigh(devices: int, seed: int, power: float = 1.0, noise: float = 0.0) -> ChannelInformation:
    """Flat h ~ CN(0, power), known perfectly, with pilot noise of variance `noise`."""
    return exactly(np.sqrt(power) * gaussian(np.random.default_rng(seed), devices), power, noise)


def exactly(h: Any, power: Any = 1.0, noise: Any = 0.0) -> ChannelInformation:
    """Perfect knowledge of h, [devices] or [devices, antennas, blocks, subcarriers]."""
    h = np.asarray(h, dtype=np.complex128)
    each = (np.broadcast_to(np.asarray(values, dtype=np.float64), len(h)) for values in (power, noise))
    return perfect_csi(ChannelState(h if h.ndim == 4 else h[:, None, None, None]), *each)


def flat(response: Response) -> Complex:
    return np.asarray(response[:, 0, 0, 0], dtype=np.complex128)


def known(csi: ChannelInformation, **parameters: Any) -> tuple[Complex, Complex, ChannelInformation]:
    """True channel, estimate, and all that is known, under these parameters, for flat channels."""
    after = impair(csi, FLAT, draws(len(csi.mean_power), 11), **parameters)
    return flat(after.state.response), flat(after.estimate.response), after


@pytest.mark.parametrize(("power", "noise", "pilots"), [(1.0, 0.5, 1), (4e-4, 2e-4, 4), (2.0, 8.0, 2)])
def test_estimation_errors_have_the_stated_variance(power: float, noise: float, pilots: int) -> None:
    """n = 40,000. LS: hhat - h ~ CN(0, v/L) independent of h. MMSE: E[e conj(hhat)] = 0, E|e|^2 = P (v/L)/(P + v/L)."""
    source = rayleigh(N, 1, power, noise)
    h, hhat, _ = known(source, estimation="ls", pilots=pilots)
    error = hhat - h
    assert_mean(np.abs(error) ** 2, noise / pilots)
    assert_mean(error**2, 0)  # circular
    assert_mean(error * h.conj(), 0)
    assert_law(np.abs(error) ** 2 / (noise / pilots), "expon")

    h, mmse, after = known(source, estimation="mmse", pilots=pilots)
    expected = 1 / (1 / power + pilots / noise)  # precisions add up
    np.testing.assert_allclose(after.error_variance, expected, rtol=1e-12)
    np.testing.assert_array_equal(after.slope, 1.0)
    assert_mean(np.abs(h - mmse) ** 2, expected)
    assert_mean((h - mmse) * mmse.conj(), 0)
    np.testing.assert_allclose(mmse, hhat * power / (power + noise / pilots), rtol=1e-12)


@pytest.mark.parametrize("estimation", ["perfect", "ls", "mmse"])
@pytest.mark.parametrize(("doppler_hz", "delay_s"), [(0.0, 0.0), (50.0, 1e-3), (100.0, 6e-3)])
def test_slope_and_error_variance_are_conditional_moments(estimation: str, doppler_hz: float, delay_s: float) -> None:
    """n = 40,000: e = h - slope hhat is CN(0, error_variance) and independent of hhat, in quarters of |hhat| as well.
    The last setting has rho = J0(3.77) = -0.40."""
    given = {"estimation": estimation, "pilots": 2, "doppler_hz": doppler_hz, "delay_s": delay_s}
    h, hhat, after = known(rayleigh(N, 2, 0.3, 0.2), **given)
    error, variance = h - after.slope * hhat, after.error_variance[0]
    if not variance:
        np.testing.assert_array_equal(error, 0)
        return
    for here in np.array_split(np.argsort(np.abs(hhat)), 4):
        assert_mean(error[here] * hhat[here].conj(), 0)
        assert_mean(np.abs(error[here]) ** 2, variance)
        assert_law(np.abs(error[here]) ** 2 / variance, "expon")
        assert_law(np.angle(error[here] / hhat[here]) / (2 * np.pi) + 0.5, "uniform")


def test_moments_are_each_devices_own() -> None:
    """Two groups of 20,000 devices, ten times apart in power and noise."""
    power, noise = np.repeat([1.0, 0.1], N // 2), np.repeat([0.1, 0.5], N // 2)
    source = exactly(np.sqrt(power) * gaussian(np.random.default_rng(3), N), power, noise)
    for estimation in ("ls", "mmse"):
        h, hhat, after = known(source, estimation=estimation, doppler_hz=50, delay_s=2e-3)
        for group in (slice(0, N // 2), slice(N // 2, N)):
            error = h[group] - after.slope[group] * hhat[group]
            assert_mean(error * hhat[group].conj(), 0)
            assert_mean(np.abs(error) ** 2, after.error_variance[group][0])


@pytest.mark.parametrize(("doppler_hz", "delay_s"), [(5.0, 1e-3), (50.0, 2e-3), (200.0, 3e-3), (300.0, 5e-3)])
def test_aged_channels_correlate_as_bessel(doppler_hz: float, delay_s: float) -> None:
    """n = 40,000: E[h' conj(h)] = P J0(2 pi f_D delay), and h' is as Rayleigh as h was."""
    rho = bessel(2 * np.pi * doppler_hz * delay_s)
    assert ageing_correlation(doppler_hz, delay_s) == pytest.approx(rho, abs=1e-13)
    source = rayleigh(N, 5, 0.04)
    aged, before, _ = known(source, doppler_hz=doppler_hz, delay_s=delay_s)
    np.testing.assert_array_equal(before, flat(source.state.response))
    assert_mean(aged * before.conj(), 0.04 * rho)
    assert_mean(aged * before, 0)
    assert_law(np.abs(aged) ** 2 / 0.04, "expon")


def test_the_innovation_is_as_selective_as_the_channel() -> None:
    """8,000 devices, four taps of equal power on 32 subcarriers, two antennas, aged to rho = 0. Every coefficient is
    CN(0, 1) whatever h is, antennas are independent, and the correlation over frequency is that of the taps: with equal
    powers the periodogram divided by its sum has the profile as its mean."""
    response = np.fft.fft(gaussian(np.random.default_rng(6), 8_000, 2, 1, 4) / 2, n=32, axis=-1)
    frame = replace(FLAT, frequencies_hz=np.arange(32) * SPACING, elements=32)
    delay_s = 2.404825557695773 / (2 * np.pi * 100)  # the first zero of J0
    aged = impair(exactly(response), frame, draws(8_000, 17), doppler_hz=100, delay_s=delay_s).state.response
    for k in (0, 7, 31):
        for antenna in (0, 1):
            w, h = aged[:, antenna, 0, k], response[:, antenna, 0, k]
            assert_law(np.abs(w) ** 2, "expon")
            assert_mean(w * h.conj(), 0)
            assert_mean((np.abs(w) ** 2 - 1) * (np.abs(h) ** 2 - 1), 0)
    assert_mean(aged[:, 0] * aged[:, 1].conj(), 0)
    for step in (1, 2, 5, 8):
        expected = np.exp(-2j * np.pi * np.arange(4) * step / 32).mean()
        assert_mean((aged[..., step:] * aged[..., :-step].conj()).mean(axis=(1, 2, 3)), expected)
    # No longer in delay than the channel itself.
    assert np.abs(np.fft.ifft(aged, axis=-1)[..., 4:]).max() < 1e-12


def test_the_innovation_is_flat_where_the_channel_is() -> None:
    """Over subcarriers or over blocks, whether that axis has length 1 or equal values."""
    h = gaussian(np.random.default_rng(7), 50, 2, 3, 1)
    frame = replace(FLAT, frequencies_hz=np.arange(4) * SPACING, elements=12)
    for response, axis in ((np.repeat(h, 4, axis=3), 3), (np.repeat(h[:, :, :1], 3, axis=2), 2)):
        aged = impair(exactly(response), frame, draws(50, 13), doppler_hz=100, delay_s=1e-3).state.response
        np.testing.assert_allclose(np.ptp(aged.real, axis=axis), 0, atol=1e-12)
        assert np.abs(np.diff(aged, axis=1)).min() > 1e-6


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("estimation", ["perfect", "mmse"])
def test_phase_errors_are_gaussian_and_no_more(spread: float, estimation: str) -> None:
    """n = 40,000. Precoding by a noisy estimate leaves the phase error what it is: seen on h' over h."""
    source = rayleigh(N, 10, 1.0, 0.1)
    h, _, after = known(source, estimation=estimation, phase_std_rad=spread)
    turned = h / flat(source.state.response)
    np.testing.assert_allclose(np.abs(turned), 1, rtol=1e-12)
    if spread < 1:  # beyond, the angle comes round
        assert_law(np.angle(turned), stats.norm(scale=spread).cdf)
    assert_mean(turned**2, np.exp(-2 * spread**2))
    assert (after.error_variance is None) == (estimation == "mmse")


@pytest.mark.parametrize("bits", [1, 2, 3, 8])
def test_phase_quantiser(bits: int) -> None:
    """n = 40,000 uniform phases: 2^b values, error uniform in plus and minus pi/2^b, modulus untouched."""
    h, hhat, after = known(rayleigh(N, 12), phase_bits=bits)
    error, half = np.angle(hhat / h), np.pi / 2**bits
    assert np.abs(error).max() <= half * (1 + 1e-12)
    assert_law(error, stats.uniform(-half, 2 * half).cdf)
    assert len(np.unique(np.round(np.angle(hhat), 9))) == 2**bits
    np.testing.assert_allclose(np.abs(hhat), np.abs(h), rtol=1e-12)
    cells_begin_at_zero = quantise_phase(np.array([0.1, 1.5, 1.6, -0.1]), 2)
    np.testing.assert_allclose(cells_begin_at_zero, np.pi / 4 * np.array([1, 1, 3, -1]))
    assert_mean(h / hhat, np.sinc(1 / 2**bits))  # what arrives of a payload
    assert not after.error_variance.any()


@pytest.mark.parametrize(("bits", "low", "high"), [(1, -20.0, 5.0), (4, -30.0, 10.0), (8, -40.0, 10.0)])
def test_gain_quantiser(bits: int, low: float, high: float) -> None:
    """n = 40,000 moduli, to 10 dB beyond the range: error uniform within half a cell, outermost levels outside."""
    power, generator = 2.5e-3, np.random.default_rng(13)
    level = generator.uniform(low - 10, high + 10, N)
    h = np.sqrt(power) * 10 ** (level / 20) * np.exp(2j * np.pi * generator.random(N))
    _, hhat, after = known(exactly(h, power), gain_bits=bits, gain_range_db=(low, high))
    said, half = 20 * np.log10(np.abs(hhat) / np.sqrt(power)), (high - low) / 2**bits / 2
    inside = (level > low) & (level < high)
    assert np.abs(said - level)[inside].max() <= half * (1 + 1e-9)
    assert_law((said - level)[inside], stats.uniform(-half, 2 * half).cdf)
    np.testing.assert_allclose(said[level < low], low + half, rtol=1e-9)
    np.testing.assert_allclose(said[level > high], high - half, rtol=1e-9)
    assert len(np.unique(np.round(said, 6))) == 2**bits
    np.testing.assert_allclose(np.angle(hhat / h), 0, atol=1e-12)
    assert after.error_variance is None


def offset(**parameters: Any) -> Callable[[float, Frame], ChannelInformation]:
    """An ideal channel of one device, off by this share of the largest offset."""

    def at(uniform: float, frame: Frame) -> ChannelInformation:
        return impair(exactly(np.ones(1)), frame, given(np.array([[uniform]])), **parameters)

    return at


@pytest.mark.parametrize("late", [1, 5, 16])
def test_a_late_symbol_within_the_prefix_is_a_ramp(late: int) -> None:
    """The window holds the symbol turned around: exact, 1e-12."""
    after = offset(timing_offset_s=32 * SAMPLE_S, prefix_s=PREFIX * SAMPLE_S)(late / 32, ALL)
    assert after.state.response.shape == (1, 1, 1, SIZE)
    assert after.estimate.response.shape == (1, 1, 1, 1)
    np.testing.assert_allclose(after.leakage, 0, atol=1e-15)
    symbols = qpsk(3, SIZE)
    start = SIZE + PREFIX + PREFIX - late  # of the second symbol's window, in the late device's own samples
    heard = demodulated(ofdm(symbols)[start : start + SIZE])
    np.testing.assert_allclose(heard, after.state.response[0, 0, 0] * symbols[1], atol=1e-12)


def test_a_fraction_of_a_sample_is_a_ramp_too() -> None:
    """The continuous waveform sum_k s_k e^(j 2 pi f_k (t - tau)), sampled, against the ramp."""
    after = offset(timing_offset_s=PREFIX * SAMPLE_S, prefix_s=PREFIX * SAMPLE_S)(0.3, ALL)
    symbols, times = qpsk(SIZE), np.arange(SIZE) * SAMPLE_S - 0.3 * PREFIX * SAMPLE_S
    waveform = np.exp(2j * np.pi * np.outer(times, ALL.frequencies_hz)) @ symbols
    heard = demodulated(waveform) / np.sqrt(SIZE)
    np.testing.assert_allclose(heard, after.state.response[0, 0, 0] * symbols, atol=1e-12)


@pytest.mark.parametrize("beyond", [1, 6, 20, 40])
def test_beyond_the_prefix_power_leaks(beyond: int) -> None:
    """Windows that begin e samples into the symbol before, 4,000 pairs of random symbols of 64 subcarriers: useful
    coefficient and leaked power within 5 standard errors over pairs."""
    late = PREFIX + beyond
    after = offset(timing_offset_s=60 * SAMPLE_S, prefix_s=PREFIX * SAMPLE_S)(late / 60, ALL)
    useful, share = after.state.response[0, 0, 0], after.leakage[0]
    symbols, start = qpsk(4_000, 2, SIZE), SIZE + PREFIX + PREFIX - late
    heard = demodulated(ofdm(symbols)[:, start : start + SIZE])
    assert_mean((heard * symbols[:, 1].conj() / useful).mean(axis=1), 1)
    assert_mean((np.abs(heard - useful * symbols[:, 1]) ** 2).mean(axis=1), share)
    assert share == pytest.approx(1 - np.abs(useful[0]) ** 2, rel=1e-12)


@pytest.mark.parametrize("eps", [-0.45, -0.1, 0.02, 0.3])
def test_carrier_offset_turns_shrinks_and_leaks(eps: float) -> None:
    """Four symbols with prefixes, all carried by one offset oscillator, 1,500 times; 64 subcarriers. Sampled midway the
    finite transform's coefficient is sinc(eps)/sinc(eps/N) e^(j pi eps): 1e-4 from the model's at N = 64. Coefficient
    and leaked power of every symbol within 5 standard errors."""
    after = offset(frequency_offset_hz=0.48 * SPACING)((eps / 0.48 + 1) / 2, replace(ALL, elements=4 * SIZE))
    useful, share = after.state.response[0, 0, :, 0], after.leakage[0]
    assert after.state.response.shape == (1, 1, 4, 1)
    symbols = qpsk(1_500, 4, SIZE)
    times = np.arange(4 * (SIZE + PREFIX)) + 0.5 - PREFIX  # from the first symbol's useful part
    turned = ofdm(symbols) * np.exp(2j * np.pi * eps * times / SIZE)
    heard = demodulated(turned.reshape(1_500, 4, SIZE + PREFIX)[..., PREFIX:])
    assert share == pytest.approx(1 - np.abs(useful[0]) ** 2, rel=1e-12)
    for b in range(4):
        assert_mean((heard[:, b] * symbols[:, b].conj()).mean(axis=1) / useful[b], 1, rounding=1e-4)
        assert_mean((np.abs(heard[:, b] - useful[b] * symbols[:, b]) ** 2).mean(axis=1), share, rounding=1e-4)


def test_offsets_are_uniform_within_their_limits() -> None:
    """n = 40,000 devices, read off the phases."""
    source = exactly(np.ones(N))
    frame = Frame(np.array([0.0, 1e3]), elements=4, symbol_s=1e-4, symbols_per_block=1)
    late = impair(source, frame, draws(N, 15), timing_offset_s=6e-5, prefix_s=6e-5).state.response
    assert_law(-np.angle(late[:, 0, 0, 1]) / (2 * np.pi * 1e3), stats.uniform(0, 6e-5).cdf)
    off = impair(source, frame, draws(N, 15), frequency_offset_hz=900).state.response
    step = np.angle(off[:, 0, 1, 0] / off[:, 0, 0, 0]) / (2 * np.pi * 1e-4)
    assert_law(step, stats.uniform(-900, 1800).cdf)


def test_leakage_composes_by_what_is_left() -> None:
    """Useful shares multiply, and what is left in the response is the useful share."""
    numbers = np.random.default_rng(16).random((20, 1))
    source, only = exactly(np.ones(20)), ({"timing_offset_s": 5e-5, "prefix_s": 5e-6}, {"frequency_offset_hz": 5e3})
    kept = [1 - impair(source, ALL, given(numbers), **parameters).leakage for parameters in only]
    both = impair(source, ALL, given(numbers), **only[0], **only[1])
    np.testing.assert_allclose(1 - both.leakage, kept[0] * kept[1], rtol=1e-12)
    np.testing.assert_allclose(np.abs(both.state.response[:, 0, 0]) ** 2, (1 - both.leakage)[:, None] * np.ones(SIZE))
    assert both.leakage.max() > 0.5
