"""Phase noise with a spectrum: the sets of 3GPP, integrals in closed form, the joint law of symbols against quadrature
and against a phase in time, the free-running oscillator as its limit, and links."""

import math
from typing import get_args

import numpy as np
import pytest

from channels.csi import ChannelState, Imperfections, PhaseNoise, Surroundings, impair, perfect_csi
from channels.draws import circular_gaussian
from channels.frame import Frame
from channels.hardware import PHASE_SPECTRA, LockedOscillator, PhaseSpectrum, SymbolLaw, SymbolPhaseNoise
from channels.part import PartError, parameters_of
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.ofdm import PREFIX, SIZE, SPACING, demodulated, ofdm, qpsk
from tests.laws.samples import Array, Complex, assert_mean, draws, gaussian
from tests.refusals import one_line

USEFUL_S, PERIOD_S = 1 / SPACING, (SIZE + PREFIX) / (SIZE * SPACING)
BAND_HZ = SIZE * SPACING
SET_A, SET_B, TR = (PHASE_SPECTRA[name] for name in ("r1-163984-a", "r1-163984-b", "tr38803-30ghz"))


def at(spectrum: PhaseSpectrum, offset_hz: float, carrier_hz: float) -> float:
    """S in dBc/Hz."""
    return float(10 * np.log10(spectrum.density(np.array([offset_hz]), carrier_hz))[0])


def test_levels_of_the_sets() -> None:
    """At the carrier PSD0, 6.02 dB more at twice the frequency; far away the floor by hand, where as many zeros as
    poles have been passed; and the levels that others print of TR 38.803 at 29.55 GHz, in whole dB."""
    assert at(SET_A, 1.0, 30e9) == pytest.approx(-79.4, abs=1e-6)
    assert at(SET_A, 1.0, 60e9) == pytest.approx(-79.4 + 20 * math.log10(2), abs=1e-6)
    assert at(SET_A, 1e12, 30e9) == pytest.approx(-79.4 + 20 * math.log10(0.1 * 0.2 * 8 / (1.8 * 2.2 * 40)), abs=1e-4)
    assert at(SET_B, 1e12, 60e9) == pytest.approx(-70 + 20 * math.log10(0.005 * 0.4 * 0.6 / (0.02 * 6 * 10)), abs=1e-4)
    for offset_hz, level in ((1e3, -67), (1e4, -87), (1e5, -97), (1e6, -99), (1e7, -109)):
        assert at(TR, offset_hz, 29.55e9) == pytest.approx(level, abs=0.5)
    hint = next(one.hint for one in parameters_of(PhaseNoise) if one.name == "oscillator")
    assert set(get_args(hint)) == {"free-running", "pole-zero", *PHASE_SPECTRA}


def by_fractions(spectrum: PhaseSpectrum, most_hz: float) -> float:
    """2 int_0^F S df of a spectrum of squares, by partial fractions: floor (F + sum_m r_m/p_m arctan(F/p_m))."""
    zeros, poles = np.array(spectrum.zeros_hz), np.array(spectrum.poles_hz)
    floor = 10 ** (spectrum.psd_dbc_hz / 10) * (poles.prod() / zeros.prod()) ** 2
    total = most_hz
    for index, pole in enumerate(poles):
        others = np.delete(poles, index)
        residue = (zeros**2 - pole**2).prod() / (others**2 - pole**2).prod()
        total += residue / pole * math.atan(most_hz / pole)
    return float(2 * floor * total)


@pytest.mark.parametrize("spectrum", [SET_A, SET_B])
def test_integrated_phase_noise_two_ways(spectrum: PhaseSpectrum) -> None:
    """2.83 degrees for set A at 30 GHz, 4.52 for set B at 60 GHz, up to offsets of 100 MHz."""
    assert spectrum.base_hz is not None
    oscillator = LockedOscillator(spectrum, spectrum.base_hz, 200e6)
    expected = by_fractions(spectrum, 100e6)
    assert oscillator.variance(1e-3, 100e6) == pytest.approx(expected, rel=1e-7)
    assert math.degrees(math.sqrt(expected)) == pytest.approx({SET_A: 2.828, SET_B: 4.520}[spectrum], abs=1e-3)


