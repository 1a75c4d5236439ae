"""The OFDM signal in time against the per-subcarrier model, and the limits of that model."""

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import special, stats

from channels.waveform import Waveform, papr_db, propagate, receive, response, transmit
from tests.laws.samples import Complex, assert_mean, gaussian

PLAIN = Waveform(fft_size=64, prefix_samples=16, subcarriers=37)
FULL = Waveform(fft_size=64, prefix_samples=16, subcarriers=64)
ONE = np.ones((1, 1), dtype=np.complex128)


def drawn(seed: int, *shape: int) -> Complex:
    """Independent CN(0, 1)."""
    return gaussian(np.random.default_rng(seed), *shape)


def through(symbols: Complex, taps: Complex, delays: ArrayLike, *arrival: ArrayLike, on: Waveform) -> Complex:
    """Received entries [symbols, subcarriers], without noise, after timing and carrier offsets."""
    return receive(propagate(transmit(symbols, on).samples, taps, delays, *arrival, on), on, symbols.shape[1])


def modelled(symbols: Complex, taps: Complex, delays: ArrayLike, waveform: Waveform) -> Complex:
    """sum_i H_i[k] X_i[s, k]."""
    return np.asarray((response(taps, delays, waveform)[:, None] * symbols).sum(axis=0))


def relative_error(found: Complex, expected: Complex) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("fft_size", [64, 128, 2048])
@pytest.mark.parametrize("subcarriers", [1, 36, 37, 64])
def test_a_flat_channel_is_one_coefficient(fft_size: int, subcarriers: int) -> None:
    waveform = Waveform(fft_size, prefix_samples=9, subcarriers=subcarriers)
    symbols, taps = drawn(1, 3, 4, subcarriers), drawn(2, 3, 1)
    received = through(symbols, taps, [0], [0, 0, 0], 0.0, on=waveform)
    assert relative_error(received, (taps[:, :, None] * symbols).sum(axis=0)) < 1e-12


@pytest.mark.parametrize("waveform", [PLAIN, FULL, Waveform(64, 0, 37), Waveform(64, 64, 37)])
def test_paths_within_the_prefix_are_a_response_per_subcarrier(waveform: Waveform) -> None:
    """A prefix may be anything from none to the whole symbol."""
    symbols, taps = drawn(3, 4, 5, waveform.subcarriers), drawn(4, 4, 6)
    delays = np.minimum([0, 1, 3, 8, 15, 64], waveform.prefix_samples)
    received = through(symbols, taps, delays, np.zeros(4), np.zeros(4), on=waveform)
    assert relative_error(received, modelled(symbols, taps, delays, waveform)) < 1e-12


def test_every_device_has_its_own_delays() -> None:
    symbols, taps, delays = drawn(5, 2, 3, 37), drawn(6, 2, 2), np.array([[0, 5], [2, 16]])
    received = through(symbols, taps, delays, [0, 0], [0, 0], on=PLAIN)
    apart = [modelled(symbols[i : i + 1], taps[i : i + 1], delays[i], PLAIN) for i in (0, 1)]
    assert relative_error(received, apart[0] + apart[1]) < 1e-12


def test_a_timing_offset_within_the_prefix_is_a_ramp_of_phase() -> None:
    """H[k] e^(-j 2 pi (k - K//2) d/N), as long as delay and offset together stay within the prefix."""
    symbols, taps, delays, timing = drawn(7, 3, 4, 37), drawn(8, 3, 2), [0, 4], np.array([0, 5, 12])
    ramp = np.exp(-2j * np.pi * (np.arange(37) - 18) * timing[:, None] / 64)
    expected = ((response(taps, delays, PLAIN) * ramp)[:, None] * symbols).sum(axis=0)
    assert relative_error(through(symbols, taps, delays, timing, 0.0, on=PLAIN), expected) < 1e-12
    assert relative_error(modelled(symbols, taps, np.array(delays) + timing[:, None], PLAIN), expected) < 1e-12


def test_the_response_is_the_fourier_transform_of_the_taps() -> None:
    taps, delays = drawn(9, 2, 3), np.array([0, 2, 11])
    impulse = np.zeros((2, 64), dtype=np.complex128)
    impulse[:, delays] = taps
    frequencies = np.fft.fftshift(np.fft.fft(impulse, axis=1), axes=1)
    np.testing.assert_allclose(response(taps, delays, FULL), frequencies, rtol=1e-12)
    np.testing.assert_allclose(response(taps, delays, PLAIN), frequencies[:, 32 - 18 : 32 + 19], rtol=1e-12)


