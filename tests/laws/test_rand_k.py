"""Moments of rand-k over all subsets, and the distribution of its masks."""

from itertools import combinations
from math import comb
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from scipy import stats

from airfl.runtime.streams import Streams
from airfl.uplinks.stages import Batch, RandK
from tests.rounds import a_round

X = torch.tensor([1.0, -2.0, 0.5, 3.0, 0.0, -0.25], dtype=torch.float64)


def through_all_masks(kept: int, rescale: bool) -> torch.Tensor:
    """decode(encode(x)) under every mask of `kept` entries, [masks, d]."""
    stage, results = RandK(len(X), kept, rescale), []
    for subset in combinations(range(len(X)), kept):
        with patch.object(Streams, "generator", return_value=Mock(choice=Mock(return_value=np.array(subset)))):
            coder = stage.open(a_round(Streams(0), 0))
        results.append(coder.decode(coder.encode(Batch(X[None], torch.ones(1))).values[0]))
    assert len(results) == comb(len(X), kept)
    return torch.stack(results)


@pytest.mark.parametrize("kept", [1, 2, 3, 6])
def test_it_shrinks_the_update_by_p_or_is_unbiased_where_it_is_rescaled(kept: int) -> None:
    """E[A'A x] = p x and E||A'A x - x||^2 = (1 - p) ||x||^2; times 1/p, x and (1/p - 1) ||x||^2."""
    p = kept / len(X)
    for rescale, mean, error, square in ((False, p, 1 - p, p), (True, 1, 1 / p - 1, 1 / p)):
        decoded = through_all_masks(kept, rescale)
        torch.testing.assert_close(decoded.mean(dim=0), mean * X)
        torch.testing.assert_close((decoded - X).square().sum(dim=1).mean(), error * X.square().sum())
        torch.testing.assert_close(decoded.square().sum(dim=1).mean(), square * X.square().sum())


def test_masks_are_uniform_over_the_subsets() -> None:
    """n = 5,000 rounds over the 10 pairs of 5: chi-square below its 99.99% point."""
    stage, streams, n = RandK(5, 2, False), Streams(1), 5000
    masks = [stage.open(a_round(streams, t)).coordinates for t in range(n)]
    subsets, counts = np.unique(np.array(masks), axis=0, return_counts=True)
    np.testing.assert_array_equal(subsets, list(combinations(range(5), 2)))
    assert stats.chisquare(counts).pvalue > 1e-4


def test_large_masks_keep_every_coordinate_equally_often() -> None:
    """numpy draws large samples in another way; n = 300 rounds of 6,000 of 20,000, each within 6 standard errors (of
    20,000 normal deviates the largest is beyond 6 with a probability of 4e-5)."""
    dimension, kept, n = 20_000, 6_000, 300
    counts = np.zeros(dimension)
    for t in range(n):
        coordinates = RandK(dimension, kept, False).open(a_round(Streams(1), t)).coordinates
        assert np.all(np.diff(coordinates) > 0)
        counts[coordinates] += 1
    deviates = (counts / n - 0.3) / np.sqrt(0.3 * 0.7 / n)
    assert np.abs(deviates).max() < 6
    # Their mean square is 1, with a standard error of sqrt(2/20,000).
    assert abs(np.mean(deviates**2) - 1) < 5 * np.sqrt(2 / dimension)
