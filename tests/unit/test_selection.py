"""Device selection that does not depend on the channel."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from airfl.runtime.streams import Purpose, Streams
from airfl.selection import SELECTIONS, BlindRule, Ids, most_selected
from airfl.selection import select as select_by

STREAMS = Streams(11)
BLIND = [name for name, rule in SELECTIONS.items() if issubclass(rule, BlindRule)]
ROUNDS = 1500


def select(kind: str, streams: Streams, t: int, devices: int, selected: int) -> Ids:
    return select_by(SELECTIONS[kind](), streams, t, devices, selected)


@cache
def taken(kind: str) -> NDArray[np.float64]:
    """1 where a device took part, of 6 of whom 2 are wanted, [ROUNDS, 6]."""
    found = np.zeros((ROUNDS, 6))
    for t in range(ROUNDS):
        found[t, select(kind, STREAMS, t, 6, 2)] = 1
    return found


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
    """Each of 6 counts is binomial(n, 1/3), within 5 standard errors."""
    assert np.all(np.abs(taken(kind).mean(axis=0) - 1 / 3) < 5 * np.sqrt(2 / 9 / ROUNDS))


def test_uniform_subsets_are_equally_likely() -> None:
    """The 15 pairs of 6: chi-square below its 99.99% point."""
    _, counts = np.unique(taken("uniform"), axis=0, return_counts=True)
    assert len(counts) == 15
    assert stats.chisquare(counts).pvalue > 1e-4


def test_poisson_sizes_are_binomial_and_devices_independent() -> None:
    """Binomial(6, 1/3): mean and variance within 5 standard errors; no two devices correlated."""
    sizes, variance = taken("poisson").sum(axis=1), 6 * 2 / 9
    assert abs(sizes.mean() - 2) < 5 * np.sqrt(variance / ROUNDS)
    # The variance of a sample variance is (mu_4 - variance^2)/n; a binomial's excess kurtosis here is below 0.
    assert abs(sizes.var() - variance) < 5 * variance * np.sqrt(2 / ROUNDS)
    assert np.abs(np.triu(np.corrcoef(taken("poisson").T), 1)).max() < 5 / np.sqrt(ROUNDS)


@pytest.mark.parametrize("kind", BLIND)
def test_the_count_is_known_without_choosing(kind: str) -> None:
    """And the largest round; a Poisson round may be empty."""
    rule = SELECTIONS[kind]()
    sizes = [len(select(kind, STREAMS, t, 50, 2)) for t in range(100)]
    assert sizes == [rule.count(STREAMS.generator(Purpose.SELECT, t), 50, 2) for t in range(100)]
    assert most_selected(rule, STREAMS, 100, 50, 2) == max(sizes)
    assert min(sizes) == (0 if kind == "poisson" else 2)


def test_what_the_ledger_may_assume() -> None:
    assert SELECTIONS["uniform"].sampling == "without_replacement"
    assert SELECTIONS["poisson"].sampling == "poisson"
