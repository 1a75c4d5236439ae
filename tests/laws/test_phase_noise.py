"""Wiener phase noise: closed forms over an OFDM symbol against a process in time, the model per element, and links."""

import math

import numpy as np
import pytest

from channels.csi import ChannelState, Imperfections, PhaseNoise, Surroundings, impair, perfect_csi
from channels.frame import Frame
from channels.hardware import SymbolPhaseNoise, symbol_phases
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.ofdm import PREFIX, SIZE, SPACING, demodulated, ofdm, qpsk
from tests.laws.samples import Array, Complex, assert_mean

RUNS = 4000
AROUND = Surroundings(spacing_hz=SPACING)


def wiener(seed: int, runs: int, samples: int, linewidth_hz: float) -> Array:
    """The phase at the middle of each of so many samples, 0 at the beginning of the first, [runs, samples]."""
    rng, variance = np.random.default_rng(seed), 2 * np.pi * linewidth_hz / (SPACING * SIZE)
    halves = rng.standard_normal((runs, samples, 2)) * math.sqrt(variance / 2)
    ends = np.cumsum(halves.sum(axis=2), axis=1)
    return np.asarray(np.concatenate([np.zeros((runs, 1)), ends[:, :-1]], axis=1) + halves[..., 0])


@pytest.mark.parametrize("linewidth_hz", [10.0, 200.0, 2000.0])
def test_a_symbol_keeps_the_share_and_mean_of_the_closed_forms(linewidth_hz: float) -> None:
    """4,000 symbols of 64 samples: 5 standard errors, and a/(12 * 64) for samples in place of a continuous process."""
    symbol = SymbolPhaseNoise(2 * np.pi * linewidth_hz / SPACING)
    phases = wiener(51, RUNS, SIZE, linewidth_hz)
    kept = np.exp(1j * phases).mean(axis=1)
    coarse = symbol.variance / (6 * SIZE)
    assert_mean(np.abs(kept) ** 2, symbol.kept, coarse)
    assert_mean(kept, symbol.mean, coarse)
    assert_mean(phases.mean(axis=1) ** 2, symbol.common_variance, coarse)


def test_shares_worked_out_by_hand() -> None:
    """a = 2, c = 1: E|J|^2 = 2/e, E[J] = 1 - 1/e, and 1 - a/6, 1 - a/4 for little noise."""
    symbol, little = SymbolPhaseNoise(2.0), SymbolPhaseNoise(1e-3)
    assert symbol.kept == pytest.approx(2 / math.e)
    assert symbol.mean == pytest.approx(1 - 1 / math.e)
    assert symbol.scattered == pytest.approx(math.e / 2 - 1)
    assert little.kept == pytest.approx(1 - 1e-3 / 6, abs=1e-7)
    assert little.mean == pytest.approx(1 - 1e-3 / 4, abs=1e-7)
    assert SymbolPhaseNoise(1.99e-4).kept == pytest.approx(SymbolPhaseNoise(2.01e-4).kept, abs=1e-6)
    assert (SymbolPhaseNoise(0.0).kept, SymbolPhaseNoise(0.0).mean) == (1.0, 1.0)


def test_phases_of_symbols_are_those_of_the_process() -> None:
    """Means over three symbols with prefixes between them: variances and covariances, 20,000 runs."""
    linewidth_hz = 300.0
    variance = 2 * np.pi * linewidth_hz / SPACING
    gap = variance * PREFIX / SIZE
    drawn = symbol_phases(np.random.default_rng(52).standard_normal((20_000, 3, 3)), variance, gap)
    samples = wiener(53, RUNS, 3 * (SIZE + PREFIX), linewidth_hz).reshape(RUNS, 3, -1)[:, :, :SIZE].mean(axis=2)
    for first in range(3):
        for second in range(first, 3):
            start = first * (variance + gap)
            expected = start + (variance / 3 if first == second else variance / 2)
            assert_mean(drawn[:, first] * drawn[:, second], expected)
            assert_mean(samples[:, first] * samples[:, second], expected, variance / (3 * SIZE))


def received(seed: int, linewidth_hz: float, symbols: Complex) -> tuple[Complex, Complex]:
    """Entries after phase noise in time, [runs, N], and the mean of e^(j phi) of each run; one symbol each."""
    phases = wiener(seed, len(symbols), SIZE, linewidth_hz)
    windows = ofdm(symbols[:, None])[:, PREFIX:] * np.exp(1j * phases)
    return demodulated(windows), np.exp(1j * phases).mean(axis=1)


@pytest.mark.parametrize("linewidth_hz", [50.0, 500.0])
def test_what_leaves_a_subcarrier_falls_on_both_parts_of_the_others(linewidth_hz: float) -> None:
    """Interference has 1 - E|J|^2 of the power: half of it on each part of complex entries, of real ones 3/4 on the
    part of the common phase. 5 standard errors, and 3/N for samples in place of a continuous process."""
    symbol = SymbolPhaseNoise(2 * np.pi * linewidth_hz / SPACING)
    signs = np.random.default_rng(54).choice([-1.0, 1.0], (RUNS, SIZE)) + 0j
    for entries, shares in ((signs, (0.75, 0.25)), (qpsk(RUNS, SIZE), (0.5, 0.5))):
        found, kept = received(55, linewidth_hz, entries)
        left = (found - kept[:, None] * entries) * (kept.conj() / np.abs(kept))[:, None]
        for part, share in zip((left.real, left.imag), shares, strict=True):
            assert_mean((part**2).mean(axis=1), share * (1 - symbol.kept), 3 / SIZE * (1 - symbol.kept))