@pytest.mark.parametrize("excess", [1, 4, 16])
@pytest.mark.parametrize("late_by", ["delay", "timing", "early"])
def test_the_error_beyond_the_prefix_is_twice_the_excess(late_by: str, excess: int) -> None:
    """Of the N samples in a window e are another symbol's: as much is missing as is too much, an error of 2 e/N of the
    received power. An early arrival has no prefix to live on. All subcarriers in use, 500 symbols of 64: the standard
    error of the mean over symbols is measured, 5 of them are allowed."""
    symbols, shift = drawn(10, 1, 502, 64), excess if late_by == "early" else FULL.prefix_samples + excess
    delay, timing = {"delay": (shift, 0), "timing": (0, shift), "early": (0, -shift)}[late_by]
    taps = np.array([[0.5j]])
    expected = modelled(symbols, taps, [delay + timing], FULL)
    errors = (np.abs(through(symbols, taps, [delay], [timing], 0.0, on=FULL) - expected) ** 2).mean(axis=1)[1:-1]
    assert_mean(errors, 0.25 * 2 * excess / 64)


@pytest.mark.parametrize("offset", [0.02, 0.1, -0.3])
def test_a_carrier_offset_turns_shrinks_and_leaks(offset: float) -> None:
    """Y = C_s X + leakage, C_s = (1/N) sum_n e^(j 2 pi offset (t_s + n)/N) for a window that starts at sample t_s. All
    subcarriers in use: leakage of mean power 1 - |C|^2 = 1 - sinc^2 up to O(1/N^2). 400 symbols."""
    symbols, samples = drawn(12, 1, 400, 64), np.arange(400)[:, None] * 80 + 16 + np.arange(64)
    received = through(symbols, ONE, [0], [0], [offset], on=FULL)
    coefficients = np.exp(2j * np.pi * offset * samples / 64).mean(axis=1, keepdims=True)
    leakage = np.abs(received - coefficients * symbols[0]) ** 2
    expected = 1 - np.sinc(offset) ** 2
    assert_mean(leakage.mean(axis=1), expected, rounding=1e-3 * expected)
    # The coefficient itself, by correlation over all entries: leakage is uncorrelated with the entry.
    found = (received * symbols[0].conj() * coefficients.conj()).mean() / abs(coefficients[0, 0])
    error = np.abs(symbols[0] ** 2).std() / np.sqrt(symbols.size) + np.sqrt(expected / symbols.size)
    assert abs(found - np.sinc(offset)) < 5 * error


def test_the_error_grows_with_the_offset_of_any_one_device() -> None:
    symbols, taps = drawn(14, 3, 6, 37), drawn(15, 3, 1)
    offsets = ([0, offset, 0] for offset in (0.0, 1e-4, 1e-3, 1e-2))
    received = [through(symbols, taps, [0], [0, 0, 0], each, on=PLAIN) for each in offsets]
    errors = [relative_error(found, modelled(symbols, taps, [0], PLAIN)) for found in received]
    assert errors[0] < 1e-12
    assert 1e-5 < errors[1] < errors[2] / 5 < errors[3] / 25


