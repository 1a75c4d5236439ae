"""Balanced digits against numbers worked out by hand and exact laws in Rayleigh fading.

Every element has its own independent fade, and all entries of a message are equal, so that the entries of a decoded
mean are independent samples of one law.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.uplinks import NoncoherentUplink, UplinkContext
from airfl.uplinks.stages import Batch, Round, open_encoder
from airfl.uplinks.stages.balanced_digits import BalancedDigits
from airfl.uplinks.stages.quantise import StochasticQuantise
from airfl.uplinks.stages.stage import Coder, MessageBound, Stage, bound_after
from channels.codewords import Codewords, DigitEnergies, EnergyDifference
from channels.grid import OfdmaGrid
from tests.conformance.scheme_runs import world_of_short
from tests.uplink_contexts import context_of

M = 20_000
SIGMA_0 = 0.3
N_0 = 2 * SIGMA_0**2
Array = NDArray[np.float64]


def opened(devices: int = 1) -> Round:
    heard = np.ones(devices, dtype=np.bool_)
    return Round(Streams(0), 0, torch.device("cpu"), np.arange(devices), heard, Store(), torch.zeros)


def coder_of(*stages: Stage, devices: int = 1) -> Coder:
    return open_encoder(stages, opened(devices))


def received(
    codewords: Codewords, values: Array, chips: int = 1, antennas: int = 1, weights: Array | None = None
) -> Array:
    """The decoded mean if all entries of device i are values[i], over independent Rayleigh fades of power 1."""
    devices, generator = len(values), np.random.default_rng(7)
    elements = codewords.resources * chips * M
    shape = (devices, antennas, 1, elements)
    response = (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)) / math.sqrt(2)
    bound = MessageBound(M, math.sqrt(M), math.sqrt(M))
    context: UplinkContext = context_of(response, bound, subcarriers=elements, elements=elements, limit=float(M))
    context = replace(
        context,
        weights=np.ones(devices) if weights is None else weights,
        peak_norms=np.full(devices, math.sqrt(M)),
    )
    grid = OfdmaGrid(elements, 1e-3)
    link = NoncoherentUplink(grid, codewords, "round_energy", SIGMA_0, chips=chips, phases="qpsk").open(context)
    messages = torch.from_numpy(np.repeat(values[:, None], M, axis=1)).float()
    link.send(Batch(messages, torch.from_numpy(context.weights).float()), slice(0, devices))
    return link.close().mean.double().numpy()


def test_digits_are_those_worked_out_by_hand() -> None:
    """Base 3 with two digits has the levels -4 to 4: 2 = 3 - 1, -1 = -1, 4 = 3 + 1, and 5 is cut to 4."""
    update = torch.tensor([[4.0, -4.0, 2.0, -1.0, 5.0, 0.4, 0.6, -2.6]])
    coder = coder_of(BalancedDigits(3, 2, 4.0))
    sent = coder.encode(Batch(update / 2, torch.tensor([2.0])))
    low, high = sent.messages.view(2, -1).tolist()
    assert low == [1, -1, -1, -1, 1, 0, 1, 0]
    assert high == [1, -1, 1, 0, 1, 0, 0, -1]
    assert coder.decode(sent.messages[0]).tolist() == [4, -4, 2, -1, 4, 0, 1, -3]


@pytest.mark.parametrize(("base", "digits"), [(3, 4), (5, 3), (7, 2), (31, 1)])
def test_every_level_is_written_and_read(base: int, digits: int) -> None:
    levels, limit = base**digits, 0.7
    update = torch.linspace(-limit, limit, levels)
    stage = BalancedDigits(base, digits, limit)
    sent = coder_of(stage).encode(Batch(update[None], torch.ones(1))).messages
    assert sorted(sent.unique().tolist()) == list(range(-(base // 2), base // 2 + 1))
    torch.testing.assert_close(coder_of(stage).decode(sent[0]), update, rtol=1e-5, atol=1e-7)
    assert float(sent.norm()) <= stage.bound(MessageBound(levels, 1.0, 1.0)).peak


def test_the_mean_of_digits_is_the_mean_of_numbers() -> None:
    updates = torch.rand(9, 50, generator=torch.Generator().manual_seed(2)) * 2 - 1
    coder = coder_of(BalancedDigits(5, 6, 1.0), devices=9)
    sent = coder.encode(Batch(updates, torch.ones(9))).messages
    torch.testing.assert_close(coder.decode(sent.mean(dim=0)), updates.mean(dim=0), rtol=0, atol=1 / 5**6)
    assert coder.noise_gain == pytest.approx(2 / (5**6 - 1) * math.sqrt(sum(25**place for place in range(6))))


def test_dithered_levels_are_written_as_digits() -> None:
    """With 9 levels between -2 and 2, 0.3 is 0 or 0.5, and 0.5 with probability 0.6; 5 standard errors."""
    stages = StochasticQuantise(9, 2.0), BalancedDigits(3, 2, 4.0)
    coder = coder_of(*stages)
    update = torch.full((1, M), 0.3)
    sent = coder.encode(Batch(update, torch.ones(1), rows=slice(0, 1))).messages
    levels = coder.decode(sent[0])
    assert set(levels.unique().tolist()) == {0.0, 0.5}
    assert float((levels > 0).float().mean()) == pytest.approx(0.6, abs=5 * math.sqrt(0.24 / M))
    assert bound_after(stages, M).entries == 2 * M


@pytest.mark.parametrize(("chips", "antennas", "zero_sent"), [(1, 1, False), (1, 1, True), (3, 1, False), (1, 2, True)])
def test_counted_digits_have_their_exact_mean_and_variance(chips: int, antennas: int, zero_sent: bool) -> None:
    """E = sum_i w_i a_i/r and Var = sum_a a^2 (U_a + L N_0/rho)^2/(L A r^2) with U_a the weights of the devices whose
    digit is a: independent exponential energies. A device may spend 1 on an entry, so that rho = 1/(largest weight).
    5 standard errors; that of a variance is sqrt((kurtosis - 1)/M), with a kurtosis of at most 9."""
    values, weights = np.array([1.0, 2.0, 2.0, -1.0, 0.0, -2.0]), np.array([1.0, 0.5, 1.5, 1.0, 1.0, 0.25])
    mean = received(DigitEnergies(5, zero_sent), values, chips, antennas, weights)
    noise = chips * N_0 * 1.5
    variance = sum(a**2 * (weights[values == a].sum() + noise) ** 2 for a in (-2, -1, 1, 2)) / (chips * antennas * 36)
    assert mean.mean() == pytest.approx((weights * values).sum() / 6, abs=5 * math.sqrt(variance / M))
    assert mean.var() == pytest.approx(variance, rel=5 * math.sqrt(8 / M))


def test_the_gain_of_noise_is_that_of_silent_devices() -> None:
    """Energies of noise alone: a decoded digit varies by sum_a a^2 = b (b^2 - 1)/12 times the variance of one."""
    for base, expected in ((3, 2), (5, 10), (7, 28)):
        codewords = DigitEnergies(base)
        energies = torch.from_numpy(np.random.default_rng(1).exponential(size=(codewords.resources, M))).float()
        assert codewords.noise_gain**2 == pytest.approx(expected)
        assert float(codewords.decode(energies, 1.0, 1.0).var()) == pytest.approx(expected, rel=5 * math.sqrt(8 / M))


def test_a_base_of_three_is_the_energy_difference() -> None:
    values = np.array([1.0, -1.0, 0.0, 1.0])
    ours, others = received(DigitEnergies(3), values), received(EnergyDifference(), values)
    np.testing.assert_allclose(ours, others, rtol=1e-4, atol=1e-4)


def test_the_probability_of_a_majority_with_a_zero_that_is_sent() -> None:
    """Of exponential energies with means m_1, m_2, m_3 the first is the largest with probability
    1 - m_2/(m_1 + m_2) - m_3/(m_1 + m_3) + (1/m_1)/(1/m_1 + 1/m_2 + 1/m_3). 5 standard errors."""
    values = np.array([1.0, 1.0, 1.0, -1.0, 0.0, 0.0])
    decided = received(DigitEnergies(3, zero_sent=True, counting=False), values)
    assert set(np.unique(np.round(decided, 6))) == {-1.0, 0.0, 1.0}
    means = {1: 3 + N_0, -1: 1 + N_0, 0: 2 + N_0}
    for digit, own in means.items():
        one, two = (mean for other, mean in means.items() if other != digit)
        expected = 1 - one / (own + one) - two / (own + two) + (1 / own) / (1 / own + 1 / one + 1 / two)
        found = np.mean(np.round(decided) == digit)
        assert found == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / M))


def test_the_probability_of_a_majority_with_a_silent_zero() -> None:
    """With W devices, counts x = X - N_0 and y = Y - N_0, and W - x - y of the zero, + is decided where X > Y and
    2 X + Y > T = W + 3 N_0. For exponential X, Y with means m, n, and k = 1/n - 1/(2 m), that is
    exp(-T/(2 m)) (1 - exp(-k T/3))/(n k) + m/(m + n) exp(-T/3 (1/m + 1/n)). 5 standard errors."""
    values = np.array([1.0, 1.0, 1.0, -1.0, 0.0])
    decided = received(DigitEnergies(3, counting=False), values)
    m, n, total = 3 + N_0, 1 + N_0, 5 + 3 * N_0

    def wins(m: float, n: float) -> float:
        k = 1 / n - 1 / (2 * m)
        low = math.exp(-total / (2 * m)) * (1 - math.exp(-k * total / 3)) / (n * k)
        return low + m / (m + n) * math.exp(-total / 3 * (1 / m + 1 / n))

    for digit, expected in ((1, wins(m, n)), (-1, wins(n, m)), (0, 1 - wins(m, n) - wins(n, m))):
        found = np.mean(np.round(decided) == digit)
        assert found == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / M))


def test_the_scheme_writes_dithered_levels_in_whole_steps() -> None:
    """v = 3 C/sqrt(d); 25 levels, whose step is 1 once they are whole numbers."""
    given = ("scheme.base=5", "scheme.digits=2", "local.clip_norm=0.5")
    dithered = world_of_short("balanced-digits", *given, "scheme.dither=true")
    _, quantised, digits = dithered.scenario.recipe.stages
    assert isinstance(quantised, StochasticQuantise)
    assert isinstance(digits, BalancedDigits)
    assert (quantised.levels, digits.levels, digits.step) == (25, 25, 1.0)
    assert quantised.limit == pytest.approx(1.5 / math.sqrt(dithered.model.dimension))
    (_, nearest) = world_of_short("balanced-digits", *given).scenario.recipe.stages
    assert isinstance(nearest, BalancedDigits)
    assert nearest.step == pytest.approx(quantised.step)
