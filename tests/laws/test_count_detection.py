"""Detection of counts against enumeration of the joint law, state evolution and cases without noise."""

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from channels.count_detection import (
    FINENESS,
    LEAST_STD,
    STEPS,
    CountDenoiser,
    conditional_mean,
    denoised,
    detect_counts,
    first_law,
    sequences,
    state_evolution,
)

Array = NDArray[np.float64]


def tensor(values: Array) -> torch.Tensor:
    return torch.from_numpy(values).float()


def popular(words: int) -> Array:
    shares = 1 / np.arange(1, words + 1) ** 1.5
    return np.asarray(shares / shares.sum())


def test_sequences_have_norm_one_and_are_orthogonal_if_they_can_be() -> None:
    generator = np.random.default_rng(0)
    few = sequences(64, 40, generator)
    assert few.shape == (40, 64)
    np.testing.assert_allclose(np.linalg.norm(few, axis=0), 1.0)
    assert set(np.round(np.abs(few) * math.sqrt(40), 12).ravel()) == {1.0}
    for length in (8, 11):
        columns = sequences(8, length, generator)
        np.testing.assert_allclose(columns.T @ columns, np.eye(8), atol=1e-12)


@pytest.mark.parametrize(("devices", "words"), [(1, 2), (8, 64), (32, 64)])
def test_the_first_law_has_the_mean_of_a_count(devices: int, words: int) -> None:
    law = first_law(devices, words)
    assert law.sum() == pytest.approx(1.0)
    assert law @ np.arange(devices + 1) == pytest.approx(devices / words)
    assert first_law(0, words).tolist() == [1.0]


@pytest.mark.parametrize("line", [9, 12, 15])
def test_the_table_is_the_conditional_mean_and_its_derivative(line: int) -> None:
    """d E[x | r]/d r = Var[x | r]/s^2. Interpolation between points h = 1/STEPS apart errs by h^2/8 times the largest
    second derivative, which is that of the mean worked out at more points."""
    law = np.array([0.7, 0.15, 0.05, 0.07, 0.03])
    std = LEAST_STD * FINENESS**line
    points = np.linspace(-0.9, 4.9, 233)
    means, slopes = denoised(CountDenoiser(law), tensor(points[None]), torch.tensor([std]))
    expected, variance = conditional_mean(law, points, std)
    exact, fine = conditional_mean(law, np.linspace(-1, 5, 6001), std)[0], 6 / 6000
    bend = float(np.abs(np.diff(exact, 2)).max()) / fine**2
    np.testing.assert_allclose(means[0].numpy(), expected, atol=bend / STEPS**2 / 8 + 1e-5)
    np.testing.assert_allclose(slopes[0].numpy(), variance / std**2, atol=bend / STEPS + 1e-4)


def test_with_little_noise_the_nearest_count_is_taken() -> None:
    points = np.array([0.0, 0.3, 0.6, 1.4, 2.7, 4.2, -3.0, 9.0])
    found, _ = denoised(CountDenoiser(first_law(4, 16)), tensor(points[None]), torch.tensor([1e-4]))
    np.testing.assert_allclose(found[0].numpy(), [0, 0, 1, 1, 3, 4, 0, 4], atol=1e-6)


def test_the_conditional_mean_is_that_of_all_counts_worked_out() -> None:
    law, std, r = np.array([0.5, 0.3, 0.2]), 0.6, 0.8
    weights = [p * math.exp(-((r - n) ** 2) / (2 * std**2)) for n, p in enumerate(law)]
    mean = (weights[1] + 2 * weights[2]) / sum(weights)
    found, variance = conditional_mean(law, np.array([r]), std)
    assert found[0] == pytest.approx(mean, rel=1e-12)
    assert variance[0] == pytest.approx((weights[1] + 4 * weights[2]) / sum(weights) - mean**2, rel=1e-12)