def test_energy_is_that_of_the_entries_and_of_the_prefixes() -> None:
    """Parseval: N samples have the energy of the entries; a prefix has that of the samples it copies."""
    symbols = drawn(16, 3, 5, 37)
    sent = transmit(symbols, PLAIN)
    blocks = sent.samples.reshape(3, 5, 80)
    entries = (np.abs(symbols) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose((np.abs(blocks[:, :, 16:]) ** 2).sum(axis=(1, 2)), entries, rtol=1e-12)
    np.testing.assert_array_equal(blocks[:, :, :16], blocks[:, :, -16:])
    np.testing.assert_allclose(sent.energy, (np.abs(sent.samples) ** 2).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(sent.energy * (1 - sent.prefix_share), entries, rtol=1e-12)
    assert (sent.clipped_share == 0).all()


def test_one_subcarrier_has_no_peaks_and_equal_entries_have_the_largest() -> None:
    for place in (0, 18, 36):
        np.testing.assert_allclose(papr_db((2 - 1j) * np.eye(37)[place].reshape(1, 1, 37), PLAIN), 0, atol=1e-10)
    for count in (2, 37, 64):
        waveform, symbols = Waveform(64, 0, count), np.full((2, 3, count), 1 + 1j)
        np.testing.assert_allclose(papr_db(symbols, waveform), 10 * np.log10(count), atol=1e-10)
        np.testing.assert_array_equal(transmit(symbols, waveform).papr_db, papr_db(symbols, waveform))


def test_two_entries_have_a_peak_of_3_db_wherever_it_falls() -> None:
    """Adjacent subcarriers of any phases beat with a peak of twice the mean; found within (pi/4N)^2/4 of it."""
    symbols = np.exp(2j * np.pi * np.random.default_rng(21).random((1, 200, 2)))
    ratios = papr_db(symbols, Waveform(8, 0, 2))[0]
    assert ratios.max() < 10 * np.log10(2) + 1e-9
    assert ratios.min() > 10 * np.log10(2 * (1 - (np.pi / 32) ** 2 / 4))


def exceedance(ratio: float, samples: int) -> float:
    """P(max/mean > ratio) of that many independent exponential numbers: Fisher's test of a periodogram (1929)."""
    count = np.arange(1, int(samples / ratio) + 1)
    terms = special.binom(samples, count) * np.maximum(1 - count * ratio / samples, 0) ** (samples - 1)
    return float((terms * (-1.0) ** (count - 1)).sum())


def test_peaks_of_random_entries_follow_their_law() -> None:
    """Critical sampling, all N = 64 subcarriers, Gaussian I/Q entries: samples are independent CN, so the ratio follows
    Fisher's law exactly (4,000 symbols, KS), and 1 - (1 - e^(-x))^N within 0.05."""
    ratios = 10 ** (papr_db(drawn(22, 1, 4000, 64), FULL, oversampling=1)[0] / 10)
    # Below 3 the sum of Fisher's law has terms of alternating sign too large for doubles; 64 samples are hardly there.
    assert (ratios > 3).mean() > 0.97
    upper = np.sort(ratios[ratios > 3])
    below = np.array([1 - exceedance(ratio, 64) for ratio in upper])
    steps = ((ratios <= 3).sum() + np.arange(len(upper) + 1)) / len(ratios)
    distance = max(np.abs(below - steps[:-1]).max(), np.abs(below - steps[1:]).max())
    assert stats.kstwobign.sf(distance * np.sqrt(len(ratios))) > 1e-4
    for level in (5.0, 6.0, 8.0):
        assert abs((ratios > level).mean() - (1 - (1 - np.exp(-level)) ** 64)) < 0.05


@pytest.mark.parametrize("clip_db", [-3.0, 0.0, 3.0, 6.0])
def test_clipping_follows_the_law_of_gaussian_samples(clip_db: float) -> None:
    """Amplitude limit g over rms, samples CN(0, 1): a share e^(-g^2) is clipped, a share e^(-g^2) of the energy goes,
    and what comes is a x + d with a = 1 - e^(-g^2) + sqrt(pi)/2 g erfc(g), E|d|^2 = 1 - e^(-g^2) - a^2 (Bussgang;
    Ochiai, Imai 2002). 64,000 samples: 5 standard errors, at most 0.5/sqrt(n) each, 2/sqrt(n) allowed for squares."""
    symbols, limit, n = drawn(24, 1, 1000, 64), 10 ** (clip_db / 20), 64_000
    waveform = Waveform(64, 16, 64, clip_db)
    sent, clipped = transmit(symbols, waveform), np.exp(-(limit**2))
    assert sent.clipped_share[0] == pytest.approx(clipped, abs=2.5 / np.sqrt(n))
    kept = sent.energy[0] * (1 - sent.prefix_share[0]) / (np.abs(symbols) ** 2).sum()
    assert 1 - kept == pytest.approx(clipped, abs=10 / np.sqrt(n))
    received = receive(sent.samples[0], waveform, 1000)
    shrink = 1 - clipped + np.sqrt(np.pi) / 2 * limit * special.erfc(limit)
    found = np.vdot(symbols[0], received) / np.vdot(symbols[0], symbols[0])
    assert abs(found - shrink) < 10 / np.sqrt(n)
    distortion = (np.abs(received - shrink * symbols[0]) ** 2).mean()
    assert distortion == pytest.approx(1 - clipped - shrink**2, abs=10 / np.sqrt(n))


def test_clipping_limits_the_modulus_and_keeps_the_phase() -> None:
    symbols = drawn(26, 2, 20, 37) * np.array([1.0, 30.0])[:, None, None]
    free, limited = transmit(symbols, PLAIN), transmit(symbols, Waveform(64, 16, 37, 2.0))
    useful = free.samples.reshape(2, 20, 80)[:, :, 16:]
    limits = np.sqrt((np.abs(useful) ** 2).mean(axis=(1, 2))) * 10**0.1
    over = np.abs(free.samples) > limits[:, None]
    np.testing.assert_allclose(np.abs(limited.samples)[over], np.repeat(limits, over.sum(axis=1)), rtol=1e-12)
    np.testing.assert_array_equal(limited.samples[~over], free.samples[~over])
    np.testing.assert_allclose(np.angle(limited.samples), np.angle(free.samples), atol=1e-9)
    shares = (np.abs(useful) > limits[:, None, None]).mean(axis=(1, 2))
    np.testing.assert_allclose(limited.clipped_share, shares, rtol=1e-12)
    np.testing.assert_array_equal(limited.papr_db, free.papr_db)


def test_a_clipped_signal_keeps_to_the_model_after_clipping() -> None:
    """The prefix is copied after clipping, so a channel within it still is one coefficient per subcarrier."""
    waveform, taps, delays = Waveform(64, 16, 64, 0.0), drawn(27, 1, 3), [0, 7, 16]
    sent = transmit(drawn(28, 1, 6, 64), waveform)
    before = receive(sent.samples[0], waveform, 6)
    after = receive(propagate(sent.samples, taps, delays, [0], [0.0], waveform), waveform, 6)
    assert relative_error(after, response(taps, delays, waveform) * before) < 1e-12


def test_a_silent_device_has_energy_and_peak_of_nothing() -> None:
    for waveform in (PLAIN, Waveform(64, 16, 37, 3.0)):
        sent = transmit(np.zeros((2, 3, 37), dtype=np.complex128), waveform)
        assert (sent.papr_db == -np.inf).all()
        for share in (sent.energy, sent.prefix_share, sent.clipped_share):
            np.testing.assert_array_equal(share, 0)


def test_the_stream_is_as_long_as_the_latest_arrival() -> None:
    samples, taps = drawn(29, 2, 160), drawn(30, 2, 2)
    assert len(propagate(samples, taps, [0, 5], [0, 3], 0.0, PLAIN)) == 160 + 8
    assert len(propagate(samples, taps, [0, 5], [-9, -6], 0.0, PLAIN)) == 160
    # The largest delay and offset that are taken.
    assert len(propagate(samples[:1], taps[:1, :1], [80], [80], 0.0, PLAIN)) == 320
    assert len(propagate(samples[:1], taps[:1, :1], [0], [-80], 0.0, PLAIN)) == 160


def test_no_device_is_silence() -> None:
    nothing = transmit(np.zeros((0, 2, 37), dtype=np.complex128), PLAIN)
    stream = propagate(nothing.samples, np.zeros((0, 1), dtype=np.complex128), [0], [], [], PLAIN)
    np.testing.assert_array_equal(receive(stream, PLAIN, 2), np.zeros((2, 37)))


def test_impossible_waveforms_are_refused() -> None:
    for allowed, refused in {
        "subcarriers must be from 1 to the FFT size, 64,": {65: (64, 16, 65), 0: (64, 16, 0)},
        "prefix_samples must be from 0 to the FFT size, 64,": {-1: (64, -1, 37), 65: (64, 65, 37)},
        "clip_db must be finite, .*": {np.inf: (64, 16, 37, np.inf), np.nan: (64, 16, 37, np.nan)},
    }.items():
        for value, waveform in refused.items():
            with pytest.raises(ValueError, match=f"{allowed} got {value}"):
                Waveform(*waveform)


def test_delays_and_offsets_beyond_a_symbol_are_refused() -> None:
    for delays, timing, message in (
        ([0, 81], [0], "tap delays must be from 0 to 80 samples, .* got 0 to 81"),
        ([-1, 0], [0], "tap delays must be .* got -1 to 0"),
        *(([0, bad], [0], f"tap delays must be whole samples, got {bad}") for bad in (0.5, np.nan)),
        *(([0, 1], [bad], "timing offsets must be at most 80 samples, .* got 81") for bad in (81, -81)),
        ([0, 1], [np.inf], "timing offsets must be whole samples, got inf"),
    ):
        with pytest.raises(ValueError, match=message):
            propagate(drawn(31, 1, 160), drawn(32, 1, 2), delays, timing, 0.0, PLAIN)


def test_entries_for_other_subcarriers_and_too_short_a_stream_are_refused() -> None:
    for entries in (1, 36, 38):
        with pytest.raises(ValueError, match=f"37 subcarriers, got {entries}"):
            transmit(drawn(35, 2, 3, entries), PLAIN)
    with pytest.raises(ValueError, match="2 symbols need 160 samples, got 159"):
        receive(np.zeros(159, dtype=np.complex128), PLAIN, 2)
