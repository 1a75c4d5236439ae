"""Receiver noise: sigma_0 on an observed real entry."""

import numpy as np
import pytest
from scipy import stats

from airfl.streams import Purpose, Streams
from channels.noise import receiver_noise


def generator(round_index: int = 0) -> np.random.Generator:
    return Streams(3).generator(Purpose.RECEIVER_NOISE, round_index)


@pytest.mark.parametrize("noise_std", [0.25, 1.0, 40.0])
def test_variance_is_sigma_0_squared(noise_std: float) -> None:
    """n = 100,000: the sum of squares within the 99.99% interval of chi-square (0.9% either side of sigma_0^2)."""
    n = 100_000
    noise = receiver_noise(generator(), n, noise_std).astype(np.float64)
    low, high = stats.chi2(n).interval(0.9999)
    assert low < np.sum(noise**2) / noise_std**2 < high
    assert abs(noise.mean()) < 5 * noise_std / np.sqrt(n)
    assert stats.kstest(noise / noise_std, stats.norm.cdf).pvalue > 1e-4


def test_noise_is_single_precision() -> None:
    assert receiver_noise(generator(), 3, 0.5).dtype == np.float32


@pytest.mark.parametrize("entries", [0, 1, 2, 3, 7, 32, 33, 999])
def test_a_shorter_message_sees_a_prefix(entries: int) -> None:
    np.testing.assert_array_equal(
        receiver_noise(generator(), entries, 0.5), receiver_noise(generator(), 1000, 0.5)[:entries]
    )


def test_noise_scales_with_its_deviation_and_is_new_every_round() -> None:
    one = receiver_noise(generator(), 100, 1.0)
    np.testing.assert_array_equal(receiver_noise(generator(), 100, 4.0), 4 * one)
    assert not np.any(receiver_noise(generator(1), 100, 1.0) == one)