def test_of_orthogonal_sequences_the_posterior_mean_is_that_of_enumeration() -> None:
    """Three words and four entries: all 27 counts of every block, with the noise that the fourth entry tells."""
    generator, law, std = np.random.default_rng(4), np.array([0.6, 0.25, 0.15]), 0.4
    columns = sequences(3, 4, generator)
    counts = generator.choice(3, size=(3000, 3), p=law)
    received = counts @ columns.T + std * generator.standard_normal((3000, 4))
    found = detect_counts(tensor(received), tensor(columns), 2, 10, law, learn=False)
    assert found.variances[0] == pytest.approx(std**2, rel=5 * math.sqrt(2 / 3000))
    states = np.array(list(itertools.product(range(3), repeat=3)))
    misfit = ((received[:, None] - states @ columns.T) ** 2).sum(axis=2)
    posterior = law[states].prod(axis=1) * np.exp(-misfit / (2 * std**2))
    exact = posterior @ states / posterior.sum(axis=1, keepdims=True)
    # The table has the noise of its nearest line, within FINENESS/2, and is interpolated.
    np.testing.assert_allclose(found.counts.numpy(), exact, atol=0.08)
    assert np.abs(found.counts.numpy() - exact).mean() < 0.02


def test_few_measurements_come_near_to_the_exact_posterior_mean_of_the_joint_law() -> None:
    """3 devices and 8 words, 12 random signs: the mean of all 120 counts with the probability that devices choose them.
    No estimate has a smaller square error; message passing keeps three quarters of what that gains, though it has few
    words to average over, and does not know that counts add up to 3, or which of 16 words are used."""
    generator, words, devices, std, blocks = np.random.default_rng(5), 8, 3, 0.3, 1500
    columns = sequences(16, 12, generator)
    states = np.array([s for s in itertools.product(range(devices + 1), repeat=words) if sum(s) == devices])
    ways = np.array([math.factorial(devices) / math.prod(map(math.factorial, s)) for s in states.tolist()])
    counts = generator.multinomial(devices, np.full(words, 1 / words), size=blocks)
    received = counts @ columns[:, :words].T + std * generator.standard_normal((blocks, 12))
    misfit = ((received[:, None] - states @ columns[:, :words].T) ** 2).sum(axis=2)
    posterior = ways * np.exp(-(misfit - misfit.min(axis=1, keepdims=True)) / (2 * std**2))
    exact = posterior @ states / posterior.sum(axis=1, keepdims=True)
    # A count is binomial, or that of one of the 8 sequences that nobody sends and the receiver does not know of.
    binomial = [math.comb(devices, n) / words**n * (1 - 1 / words) ** (devices - n) for n in range(devices + 1)]
    law = np.array(binomial) / 2 + np.array([0.5, 0, 0, 0])
    found = detect_counts(tensor(received), tensor(columns), devices, 20, law, learn=False).counts.numpy()[:, :words]
    least, own, none = (((of - counts) ** 2).mean() for of in (exact, found, np.full(words, devices / words)))
    assert least <= own < least + (none - least) / 4


def test_the_noise_of_every_iteration_is_that_of_state_evolution() -> None:
    """1,200 sequences of 800 entries; the state is an average over 40 blocks, from which 800 entries and their finite
    number move it by a few percent."""
    generator, law, std = np.random.default_rng(8), np.array([0.9, 0.06, 0.03, 0.01]), 0.15
    words, length, blocks = 1200, 800, 40
    columns = sequences(words, length, generator)
    counts = generator.choice(4, size=(blocks, words), p=law)
    received = counts @ columns.T + std * generator.standard_normal((blocks, length))
    found = detect_counts(tensor(received), tensor(columns), 3, 8, law, learn=False)
    expected = state_evolution(law, length / words, std, 8)
    assert expected[0] == pytest.approx(std**2 + (0.06 + 0.12 + 0.09) * 1.5)
    np.testing.assert_allclose(found.variances[:5], expected[:5], rtol=0.06)
    error = ((found.counts.numpy() - counts) ** 2).mean()
    final = state_evolution(law, length / words, std, 9)[8]
    assert error == pytest.approx((final - std**2) * length / words, rel=0.15)


