"""Who takes part in a round."""

import numpy as np
import pytest
from scipy import stats

from airfl.selection import SELECTIONS, most_selected, select
from airfl.streams import Purpose, Streams

STREAMS = Streams(11)
BLIND = [name for name, rule in SELECTIONS.items() if rule.choose is not None]


def test_uniform_takes_r_different_devices_in_order() -> None:
    for t in range(50):
        ids = select("uniform", STREAMS, t, devices=40, selected=8)
        assert len(ids) == 8
        assert np.all(np.diff(ids) > 0)
        assert ids[0] >= 0
        assert ids[-1] < 40


def test_everybody_can_be_selected() -> None:
    np.testing.assert_array_equal(select("uniform", STREAMS, 0, devices=5, selected=5), np.arange(5))
    np.testing.assert_array_equal(select("poisson", STREAMS, 0, devices=5, selected=5), np.arange(5))


def test_rounds_differ_and_repeat() -> None:
    first = select("uniform", STREAMS, 0, 1000, 10)
    np.testing.assert_array_equal(first, select("uniform", Streams(11), 0, 1000, 10))
    assert not np.array_equal(first, select("uniform", STREAMS, 1, 1000, 10))


@pytest.mark.parametrize("kind", BLIND)
def test_every_device_is_included_equally_often(kind: str) -> None:
    """n = 4,000 rounds: each of 20 counts is binomial(n, 0.25), within 5 standard errors."""
    rounds, devices, selected = 4000, 20, 5
    counts = np.zeros(devices)
    for t in range(rounds):
        counts[select(kind, STREAMS, t, devices, selected)] += 1
    rate = selected / devices
    assert np.all(np.abs(counts / rounds - rate) < 5 * np.sqrt(rate * (1 - rate) / rounds))


def test_uniform_subsets_are_equally_likely() -> None:
    """n = 6,000 rounds over the 15 pairs of 6: chi-square below its 99.99% point."""
    rounds = 6000
    pairs = [tuple(select("uniform", STREAMS, t, 6, 2)) for t in range(rounds)]
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    assert len(counts) == 15
    assert stats.chisquare(counts).pvalue > 1e-4


def test_poisson_sizes_are_binomial_and_devices_independent() -> None:
    """n = 4,000 rounds of binomial(20, 0.25): mean and variance within 5 standard errors; two devices uncorrelated."""
    rounds, devices, selected = 4000, 20, 5
    taken = np.zeros((rounds, devices))
    for t in range(rounds):
        taken[t, select("poisson", STREAMS, t, devices, selected)] = 1
    sizes, variance = taken.sum(axis=1), 20 * 0.25 * 0.75
    assert abs(sizes.mean() - selected) < 5 * np.sqrt(variance / rounds)
    # The variance of a sample variance is (mu_4 - variance^2)/n; a binomial's excess kurtosis here is below 0.
    assert abs(sizes.var() - variance) < 5 * variance * np.sqrt(2 / rounds)
    assert abs(np.corrcoef(taken[:, 0], taken[:, 1])[0, 1]) < 5 / np.sqrt(rounds)


@pytest.mark.parametrize("kind", BLIND)
def test_the_count_is_known_without_choosing(kind: str) -> None:
    count = SELECTIONS[kind].count
    for t in range(100):
        expected = 5 if count is None else count(STREAMS.generator(Purpose.SELECT, t), 50, 5)
        assert len(select(kind, STREAMS, t, 50, 5)) == expected


@pytest.mark.parametrize("kind", BLIND)
def test_most_selected_is_the_largest_round(kind: str) -> None:
    sizes = [len(select(kind, STREAMS, t, 50, 5)) for t in range(60)]
    assert most_selected(kind, STREAMS, 60, 50, 5) == max(sizes)


def test_a_poisson_round_may_be_empty() -> None:
    sizes = [len(select("poisson", STREAMS, t, 50, 1)) for t in range(60)]
    assert min(sizes) == 0


def test_what_the_ledger_may_assume() -> None:
    assert SELECTIONS["uniform"].sampling == "without_replacement"
    assert SELECTIONS["poisson"].sampling == "poisson"