def test_the_impairment_has_the_statistics_of_the_process() -> None:
    """Mean of the factor on each of 5 symbols, its modulus, and what leaks."""
    linewidth_hz, blocks = 200.0, 5
    frame = Frame(np.arange(4) * SPACING, 4 * blocks, (SIZE + PREFIX) / (SIZE * SPACING), 1)
    source = perfect_csi(ChannelState(np.ones((RUNS, 1, 1, 1), dtype=np.complex128)), np.ones(RUNS), np.zeros(RUNS))

    def draw(count: int) -> Array:
        return np.random.default_rng(56).random((RUNS, count))

    noisy = Imperfections(oscillator=PhaseNoise(linewidth_hz=linewidth_hz))
    after = impair(source, noisy, AROUND, frame, {"oscillator": draw})
    symbol = SymbolPhaseNoise(2 * np.pi * linewidth_hz / SPACING)
    np.testing.assert_allclose(np.abs(after.state.response) ** 2, symbol.kept)
    np.testing.assert_allclose(after.leakage, 1 - symbol.kept)
    for block in range(blocks):
        spread = 2 * np.pi * linewidth_hz * frame.block_times_s[block] + symbol.common_variance
        assert_mean(after.state.response[:, 0, block, 0], math.sqrt(symbol.kept) * math.exp(-spread / 2))
    assert (after.estimate.response == 1).all()


# --- rounds ----------------------------------------------------------------------------------------------------------

DEVICES, SUBCARRIERS, LINEWIDTH_HZ = 200, 60, 60.0
FLAT = (
    *everybody(DEVICES),
    *("channel.fading=fixed", "channel.mean_gain=1.0", "channel.min_gain=1e-9", "channel.max_gain=1e9"),
    *(f"grid.subcarriers={SUBCARRIERS}", "power.max_snr_db=20", "local.clip_norm=1.0", "channel.noise=false"),
)


@pytest.mark.parametrize("symbols", [1, 4])
@pytest.mark.parametrize("packing", ["real", "iq"])
def test_a_round_has_the_error_of_the_closed_form(packing: str, symbols: int) -> None:
    """K q - 2 sqrt(K) e^(-s^2/2) + 1 + (1 - K)(1/4 + q/2) for real payloads, q = (1 + e^(-2 s^2))/2, and twice
    1 - sqrt(K) e^(-s^2/2) under I/Q packing, with s^2 = 2 pi B t + a/3, mean over symbols. 10 rounds of 200 devices:
    16%, 5 times sqrt(2/2,000) for the squares of phases, of which symbols of a round share most."""
    entries = symbols * SUBCARRIERS * (2 if packing == "iq" else 1)
    symbol = SymbolPhaseNoise(2 * np.pi * LINEWIDTH_HZ / SPACING)
    errors, kept = [], symbol.kept
    for seed in range(10):
        given = (f"csi.linewidth_hz={LINEWIDTH_HZ}", f"grid.packing={packing}", f"run.seed={seed}")
        plan = planned(built(entries, *FLAT, *given))
        values = np.random.default_rng(seed).standard_normal((DEVICES, entries))
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        missed = send(plan, values).mean.numpy() - values.mean(axis=0)
        errors.append(float(missed @ missed) * DEVICES)
    spread = 2 * np.pi * LINEWIDTH_HZ * np.arange(symbols) * (15 / 14 / SPACING) + symbol.common_variance
    real = (1 + np.exp(-2 * spread)) / 2
    expected = kept * real - 2 * math.sqrt(kept) * np.exp(-spread / 2) + 1 + (1 - kept) * (0.25 + real / 2)
    if packing == "iq":
        expected = 2 * (1 - math.sqrt(kept) * np.exp(-spread / 2))
    assert np.mean(errors) == pytest.approx(expected.mean(), rel=0.16)


@pytest.mark.parametrize("link", ["digital", "ideal"])
def test_bits_are_sent_at_the_sinr_of_the_interference(link: str) -> None:
    """gamma K/(1 + gamma (1 - K)), at 20 dB over sigma_0^2, 50 over N_0; a receiver tracks the common phase."""
    kept = SymbolPhaseNoise(2 * np.pi * 400.0 / SPACING).kept
    given = (
        *FLAT,
        "run.devices=4",
        "run.selected=1",
        "scheme.name=fedavg",
        f"scheme.link={link}",
        "csi.linewidth_hz=400",
    )
    budget = planned(built(2000, *given)).link.link_budget()
    assert budget.devices.rate is not None
    np.testing.assert_allclose(budget.devices.rate, math.log2(1 + 50 * kept / (1 + 50 * (1 - kept))), rtol=1e-6)
    assert budget.devices.active.all()
