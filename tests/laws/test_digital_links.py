"""Rates, errors and retransmissions of digital links against closed forms and direct computations."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from channels.digital import DigitalTask, mcs_rate, nr_block_error_rate, send
from channels.digital.elements import DeviceResources
from channels.digital.mcs import transport_blocks
from channels.digital.nr import effective_sinr
from channels.digital.nr_tables import error_table
from channels.digital.retransmission import retransmit
from tests.digital_parts import digital_parts
from tests.laws.samples import Array, assert_mean, assert_share


def carry(known: Any, true: Any = None, bits: int = 1000, width: int = 1, seed: int = 0, **asked: Any) -> Any:
    """A message of each device over a channel of this SNR, [devices], or of one device on [width] subcarriers."""
    snr = np.atleast_1d(np.asarray(known, dtype=np.float64))
    selective = width > 1 and snr.shape == (width,)
    devices = 1 if selective else len(snr)
    heard = snr if true is None else np.broadcast_to(true, snr.shape)
    uniforms = np.random.default_rng(seed).random((devices, 30))
    message = {"bits": np.full(devices, bits, dtype=np.int64), "deadline_symbols": math.inf}
    band = {"subcarriers": width * devices, "symbol_energy": np.full(devices, float(width)), "concentrate": True}
    channel = {"known": snr.reshape(devices, 1, -1), "true": heard.reshape(devices, 1, -1), "noise_energy": 1.0}
    parts: dict[str, Any] = {**digital_parts(**asked), "uniforms": lambda count: uniforms[:, :count]}
    return send(DigitalTask(**message, **band, **channel, **parts))


def carry_finite(*channel: Any, length: int = 1000, **asked: Any) -> Any:
    """The same in blocks of so many elements."""
    return carry(*channel, error_model="finite-blocklength", block_elements=length, **asked)


def beta_of(table: int, mcs: int) -> float:
    """beta of the effective SINR."""
    entry = error_table(table)
    return float(entry.betas[entry.indices.tolist().index(mcs)])


@pytest.mark.parametrize("gap_db", [0.0, 3.0])
def test_outage_where_the_channel_is_not_what_it_was_believed(gap_db: float) -> None:
    """The rate is log2(1 + SNR) of what is believed; whoever has less is not heard, 1 - exp(-(2^R - 1)/g) in Rayleigh
    fading, n = 20,000, within 5 standard errors, and pays for the message all the same."""
    n, g, believed = 20_000, 10.0, 8.0
    fades = np.random.default_rng(2).exponential(g, n)
    known = carry(fades, gap_db=gap_db)
    np.testing.assert_allclose(known.rate, np.log2(1 + fades / 10 ** (gap_db / 10)), rtol=1e-12)
    np.testing.assert_array_equal(known.resource_elements, np.ceil(1000 / known.rate))
    assert known.heard.all()
    done, rate = carry(np.full(n, believed), fades, gap_db=gap_db), math.log2(1 + believed / 10 ** (gap_db / 10))
    assert done.rate == pytest.approx(np.full(n, rate))
    assert_share(~done.heard, 1 - math.exp(-(2**rate - 1) / g))
    np.testing.assert_array_equal(done.block_error_rate, 1 - done.heard)
    np.testing.assert_array_equal(done.energy, np.full(n, math.ceil(1000 / rate)))


def test_the_finite_block_rate_is_that_of_two_real_channels() -> None:
    """n complex symbols are 2n real ones of the same SNR: C = log2(1 + P)/2, V = P(P + 2)/(2 (P + 1)^2) log2(e)^2
    (Polyanskiy, Poor, Verdu 2010, theorem 54)."""
    for snr, length, error in [(1.0, 1000, 1e-3), (10.0, 100, 0.1), (0.3, 5000, 1e-6), (100.0, 50, 0.5)]:
        capacity = math.log2(1 + snr) / 2
        dispersion = snr * (snr + 2) / (2 * (snr + 1) ** 2) * math.log2(math.e) ** 2
        whole = 2 * length * capacity
        bits = min(whole, whole - math.sqrt(2 * length * dispersion) * stats.norm.isf(error) + math.log2(length) / 2)
        done = carry_finite([snr], length=length, target_error=error)
        assert done.rate[0] == pytest.approx(bits / length, rel=1e-10)
        if error < 0.5:  # else the rate is capacity
            assert done.block_error_rate[0] == pytest.approx(error, rel=1e-9)


def test_the_finite_block_error_at_the_true_channel() -> None:
    """By the equation directly, better and worse than believed; selective channels by their mean C and V."""
    believed, length = 4.0, 400
    for true in (3.0, 3.8, 4.0, 4.5):
        done = carry_finite([believed], [true], length=length)
        dispersion = (1 - 1 / (1 + true) ** 2) / math.log(2) ** 2
        surplus = math.log2(1 + true) - done.rate[0] + math.log2(length) / (2 * length)
        error = stats.norm.sf(surplus * math.sqrt(length / dispersion))
        assert done.block_error_rate[0] == pytest.approx(error, rel=1e-9)
    assert carry_finite([believed], [0.0]).block_error_rate[0] == 1
    # Too little for a few bits in a block: nothing is sent.
    assert not carry_finite([1e-4]).rate[0]
    gains = np.random.default_rng(3).exponential(5.0, 24)
    dispersion = np.mean(gains * (gains + 2) / (gains + 1) ** 2) / math.log(2) ** 2
    rate = np.mean(np.log2(1 + gains)) - math.sqrt(dispersion / 200) * stats.norm.isf(0.1) + math.log2(200) / 400
    assert carry_finite(gains, width=24, length=200).rate[0] == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(("transmissions", "blocks", "failing"), [(1, 40, 0.3), (3, 40, 0.3), (30, 5, 0.5)])
def test_blocks_are_sent_again_as_often_as_they_fail(transmissions: int, blocks: int, failing: float) -> None:
    """n = 20,000 messages: mean transmissions B (1 - p^J)/(1 - p), lost with 1 - (1 - p^J)^B."""
    n = 20_000
    uniforms = np.random.default_rng(4).random((n, transmissions))
    sent, wrong = retransmit(np.full(n, float(blocks)), np.full((n, transmissions), failing), uniforms)
    assert_mean(sent, blocks * (1 - failing**transmissions) / (1 - failing))
    assert_share(wrong > 0, 1 - (1 - failing**transmissions) ** blocks)
    assert_mean(wrong, blocks * failing**transmissions, rounding=1e-5)


def test_binomial_numbers_by_inversion() -> None:
    """Of one transmission, n = 50,000: the distribution itself, chi-squared p > 1e-4; and the ends."""
    n = 50_000
    _, wrong = retransmit(np.full(n, 6.0), np.full((n, 1), 0.35), np.random.default_rng(5).random((n, 1)))
    counts = np.bincount(wrong.astype(int), minlength=7)
    assert stats.chisquare(counts, n * stats.binom.pmf(np.arange(7), 6, 0.35)).pvalue > 1e-4
    ends = retransmit(np.array([6.0, 6.0, 0.0, 2.0**50]), np.array([[0.3], [1.0], [0.5], [0.25]]), np.zeros((4, 1)))
    assert ends[1].tolist() == [0, 6, 0, 2.0**48]
    halved = retransmit(np.array([2.0**41 + 1]), np.full((1, 3), 0.3), np.full((1, 3), 0.5))[1]
    assert halved[0] == pytest.approx(2.0**41 * 0.027, rel=1e-6)
    # Far more than can be counted one by one: still within 5 standard deviations.
    many = retransmit(np.full(9, 1e12), np.full((9, 1), 0.2), np.linspace(0.1, 0.9, 9)[:, None])[1]
    assert (np.abs(many - 2e11) < 5 * math.sqrt(1.6e11)).all()
    assert (np.diff(many) > 0).all()


def test_every_transmission_is_charged() -> None:
    """Finite blocks that fail with 0.1: n = 4,000 messages of 20 blocks, mean 1.111 transmissions a block."""
    snr = np.full(4_000, 3.0)
    done = carry_finite(snr, bits=38_000)
    assert math.ceil(38_000 / (1000 * done.rate[0])) == 20
    sent = done.resource_elements / 1000
    assert_mean(sent, 20 * (1 + 0.1 + 0.01 + 0.001))
    np.testing.assert_allclose(done.bits_on_air, 38_000 * sent / 20, atol=0.5)
    np.testing.assert_allclose(done.energy, done.resource_elements)
    for transmissions in (1, 4):
        done = carry_finite(snr, bits=38_000, transmissions=transmissions)
        assert_share(~done.heard, 1 - (1 - 0.1**transmissions) ** 20)


def test_combined_transmissions_fail_together() -> None:
    """A block is lost where the error rate at 2, 3 times the SNR says so, not where a product does; n = 20,000 messages
    of one block, within 5 standard errors; its expected transmissions are 1 + P_1 + P_2."""
    n, believed, true = 20_000, 10 ** (0.1 * -1.5), 10 ** (0.1 * -6.8)
    asked: dict[str, Any] = {"bits": 50, "width": 12, "error_model": "nr"}
    rate = carry([believed], **asked).rate[0]
    mcs = next(m for m in range(3, 29) if transport_blocks(156, m, 1).bits == round(rate * 168))
    size = int(transport_blocks(156, mcs, 1).code_block_bits)
    error = nr_block_error_rate(mcs, true * np.arange(1.0, 4.0), size)
    assert error[1] * (1 - error[1]) > 0.1
    assert error[2] > 0.1
    for transmissions in (1, 2, 3):
        done = carry(np.full(n, believed), true, transmissions=transmissions, **asked)
        assert_share(~done.heard, error[transmissions - 1], rounding=1e-9)
        assert done.block_error_rate == pytest.approx(np.full(n, error[0]))
        assert_mean(done.resource_elements / 168, 1 + error[: transmissions - 1].sum(), rounding=1e-6)


@pytest.mark.parametrize(("mcs", "shortfall_db"), [(7, 0.72), (20, 0.88), (25, 1.27)])
def test_combined_transmissions_add_up_on_every_subcarrier(mcs: int, shortfall_db: float) -> None:
    """Chase combining of j transmissions over subcarriers of SNR gamma_k has j gamma_k on each, and the effective SINR
    of these is less than j times that of the gamma_k, here by so many dB at j = 2: 24 subcarriers that fade as Rayleigh
    does (quantiles of the exponential law). n = 40,000 blocks; transmissions of all are n (1 + P_1 + P_2)."""
    width, n = 24, 40_000
    profile = -np.log1p(-(np.arange(width) + 0.5) / width)
    beta, size = beta_of(1, mcs), transport_blocks(13 * width, mcs, 1)
    assert size.code_blocks == 1

    def effective(snr: Array) -> float:
        return -beta * math.log(np.exp(-snr / beta).mean())

    def failing(snr: float) -> float:
        return float(nr_block_error_rate(mcs, snr, size.code_block_bits, 1))

    # Where the second transmission fails half of the time, and a flat channel known so that this MCS is chosen.
    scales = np.geomspace(0.05, 500, 4000)
    true = scales[np.argmax([failing(effective(2 * s * profile)) < 0.5 for s in scales])] * profile
    known = scales[np.argmax([failing(s) <= 0.1 for s in scales])]
    first, second = failing(effective(true)), failing(effective(2 * true))
    assert 10 * math.log10(2 * effective(true) / effective(2 * true)) == pytest.approx(shortfall_db, abs=0.01)
    assert failing(2 * effective(true)) < 0.1 < 0.45 < second < 0.55
    sent = []
    for transmissions in (2, 3):
        asked = {"error_model": "nr", "transmissions": transmissions, "bits": n * int(size.bits)}
        done = carry(np.full(width, known), true, width=width, seed=7, **asked)
        assert done.rate[0] * 14 * width == int(size.bits)
        sent.append(done.resource_elements[0] / (14 * width))
    assert abs(sent[0] - n * (1 + first)) <= 5 * math.sqrt(n * first * (1 - first)) + 1
    assert abs(sent[1] - sent[0] - n * second) <= 5 * math.sqrt(n * second * (1 - second))


@pytest.mark.parametrize("table", [1, 2])
@pytest.mark.parametrize("width", [30, 300])
def test_link_adaptation_takes_the_largest_block_within_the_target(table: int, width: int) -> None:
    """By hand for 61 SNRs, 13 data symbols, one code block and some; the lowest MCS where none will do."""
    snrs = 10 ** (np.linspace(-12, 28, 61) / 10)
    done = carry(snrs, width=width, bits=10**6, error_model="nr", mcs_table=table, target_error=0.05)
    sizes = transport_blocks(13 * width, error_table(table).indices, table)
    for snr, rate, error in zip(snrs, done.rate, done.block_error_rate, strict=True):
        code_block = nr_block_error_rate(error_table(table).indices, snr, sizes.code_block_bits, table)
        failing = 1 - (1 - code_block) ** sizes.code_blocks
        best = int(np.argmax(np.where(failing <= 0.05, sizes.bits, 0)))
        assert (rate * 14 * width, error) == pytest.approx((sizes.bits[best], failing[best]), rel=1e-6, abs=1e-12)
        assert failing[best] <= 0.05 or (failing > 0.05).all()
    assert (np.diff(done.rate) >= 0).all()
    assert done.rate[0] < done.rate[-1] < np.log2(1 + 10**2.8)


def test_few_subcarriers_make_a_resource_block_over_several_slots() -> None:
    """156 data elements at least: 3 subcarriers take 4 slots, 5 take 3; a message of one block, whole slots."""
    for width, slots in ((1, 12), (3, 4), (5, 3), (11, 2), (12, 1), (40, 1)):
        done = carry([100.0], bits=1, width=width, error_model="nr")
        assert done.symbols[0] == 14 * slots
        assert done.resource_elements[0] == 14 * slots * width
        sizes = transport_blocks(13 * slots * width, 28, 1)
        assert done.rate[0] * 14 * slots * width <= sizes.bits


def test_the_error_rate_falls_with_snr_and_rises_with_mcs() -> None:
    """At sizes from 500 bits on, over 50 dB, and where another rate takes the place of another modulation (MCS 10, 17
    in table 1), next to the same rate."""
    snr = 10 ** (np.linspace(-15, 35, 200) / 10)
    for table in (1, 2):
        indices = error_table(table).indices
        rates = nr_block_error_rate(indices[:, None], snr, 1000, table)
        assert (np.diff(rates, axis=1) <= 0).all()
        assert rates[:, 0] == pytest.approx(1)
        assert (rates[:, -1] < 1e-9).all()
        rising = mcs_rate(indices[1:], table) > mcs_rate(indices[:-1], table) * 1.02
        middle = (rates > 0.01) & (rates < 0.99)
        for row in np.flatnonzero(rising):
            here = middle[row] & middle[row + 1]
            assert (rates[row + 1, here] > rates[row, here]).all()


def test_an_mcs_without_error_rates_is_refused() -> None:
    for mcs, table in ((2, 1), (29, 1), (1, 2), (28, 2)):
        with pytest.raises(ValueError, match=f"MCS of table {table} must be from"):
            nr_block_error_rate(mcs, 1.0, 500, table)


def test_the_effective_sinr_by_its_definition() -> None:
    """Of two devices with three and two elements."""
    snr, counts = np.array([[1.0, 2.0, 4.0, 3.0, 3.0]]), np.array([3, 2])
    own = DeviceResources(counts, np.ones(2), snr, snr, counts)
    by_hand = -1.6 * math.log((math.exp(-1 / 1.6) + math.exp(-2 / 1.6) + math.exp(-4 / 1.6)) / 3)
    assert effective_sinr(own, snr, np.array([1.6, 5.0])) == pytest.approx([by_hand, 3.0])
    # A large SNR underflows no exponential, and the mean is the limit of a large beta.
    assert effective_sinr(own, 1e4 * snr, np.array([1.6, 1.6])) == pytest.approx([1e4 + 1.6 * math.log(3), 3e4])
    assert effective_sinr(own, snr, np.array([1e6, 1e6])) == pytest.approx([7 / 3, 3], rel=1e-5)
