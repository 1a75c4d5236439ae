"""Numbers by address have the laws that they are named for, and addresses are independent of each other."""

import math

import numpy as np
import pytest
from scipy import stats

from airfl.runtime import philox
from airfl.runtime.philox import reference
from airfl.runtime.streams import Purpose, Streams

N = 1 << 20
ADDRESS = Streams(11).address(Purpose.RECEIVER_NOISE, 2)
NORMALS = philox.normals(ADDRESS, [4], N)[0].astype(np.float64)


def test_normals_are_normal() -> None:
    """n = 2^20. Kolmogorov-Smirnov at 1 in 10^5, moments within 5 standard errors, and tails as Poisson counts."""
    assert stats.kstest(NORMALS, "norm").pvalue > 1e-5
    for power, (mean, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96), 6: (15, 10170)}.items():
        assert abs((NORMALS**power).mean() - mean) < 5 * math.sqrt(variance / N), power
    for bound in (2.5, 3.5, 4.5):
        expected = 2 * N * stats.norm.sf(bound)
        assert abs((np.abs(NORMALS) > bound).sum() - expected) < 5 * math.sqrt(expected) + 1


def test_the_largest_normal_is_that_of_the_smallest_uniform() -> None:
    """sqrt(-2 ln 2^-33): 6.76 standard deviations, beyond which a normal number is once in 7 10^10."""
    words = np.array([[0, 0, 2**32 - 1, 0]], dtype=np.uint32)
    first, second, third, fourth = reference.normals_of(words)[0].tolist()
    assert math.hypot(first, second) == pytest.approx(math.sqrt(66 * math.log(2)), rel=1e-6)
    assert math.hypot(third, fourth) < 1e-3


def test_box_and_muller_by_the_functions_of_numpy() -> None:
    """In float64, of the same words: within 1e-6 of the radius."""
    words = philox.words(ADDRESS, [4], N)[0].reshape(-1, 2).astype(np.float64)
    radius = np.sqrt(-2 * np.log((words[:, 0] + 0.5) / 2**32))
    place = (words[:, 1] % 2**30) // 64 + 0.5
    angle = (words[:, 1] // 2**30) * (math.pi / 2) + place / 2**24 * (math.pi / 2) - math.pi / 4
    wanted = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()
    near_one = 3e-8 / np.maximum(radius, 1e-4)  # where u, a float32, is near 1, it has 24 bits after the point
    assert (np.abs(NORMALS - wanted) < np.repeat(1e-6 * np.maximum(radius, 1) + 3 * near_one, 2)).all()


def test_uniforms_are_uniform() -> None:
    uniforms = philox.uniforms(ADDRESS, [4], N)[0]
    assert stats.kstest(uniforms, "uniform").pvalue > 1e-5
    counts = np.bincount((uniforms * 256).astype(np.int64), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-5
    bits = np.unpackbits(philox.words(ADDRESS, [4], N)[0].view(np.uint8)).reshape(-1, 32).mean(axis=0)
    assert (np.abs(bits - 0.5) < 5 * 0.5 / math.sqrt(N)).all()


def test_neighbours_are_independent() -> None:
    """Correlations of numbers, squares and signs, at lags and between neighbouring addresses: below 5/sqrt(n)."""
    of_devices = philox.normals(ADDRESS, range(5, 13), N // 4).astype(np.float64)
    of_rounds = [philox.normals(Streams(11).address(Purpose.RECEIVER_NOISE, t), [4], N // 4)[0] for t in (1, 3, 4)]
    of_purposes = [philox.normals(Streams(11).address(p, 2), [4], N // 4)[0] for p in (Purpose.MASK, Purpose.QUANTISER)]
    of_seeds = [philox.normals(Streams(s).address(Purpose.RECEIVER_NOISE, 2), [4], N // 4)[0] for s in (10, 12, 27)]
    rows = np.vstack([NORMALS[: N // 4], of_devices, of_rounds, of_purposes, of_seeds])
    for values in (rows, rows**2, np.sign(rows)):
        correlations = np.corrcoef(values)[np.triu_indices(len(values), 1)]
        assert (np.abs(correlations) < 5 / math.sqrt(N // 4)).all()
    for lag in range(1, 9):
        for values in (NORMALS, NORMALS**2):
            assert abs(np.corrcoef(values[lag:], values[:-lag])[0, 1]) < 5 / math.sqrt(N), lag


def test_pairs_fill_the_plane_evenly() -> None:
    """Of normal pairs, the angle is uniform and independent of the radius: chi-square over 16 x 16 cells."""
    x, y = NORMALS[0::2], NORMALS[1::2]
    angle = (np.arctan2(y, x) / (2 * math.pi) % 1 * 16).astype(np.int64)
    level = (np.exp(-(x**2 + y**2) / 2) * 16).astype(np.int64).clip(max=15)
    cells = np.bincount(16 * angle + level, minlength=256)
    assert stats.chisquare(cells).pvalue > 1e-5
