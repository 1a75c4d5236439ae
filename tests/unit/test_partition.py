"""Division of the training data among the devices."""

from collections import Counter

import numpy as np
import pytest

from airfl.errors import UserError
from airfl.learning.tasks.partitions import PARTITIONS, ByClass, Dirichlet, Iid, Partition, Pool, Shared, Writer
from tests.refusals import one_line

LABELS = np.arange(1000) % 10


def pool(devices: int = 20, samples: int = 1000, writers: bool = False) -> Pool:
    """Samples that are numbered in steps of 3, so that places and sample numbers cannot be confused."""
    numbers = np.arange(samples)
    return Pool(3 * numbers, LABELS[:samples], numbers % 25 + 100 if writers else None, devices)


def shares(partition: Partition) -> list[np.ndarray]:
    """The samples of each device."""
    return np.split(partition.indices, partition.offsets[1:-1])


def skew(partition: Partition) -> float:
    """Mean share of a device's most frequent class: 0.1 for even classes, 1 for a single class each."""
    tops = [np.bincount(LABELS[part // 3]).max() / len(part) for part in shares(partition)]
    return float(np.mean(tops))


@pytest.mark.parametrize("kind", [name for name, rule in PARTITIONS.items() if not rule.shares])
def test_every_device_has_samples_of_its_own(kind: str) -> None:
    """The same generator gives the same partition."""
    given = pool(writers=True)
    partition, same, other = (PARTITIONS[kind]().divide(given, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert len(partition.sizes) == 20
    assert partition.sizes.min() >= 1
    assert partition.sizes.sum() == len(partition.indices) == partition.offsets[-1] == len(set(partition.indices))
    assert set(partition.indices) <= set(given.samples)
    np.testing.assert_array_equal(partition.indices, same.indices)
    assert not np.array_equal(partition.indices, other.indices)


def test_iid_shares_are_random_and_equal_and_leave_the_rest_out() -> None:
    """A device's share of 500 samples holds a hypergeometric number of each class: within 5 deviations of 50."""
    np.testing.assert_array_equal(Iid().divide(pool(devices=30), np.random.default_rng(0)).sizes, np.full(30, 33))
    share = shares(Iid().divide(pool(devices=2), np.random.default_rng(0)))[0]
    deviation = np.sqrt(500 * 0.1 * 0.9 * 500 / 999)
    assert np.all(np.abs(np.bincount(LABELS[share // 3]) - 50) < 5 * deviation)
    assert not np.array_equal(np.sort(share), share)


def test_shares_by_class_hold_one_class_each() -> None:
    """100 samples of a class and 50 a device: nobody sees two; 30 devices of 33 leave ten samples out, at random."""
    assert skew(ByClass().divide(pool(devices=20), np.random.default_rng(0))) == 1
    uneven = [ByClass().divide(pool(devices=30), np.random.default_rng(seed)) for seed in (0, 1)]
    for partition in uneven:
        np.testing.assert_array_equal(partition.sizes, np.full(30, 33))
        assert skew(partition) > 0.7
        labels = LABELS[partition.indices // 3]
        np.testing.assert_array_equal(labels, np.sort(labels))
    assert set(uneven[0].indices) != set(uneven[1].indices)


@pytest.mark.parametrize("alpha", [100.0, 0.5, 0.01, 1e-4])
def test_dirichlet_gives_every_sample_to_one_device(alpha: float) -> None:
    """And where shares would leave nearly everybody empty, as many devices as samples one each."""
    partition = Dirichlet(alpha=alpha).divide(pool(), np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(partition.indices), np.arange(1000) * 3)
    assert partition.sizes.min() >= 1
    few = Dirichlet(alpha=alpha).divide(pool(devices=50, samples=50), np.random.default_rng(0))
    np.testing.assert_array_equal(few.sizes, np.ones(50))


def test_labels_are_the_more_skewed_the_smaller_alpha() -> None:
    rules = [Dirichlet(alpha=alpha) for alpha in (1000.0, 1.0, 0.1, 0.01)]
    skews = [skew(rule.divide(pool(), np.random.default_rng(0))) for rule in rules]
    assert np.all(np.diff(skews) > 0)
    assert skews[0] < 0.15
    assert skews[-1] > 0.8


def test_a_writer_is_a_device() -> None:
    given = pool(devices=20, writers=True)
    assert given.writers is not None
    drawn = [Counter(given.writers[part // 3]) for part in shares(Writer().divide(given, np.random.default_rng(0)))]
    assert all(list(writers.values()) == [40] for writers in drawn)
    assert len({name for writers in drawn for name in writers}) == 20


def test_unknown_and_too_few_writers_are_refused() -> None:
    for given, said in (
        (pool(), r"task\.partition.*does not name the writers"),
        (pool(devices=26, writers=True), r"run\.devices = 26, but .* 25 writers"),
    ):
        with pytest.raises(UserError, match=said):
            Writer().divide(given, np.random.default_rng(0))


def test_shared_samples_are_distinct_on_a_device_and_independent_of_the_others() -> None:
    """Two devices with 100 of 1,000 samples each share a hypergeometric number: 10, variance 10 0.9 900/999."""
    partition = Shared(device_samples=100).divide(pool(devices=400), np.random.default_rng(0))
    parts = np.asarray(partition.indices).reshape(400, 100)
    np.testing.assert_array_equal(partition.sizes, np.full(400, 100))
    assert all(len(set(part.tolist())) == 100 and set(part.tolist()) <= set(pool().samples) for part in parts)
    common = [len(set(one.tolist()) & set(other.tolist())) for one, other in zip(parts[::2], parts[1::2], strict=True)]
    variance = 10 * 0.9 * 900 / 999
    assert abs(np.mean(common) - 10) < 5 * np.sqrt(variance / 200)
    assert abs(np.var(common) / variance - 1) < 5 * np.sqrt(2 / 200)
    held = np.bincount(parts.ravel() // 3, minlength=1000)  # devices that hold a sample: binomial (400, 1/10)
    assert abs(held.var() / (400 * 0.1 * 0.9) - 1) < 5 * np.sqrt(2 / 1000)


def test_a_device_shares_the_same_samples_however_many_devices_there_are() -> None:
    """A million devices with 7 of 20 samples each: only those that are asked for are drawn."""
    few, many = (
        Shared(device_samples=7).divide(pool(devices=count, samples=20), np.random.default_rng(3))
        for count in (4, 1_000_000)
    )
    np.testing.assert_array_equal(few.indices[:], many.indices[:28])
    places = np.array([[6_999_999, 6_999_993], [21, 27]])
    again = many.indices[places]
    np.testing.assert_array_equal(again[1], few.indices[:][[21, 27]])
    np.testing.assert_array_equal(again[0], many.indices[6_999_993:7_000_000][[6, 0]])
    other = Shared(device_samples=7).divide(pool(devices=4, samples=20), np.random.default_rng(4))
    assert not np.array_equal(few.indices[:], other.indices[:])
    with pytest.raises(UserError, match=one_line("all 2,000,000,000 samples", "decrease run.devices")):
        # Without the partition, whose offsets would take 800 MB.
        np.asarray(type(many.indices)(np.arange(20), 20, 100_000_000, np.zeros(2, np.uint64)))  # type: ignore[call-arg]


def test_all_samples_may_be_shared_by_all_devices_but_not_more() -> None:
    everything = Shared(device_samples=20).divide(pool(devices=3, samples=20), np.random.default_rng(0))
    np.testing.assert_array_equal(everything.indices[:], np.tile(pool(samples=20).samples, 3))
    with pytest.raises(UserError, match=one_line("task.device_samples", "21 different samples of 20", "at most 20")):
        Shared(device_samples=21).divide(pool(devices=3, samples=20), np.random.default_rng(0))