def integrated(oscillator: LockedOscillator, first: int, second: int, folds: int) -> float:
    """E[theta_a theta_b] = 2 int S Re(A conj(B)) df with A = e^(j 2 pi f t_a) M(f) - 1, over whole folds of 1/P."""
    edge = (folds + 0.5) / PERIOD_S
    edges = np.concatenate([np.geomspace(1e-5, 1e3, 400), np.linspace(1e3, edge, 30 * folds + 200)[1:]])
    places, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    offsets = (edges[:-1, None] + half * (1 + places)).ravel()
    mean = np.exp(1j * np.pi * offsets * USEFUL_S) * np.sinc(offsets * USEFUL_S)
    one, other = (np.exp(2j * np.pi * offsets * PERIOD_S * symbol) * mean - 1 for symbol in (first, second))
    return float((2 * oscillator.density(offsets) * (one * other.conj()).real) @ (half * weights).ravel())


@pytest.mark.parametrize("name", PHASE_SPECTRA)
def test_the_joint_law_is_the_integral_over_the_spectrum(name: str) -> None:
    oscillator = LockedOscillator(PHASE_SPECTRA[name], 30e9, BAND_HZ)
    folds = round(BAND_HZ / 2 * PERIOD_S - 0.5)
    for symbols in (1, 12):
        law = oscillator.over_symbols(USEFUL_S, PERIOD_S, symbols)
        for first, second in ((0, 0), (symbols - 1, symbols - 1), (0, symbols - 1), (symbols // 2, symbols // 3)):
            expected = integrated(oscillator, first, second, folds)
            assert float(law.covariances(first, second)) == pytest.approx(expected, rel=1e-6)


def drawn(law: SymbolLaw, devices: int, seed: int) -> Array:
    return law.phases(circular_gaussian(np.random.default_rng(seed).random((devices, 2 * law.numbers))))


@pytest.mark.parametrize("spectrum", [SET_A, TR])
def test_what_is_drawn_has_the_joint_law(spectrum: PhaseSpectrum) -> None:
    """Second moments of 5 symbols from 8,000 devices; and a row is a device's own, whoever is beside it."""
    law = LockedOscillator(spectrum, 30e9, BAND_HZ).over_symbols(USEFUL_S, PERIOD_S, 5)
    found = drawn(law, 8000, 61)
    for first in range(5):
        assert_mean(found[:, first], 0.0)
        for second in range(first, 5):
            assert_mean(found[:, first] * found[:, second], float(law.covariances(first, second)))
    numbers = gaussian(np.random.default_rng(62), 3, law.numbers)
    np.testing.assert_array_equal(law.phases(numbers)[1:2], law.phases(numbers[1:2]))


def test_long_messages_have_the_same_slow_part() -> None:
    """Beyond 1,025 symbols the tones are added up at fewer instants: within 1e-6 of all of them."""
    law = LockedOscillator(TR, 30e9, BAND_HZ).over_symbols(USEFUL_S, PERIOD_S, 1500)
    numbers = gaussian(np.random.default_rng(63), 1, law.numbers)
    tones = len(law.tones_hz)
    apart = numbers.copy()
    apart[:, tones:] = 0
    found = law.phases(apart)[0]
    turns = np.exp(2j * np.pi * PERIOD_S * np.outer(np.arange(1500), law.tones_hz)) * law.tone_gains
    expected = math.sqrt(2) * ((turns - law.tone_references) @ numbers[0, :tones]).real
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("linewidth_hz", [60.0, 400.0])
def test_a_pole_at_the_carrier_is_a_free_running_oscillator(linewidth_hz: float) -> None:
    """S = B/(2 pi f^2) far above a pole: variances 2 pi B t + a/3, E|J|^2 and the shares of a Wiener process; what is
    cut off beyond W/2 is a share 2/(pi^2 W T) of a, here 5e-5."""
    pole = 1e-4
    level = 10 * math.log10(linewidth_hz / (2 * math.pi * pole**2))
    spectrum = PhaseSpectrum(level, poles_hz=(pole,), pole_orders=(2.0,))
    oscillator = LockedOscillator(spectrum, 1e9, 4096 * SPACING)
    wiener, locked = SymbolPhaseNoise(2 * np.pi * linewidth_hz / SPACING), oscillator.over_symbol(USEFUL_S)
    law = oscillator.over_symbols(USEFUL_S, PERIOD_S, 8)
    expected = 2 * np.pi * linewidth_hz * PERIOD_S * np.arange(8) + wiener.common_variance
    np.testing.assert_allclose(law.variances, expected, rtol=2e-4)
    assert 1 - locked.kept == pytest.approx(1 - wiener.kept, rel=3e-4)
    assert locked.in_phase == pytest.approx(wiener.in_phase, abs=3e-4)
    assert locked.change == pytest.approx(wiener.variance, rel=3e-4)


# --- in time ---------------------------------------------------------------------------------------------------------

RUNS, SYMBOLS = 4000, 3


def in_time(oscillator: LockedOscillator, seed: int) -> tuple[Array, Array]:
    """Phases at the middle of each sample of the useful parts, [runs, symbols, N], and at the beginning, [runs]: a
    process that a Fourier transform makes of its spectrum at twice the sample rate, within the band."""
    window = 2 * SYMBOLS * (SIZE + PREFIX)
    length = RUNS * window
    spacing_hz = 2 * BAND_HZ / length
    offsets = np.arange(length // 2 + 1) * spacing_hz
    mass = np.where(offsets <= BAND_HZ / 2, oscillator.density(offsets) * spacing_hz, 0.0)
    numbers = gaussian(np.random.default_rng(seed), len(offsets)) * np.sqrt(mass)
    numbers[0] = 0
    phases = np.fft.irfft(numbers, n=length, norm="forward").reshape(RUNS, SYMBOLS, -1)
    return phases[:, :, : 2 * SIZE][:, :, 1::2], phases[:, 0, 0]


@pytest.mark.parametrize(("spectrum", "carrier_hz"), [(SET_A, 30e9), (SET_B, 240e9)])
def test_a_phase_in_time_has_the_law(spectrum: PhaseSpectrum, carrier_hz: float) -> None:
    """Common phases of three symbols, less the phase at the beginning, and E|J|^2: 4,000 messages. Besides 5 standard
    errors 2/N^2 for samples in place of a continuous process, and 1% where whole folds stand for the band."""
    oscillator = LockedOscillator(spectrum, carrier_hz, BAND_HZ)
    law, symbol = oscillator.over_symbols(USEFUL_S, PERIOD_S, SYMBOLS), oscillator.over_symbol(USEFUL_S)
    phases, start = in_time(oscillator, 64)
    common = phases.mean(axis=2) - start[:, None]
    for first in range(SYMBOLS):
        for second in range(first, SYMBOLS):
            expected = float(law.covariances(first, second))
            assert_mean(common[:, first] * common[:, second], expected, 0.01 * expected)
    left = 1 - np.abs(np.exp(1j * phases).mean(axis=2)) ** 2
    assert_mean(left, 1 - symbol.kept, 0.005 * (1 - symbol.kept))


@pytest.mark.parametrize(("spectrum", "carrier_hz"), [(SET_A, 30e9), (SET_B, 240e9)])
def test_what_leaves_a_subcarrier_falls_on_the_others(spectrum: PhaseSpectrum, carrier_hz: float) -> None:
    """Half of it on each part of complex entries; of real ones, (1 + i)/2 on the part of the common phase and the rest
    on that of the signal, with i its share in phase. 5 standard errors, and 3/N for samples."""
    oscillator = LockedOscillator(spectrum, carrier_hz, BAND_HZ)
    symbol, phases = oscillator.over_symbol(USEFUL_S), in_time(oscillator, 65)[0][:, 0]
    lost, turned = 1 - symbol.kept, (1 + symbol.in_phase) / 2
    signs = np.random.default_rng(66).choice([-1.0, 1.0], (RUNS, SIZE)) + 0j
    for entries, shares in ((signs, (turned, 1 - turned)), (qpsk(RUNS, SIZE), (0.5, 0.5))):
        kept = np.exp(1j * phases).mean(axis=1)
        found = received(entries, phases)
        left = (found - kept[:, None] * entries) * (kept.conj() / np.abs(kept))[:, None]
        for part, share in zip((left.real, left.imag), shares, strict=True):
            assert_mean((part**2).mean(axis=1), share * lost, 3 / SIZE * lost)


def received(entries: Complex, phases: Array) -> Complex:
    """Entries of one symbol each, [runs, N], whose samples in time are turned by these phases."""
    return demodulated(ofdm(entries[:, None])[:, PREFIX:] * np.exp(1j * phases))


# --- the impairment and rounds ----------------------------------------------------------------------------------------


def test_the_impairment_applies_the_law() -> None:
    """Mean of the factor on each of 4 symbols, its modulus and what leaks, 4,000 devices."""
    around = Surroundings(spacing_hz=SPACING, carrier_hz=30e9, bandwidth_hz=BAND_HZ)
    frame = Frame(np.arange(4) * SPACING, 16, PERIOD_S, 1)
    source = perfect_csi(ChannelState(np.ones((RUNS, 1, 1, 1), dtype=np.complex128)), np.ones(RUNS), np.zeros(RUNS))
    noisy = Imperfections(oscillator=PhaseNoise(oscillator="tr38803-30ghz"))
    after = impair(source, noisy, around, frame, draws(RUNS, 67))
    oscillator = LockedOscillator(TR, 30e9, BAND_HZ)
    symbol, law = oscillator.over_symbol(USEFUL_S), oscillator.over_symbols(USEFUL_S, PERIOD_S, 4)
    np.testing.assert_allclose(np.abs(after.state.response) ** 2, symbol.kept)
    np.testing.assert_allclose(after.leakage, 1 - symbol.kept)
    np.testing.assert_allclose(after.in_phase, symbol.in_phase * (1 - symbol.kept))
    assert after.scattered == pytest.approx((1 - symbol.kept) / symbol.kept)
    for block in range(4):
        expected = math.sqrt(symbol.kept) * math.exp(-law.variances[block] / 2)
        assert_mean(after.state.response[:, 0, block, 0], expected)


DEVICES, SUBCARRIERS = 200, 60
FLAT = (
    *everybody(DEVICES),
    *("channel.fading=fixed", "channel.mean_gain=1.0", "channel.min_gain=1e-9", "channel.max_gain=1e9"),
    *(f"grid.subcarriers={SUBCARRIERS}", "power.max_snr_db=20", "local.clip_norm=1.0", "channel.noise=false"),
)


@pytest.mark.parametrize(
    ("name", "carrier_hz", "packing"), [("r1-163984-a", 300e9, "real"), ("tr38803-30ghz", 30e9, "iq")]
)
def test_a_round_has_the_error_of_the_closed_form(name: str, carrier_hz: float, packing: str) -> None:
    """K q - 2 sqrt(K) e^(-s^2/2) + 1 + (1 - K)((1 - i)/2 + i q) for real payloads, q = (1 + e^(-2 s^2))/2, and
    2 (1 - sqrt(K) e^(-s^2/2)) under I/Q packing, mean over 4 symbols. 10 rounds of 200 devices: 16%, as for a phase
    that runs free."""
    symbols = 4
    entries = symbols * SUBCARRIERS * (2 if packing == "iq" else 1)
    given = (f"csi.oscillator={name}", f"channel.carrier_hz={carrier_hz}", f"grid.packing={packing}")
    scenario, errors = built(entries, *FLAT, *given), []
    for t in range(10):
        plan = planned(scenario, t)
        values = np.random.default_rng(t).standard_normal((DEVICES, entries))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        missed = send(plan, values).mean.numpy() - values.mean(axis=0)
        errors.append(float(missed @ missed) * DEVICES)
    oscillator = LockedOscillator(PHASE_SPECTRA[name], carrier_hz, SUBCARRIERS * SPACING)
    symbol = oscillator.over_symbol(USEFUL_S)
    spread, kept = oscillator.over_symbols(USEFUL_S, 15 / 14 / SPACING, symbols).variances, symbol.kept
    real, share = (1 + np.exp(-2 * spread)) / 2, symbol.in_phase
    expected = kept * real - 2 * math.sqrt(kept) * np.exp(-spread / 2) + 1
    expected += (1 - kept) * ((1 - share) / 2 + share * real)
    if packing == "iq":
        expected = 2 * (1 - math.sqrt(kept) * np.exp(-spread / 2))
    assert np.mean(errors) == pytest.approx(expected.mean(), rel=0.16)


@pytest.mark.parametrize("link", ["digital", "ideal"])
def test_bits_are_sent_at_the_sinr_of_the_interference(link: str) -> None:
    """gamma K/(1 + gamma (1 - K)) at 20 dB over sigma_0^2, 50 over N_0, within the band that is set."""
    spectrum = PhaseSpectrum(-60.0, 7e9, (2e5,), (1.5,), (1e4,), (2.0,))
    kept = LockedOscillator(spectrum, 3.5e9, 1e6).over_symbol(USEFUL_S).kept
    assert kept < 0.998
    given = (
        *FLAT,
        "run.devices=4",
        "run.selected=1",
        "scheme.name=fedavg",
        f"scheme.link={link}",
        "csi.oscillator=pole-zero",
        "csi.oscillator_psd_dbc_hz=-60",
        "csi.oscillator_base_hz=7e9",
        "csi.oscillator_zeros_hz=[2e5]",
        "csi.oscillator_zero_orders=[1.5]",
        "csi.oscillator_poles_hz=[1e4]",
        "csi.oscillator_pole_orders=[2]",
        "csi.oscillator_bandwidth_hz=1e6",
    )
    budget = planned(built(2000, *given)).link.link_budget()
    assert budget.devices.rate is not None
    np.testing.assert_allclose(budget.devices.rate, math.log2(1 + 50 * kept / (1 + 50 * (1 - kept))), rtol=1e-6)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"psd_dbc_hz": math.nan}, "psd_dbc_hz must be from -400 to 400 dBc/Hz, got nan"),
        ({"base_hz": 0.0}, "base_hz must be from 1e-09 to 1e+15 Hz, got 0"),
        ({"zeros_hz": (1e3,)}, "zero_orders must have one value for each of 1 zeros, got 0"),
        ({"poles_hz": (-1.0,), "pole_orders": (2.0,)}, "poles_hz must be from 1e-09 to 1e+15 Hz, got -1"),
        ({"poles_hz": (1.0,), "pole_orders": (0.0,)}, "pole_orders must be positive and at most 10, got 0"),
        ({"zeros_hz": (1.0,) * 13, "zero_orders": (2.0,) * 13}, "zeros_hz must be at most 12 offsets, got 13"),
    ],
)
def test_a_spectrum_that_is_none_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=one_line(said)):
        PhaseSpectrum(**{"psd_dbc_hz": -70.0, **given})  # type: ignore[arg-type]


def test_a_locked_oscillator_needs_a_carrier() -> None:
    """Whose settings always have one; `channels` by itself may not."""
    noisy = PhaseNoise(oscillator="r1-163984-a")
    for around in (Surroundings(), Surroundings(carrier_hz=30e9)):
        with pytest.raises(PartError, match=one_line("needs a carrier frequency and a bandwidth, got")):
            noisy.check_within(around)
    noisy.check_within(Surroundings(carrier_hz=30e9, bandwidth_hz=1e6))
    PhaseNoise(oscillator="r1-163984-a", oscillator_bandwidth_hz=1e6).check_within(Surroundings(carrier_hz=30e9))
