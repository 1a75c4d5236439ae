"""Statistics of cpSGD's messages: unbiased rounding and its variance, binomial noise, and the spread of a rotation.

n = 10,000 draws unless stated otherwise: one message of n equal entries, or n devices.
"""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from airfl.privacy.binomial import rotated_bound
from airfl.runtime.streams import Streams
from airfl.uplinks.stages.quantise import BinomialNoise, StochasticQuantise
from airfl.uplinks.stages.rotation import Rotation
from airfl.uplinks.stages.stage import Batch, Stage, open_encoder
from tests.laws.samples import Array
from tests.rounds import a_round

N = 10_000


def encoded(stages: tuple[Stage, ...], values: Tensor, t: int = 0) -> Array:
    """Messages of these updates, [devices, m]."""
    coder = open_encoder(stages, a_round(Streams(7), t, len(values)))
    batch = Batch(values, torch.ones(len(values), dtype=values.dtype), rows=slice(0, len(values)))
    return np.asarray(coder.encode(batch).messages.double().numpy())


@pytest.mark.parametrize("levels", [2, 7, 64])
@pytest.mark.parametrize("value", [-0.5, -0.311, 0.0, 0.02, 0.27, 0.499])
def test_rounding_is_unbiased_with_its_variance(levels: int, value: float) -> None:
    """Mean within 5 standard errors of x; the variance is (ceil - x)(x - floor) in steps, at most 1/4 of a step^2."""
    stage = StochasticQuantise(levels, 0.5)
    above = (value + 0.5) / stage.step
    variance = (math.ceil(above) - above) * (above - math.floor(above))
    drawn = encoded((stage,), torch.full((1, N), value, dtype=torch.float64))[0]
    assert drawn.mean() == pytest.approx(value / stage.step, abs=5 * math.sqrt(variance / N) + 1e-9)
    # A coin with bias p: Var of (b - p)^2 is p (1 - p) (1 - 2 p)^2, at most 1/16.
    assert np.mean((drawn - value / stage.step) ** 2) == pytest.approx(variance, abs=5 * 0.25 / math.sqrt(N))
    assert variance <= 0.25


def test_entries_and_devices_round_and_are_perturbed_by_themselves() -> None:
    """Neighbouring entries and devices correlate by less than 5/sqrt(n); noise of 40 devices is
    Bin(40 m), of variance 40 m/4."""
    drawn = encoded((StochasticQuantise(2, 1.0),), torch.zeros(2, N))
    assert abs(np.corrcoef(drawn[0, :-1], drawn[0, 1:])[0, 1]) < 5 / math.sqrt(N)
    assert abs(np.corrcoef(drawn[0], drawn[1])[0, 1]) < 5 / math.sqrt(N)
    noise = encoded((BinomialNoise(6),), torch.zeros(40, N)).sum(axis=0)
    assert noise.var() == pytest.approx(60, rel=5 * math.sqrt(2 / N))


@pytest.mark.parametrize("trials", [1, 10, 500, 2**32])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_binomial_noise(trials: int, scale: float) -> None:
    """Mean 0 and variance s^2 m/4 within 5 standard errors (fourth moment at most 3 variances^2)."""
    drawn = encoded((BinomialNoise(trials, scale),), torch.zeros(1, N))[0]
    variance = scale**2 * trials / 4
    assert drawn.mean() == pytest.approx(0, abs=5 * math.sqrt(variance / N))
    assert np.mean(drawn**2) == pytest.approx(variance, rel=5 * math.sqrt(2 / N))
    assert BinomialNoise(trials, scale).std == pytest.approx(math.sqrt(variance))


def test_binomial_noise_has_its_law() -> None:
    """Chi-square of m = 10 below its 99.99% point."""
    seen = np.bincount(encoded((BinomialNoise(10),), torch.zeros(1, N))[0].astype(int) + 5, minlength=11)
    wanted = N * stats.binom.pmf(np.arange(11), 10, 0.5)
    pooled, expected = ([counts[:2].sum(), *counts[2:9], counts[9:].sum()] for counts in (seen, wanted))
    assert stats.chisquare(pooled, expected).pvalue > 1e-4


def test_rotation_flattens() -> None:
    """A single coordinate becomes n entries of the same size; a random mask of signs makes the signs even."""
    rotated = encoded((Rotation(1024),), torch.eye(1024)[37:38])[0]
    np.testing.assert_allclose(np.abs(rotated), 1 / 32, rtol=1e-5)


def test_rotated_entries_are_below_their_bound() -> None:
    """200 rounds of 20 vectors each (half of equal entries, the worst for H alone): a fraction delta = 5% of rounds may
    have an entry beyond the bound; at most 5% + 5 standard errors do, and the bound is no more than twice what is seen.
    """
    delta, dimension, devices, rounds = 0.05, 256, 20, 200
    vectors = torch.from_numpy(np.random.default_rng(2).standard_normal((devices, dimension)))
    vectors[:10] = 1.0
    vectors /= vectors.norm(dim=1, keepdim=True)
    bound = rotated_bound(1.0, devices, dimension, delta)
    largest = np.array([np.abs(encoded((Rotation(dimension),), vectors, t)).max() for t in range(rounds)])
    assert np.mean(largest > bound) <= delta + 5 * math.sqrt(delta * (1 - delta) / rounds)
    assert largest.max() > bound / 2


def test_rotation_is_unbiased_through_the_quantiser() -> None:
    """Rotate, round to 4 levels, perturb, turn back: the mean over 10,000 devices is the update within 5 standard
    errors; an entry's variance is at most step^2 (1/4 + m/4)."""
    dimension, trials = 12, 9
    update = torch.from_numpy(np.random.default_rng(3).standard_normal(dimension))
    quantiser = StochasticQuantise(4, float(update.norm()))
    stages = (Rotation(dimension), quantiser, BinomialNoise(trials))
    mean = encoded(stages, update.repeat(N, 1)).mean(axis=0)
    decoded = open_encoder(stages, a_round(Streams(7), 0, N)).decode(torch.from_numpy(mean))
    error = quantiser.step * math.sqrt((1 + trials) / 4 / N)
    np.testing.assert_allclose(decoded.numpy(), update.numpy(), rtol=0, atol=5 * error)