def test_at_a_high_snr_all_counts_are_exact() -> None:
    generator = np.random.default_rng(9)
    columns = sequences(64, 40, generator)
    counts = generator.multinomial(8, popular(64), size=400)
    for std in (0.0, 0.03):
        received = counts @ columns.T + std * generator.standard_normal((400, 40))
        found = detect_counts(tensor(received), tensor(columns), 8, 30)
        assert (found.counts.round().numpy() == counts).all(axis=1).mean() > 0.99


def test_orthogonal_sequences_without_noise_give_the_histogram() -> None:
    generator = np.random.default_rng(10)
    counts = generator.multinomial(32, popular(16), size=50)
    for length in (16, 20):
        columns = sequences(16, length, generator)
        found = detect_counts(tensor(counts @ columns.T), tensor(columns), 32, 10)
        np.testing.assert_allclose(found.counts.numpy(), counts, atol=1e-4)


def test_noise_of_orthogonal_sequences_is_found_without_other_measurements() -> None:
    """As many entries as words: counts and noise are told apart by their laws."""
    generator, law, std = np.random.default_rng(11), np.array([0.8, 0.15, 0.05]), 0.3
    columns = sequences(16, 16, generator)
    counts = generator.choice(3, size=(2000, 16), p=law)
    received = counts @ columns.T + std * generator.standard_normal((2000, 16))
    found = detect_counts(tensor(received), tensor(columns), 2, 60)
    assert found.variances[0] == pytest.approx(std**2, rel=0.1)
    np.testing.assert_allclose(found.law, law, atol=0.02)


def test_the_law_of_the_counts_is_learned() -> None:
    generator = np.random.default_rng(12)
    columns = sequences(64, 48, generator)
    counts = generator.multinomial(8, popular(64), size=1500)
    received = tensor(counts @ columns.T + 0.05 * generator.standard_normal((1500, 48)))
    true = np.bincount(counts.ravel(), minlength=9) / counts.size
    learned = detect_counts(received, tensor(columns), 8, 20)
    assert learned.law.sum() == pytest.approx(1.0)
    before, after = np.abs(first_law(8, 64) - true).sum(), np.abs(learned.law - true).sum()
    assert after < before / 3
    worse = detect_counts(received, tensor(columns), 8, 20, learn=False)
    assert ((learned.counts.numpy() - counts) ** 2).mean() < ((worse.counts.numpy() - counts) ** 2).mean()


def test_a_block_has_the_same_counts_alone_as_among_others() -> None:
    """Blocks that are settled are left out of later iterations."""
    generator = np.random.default_rng(13)
    columns = sequences(32, 20, generator)
    counts = np.vstack((generator.multinomial(2, popular(32), size=20), generator.multinomial(9, popular(32), size=20)))
    received = tensor(counts @ columns.T + 0.1 * generator.standard_normal((40, 20)))
    law = first_law(9, 32)
    together = detect_counts(received, tensor(columns), 9, 12, law, learn=False).counts
    for row in (0, 7, 25, 39):
        alone = detect_counts(received[row : row + 1], tensor(columns), 9, 12, law, learn=False).counts
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=5e-3)


def test_nothing_is_counted_where_nobody_sends() -> None:
    columns = tensor(sequences(8, 6, np.random.default_rng(0)))
    assert detect_counts(torch.randn(5, 6), columns, 0, 10).counts.abs().max() == 0
    assert detect_counts(torch.zeros(5, 6), columns, 3, 10).counts.abs().max() < 1e-6
    assert detect_counts(torch.zeros(0, 6), columns, 3, 10).counts.shape == (0, 8)
