"""Who takes part in a round."""

import numpy as np
import pytest
from scipy import stats

from airfl.selection import SELECTIONS, BlindRule, Ids, most_selected
from airfl.selection import select as select_by
from airfl.streams import Purpose, Streams

STREAMS = Streams(11)
BLIND = [name for name, rule in SELECTIONS.items() if issubclass(rule, BlindRule)]


def select(kind: str, streams: Streams, t: int, devices: int, selected: int) -> Ids:
    rule = SELECTIONS[kind]()
    assert isinstance(rule, BlindRule)
    return select_by(rule, streams, t, devices, selected)


def test_uniform_takes_r_different_devices_in_order() -> None:
    """Others in every round, the same whenever they are asked for; everybody, if wanted."""
    drawn = np.array([select("uniform", STREAMS, t, devices=40, selected=8) for t in range(50)])
    assert drawn.shape == (50, 8)
    assert np.all(np.diff(drawn) > 0)
    assert 0 <= drawn.min() < drawn.max() < 40
    np.testing.assert_array_equal(drawn[0], select("uniform", Streams(11), 0, 40, 8))
    assert not np.array_equal(drawn[0], drawn[1])
    for kind in ("uniform", "poisson"):
        np.testing.assert_array_equal(select(kind, STREAMS, 0, devices=5, selected=5), np.arange(5))


@pytest.mark.parametrize("kind", BLIND)
def test_every_device_is_included_equally_often(kind: str) -> None:
    """n = 4,000 rounds: each of 20 counts is binomial(n, 0.25), within 5 standard errors."""
    counts = np.bincount(np.concatenate([select(kind, STREAMS, t, 20, 5) for t in range(4000)]), minlength=20)
    assert np.all(np.abs(counts / 4000 - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000))


def test_uniform_subsets_are_equally_likely() -> None:
    """n = 6,000 rounds over the 15 pairs of 6: chi-square below its 99.99% point."""
    pairs = [select("uniform", STREAMS, t, 6, 2) for t in range(6000)]
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
    """And the largest round; a Poisson round may be empty."""
    rule = SELECTIONS[kind]()
    assert isinstance(rule, BlindRule)
    sizes = [len(select(kind, STREAMS, t, 50, 2)) for t in range(100)]
    assert sizes == [rule.count(STREAMS.generator(Purpose.SELECT, t), 50, 2) for t in range(100)]
    assert most_selected(rule, STREAMS, 100, 50, 2) == max(sizes)
    assert min(sizes) == (0 if kind == "poisson" else 2)


def test_what_the_ledger_may_assume() -> None:
    assert SELECTIONS["uniform"].sampling == "without_replacement"
    assert SELECTIONS["poisson"].sampling == "poisson"
