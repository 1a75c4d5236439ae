"""Division of a data set: held-out samples, writers that become devices, and the test set."""

from dataclasses import replace

import numpy as np
import pytest

from airfl.config import Settings
from airfl.errors import UserError
from airfl.learning import division as dividing
from airfl.learning.division import Division
from airfl.learning.task import build_task
from airfl.learning.tasks.datasets import DATASETS
from airfl.learning.tasks.datasets.raw import RawData
from airfl.learning.tasks.partitions import PARTITIONS
from airfl.runtime.streams import Streams
from tests.conftest import small_settings
from tests.refusals import one_line
from tests.unit.datasets.support import peak_of

# Samples of the writers, training and test together: 8 have ten or more, two of them only with their test samples.
TOTALS = np.array([3, 9, 10, 10, 11, 40, 7, 25, 9, 30, 12, 15, 1])
TESTS = np.array([1, 1, 0, 2, 2, 4, 1, 3, 1, 3, 2, 2, 0])
# Numbers with gaps, not in the order of the samples.
NAMES = np.array([7, 3, 40, 21, 5, 9, 30, 31, 1, 14, 18, 26, 0])
ENOUGH = {40, 21, 5, 9, 31, 14, 18, 26}


def pictures(rows: int, first: int) -> np.ndarray:
    """Images that are all different: the first pixel tells the row."""
    inputs = np.full((rows, 1, 28, 28), first, dtype=np.uint8)
    inputs[:, 0, 0, 0] = np.arange(rows)
    return inputs


def data() -> RawData:
    """Training images are 0 but for their row, test images 128."""
    generator = np.random.default_rng(0)
    trained, tested = (generator.permutation(np.repeat(NAMES, counts)) for counts in (TOTALS - TESTS, TESTS))
    train, test = ((pictures(n, first), np.arange(n) % 10) for n, first in ((len(trained), 0), (len(tested), 128)))
    return RawData(*train, *test, 10, (0.5,), (0.25,), trained, tested)


RAW = data()


def settings(*overrides: str, dataset: str = "femnist", devices: int = 8) -> Settings:
    """PFELS' rule with at least ten samples, overridden."""
    task = (f"task.dataset={dataset}", "task.partition=writer", "task.public_samples=0", "task.min_samples=10")
    return small_settings(*task, f"run.devices={devices}", "run.selected=1", *overrides)


def divide(given: Settings, raw: RawData, streams: Streams) -> Division:
    return dividing.divide(given.task, given.run.devices, raw, streams)


def shares(division: Division) -> list[np.ndarray]:
    """The training rows of each device."""
    return np.split(division.partition.indices, division.partition.offsets[1:-1])


@pytest.mark.parametrize("devices", [3, 5, 8])
def test_a_device_has_all_training_samples_of_its_writer(devices: int) -> None:
    """And the test samples are those of the chosen writers."""
    for seed in range(5):
        division = divide(settings(devices=devices), RAW, Streams(seed))
        for rows, writer in zip(shares(division), division.partition.writers, strict=True):
            np.testing.assert_array_equal(np.sort(rows), np.flatnonzero(RAW.train_writers == writer))
        tested = np.flatnonzero(np.isin(RAW.test_writers, division.partition.writers))
        np.testing.assert_array_equal(division.test, tested)


def test_the_devices_are_drawn_from_those_with_enough() -> None:
    """Every one of the eight in some draw of three; another seed, another draw; the same seed, the same."""
    divisions = [divide(settings(devices=3), RAW, Streams(seed)) for seed in [*range(30), 0]]
    draws = [tuple(division.partition.writers.tolist()) for division in divisions]
    assert draws[-1] == draws[0]
    assert {writer for draw in draws for writer in draw} == ENOUGH
    assert len(set(draws)) > 20
    assert {len(set(draw)) for draw in draws} == {3}


@pytest.mark.parametrize(("least", "there"), [(10, 8), (11, 6), (0, 13), (1, 13), (2, 12), (40, 1)])
def test_fewer_writers_than_devices_are_told_with_their_number(least: int, there: int) -> None:
    few, enough = f"task.min_samples={least}", f" with at least {least} samples" if least else ""
    said = f"run.devices = {there + 1}, but there are only {there} writers{enough}"
    with pytest.raises(UserError, match=one_line(said, f"set run.devices={there}")):
        divide(settings(few, devices=there + 1), RAW, Streams(0))
    assert len(divide(settings(few, devices=there), RAW, Streams(0)).partition.sizes) == there


def test_no_writer_at_all_is_told_without_asking_for_no_devices() -> None:
    with pytest.raises(UserError, match=r"only 0 writers with at least 41 samples") as caught:
        divide(settings("task.min_samples=41"), RAW, Streams(0))
    assert "run.devices=0" not in str(caught.value)


def test_where_test_samples_are_of_others_all_are_tested_on() -> None:
    """MNIST: its test digits are of other writers, and a writer's samples are the training ones alone."""
    raw = replace(RAW, test_writers=None)
    division = divide(settings(dataset="mnist", devices=6), raw, Streams(0))
    assert division.test is None
    # 21 and 5 have ten only with their test samples.
    assert set(division.partition.writers.tolist()) == ENOUGH - {21, 5}
    with pytest.raises(UserError, match="only 6 writers with at least 10 samples"):
        divide(settings(dataset="mnist", devices=7), raw, Streams(0))


@pytest.mark.parametrize("partition", ["iid", "dirichlet"])
def test_other_partitions_keep_every_sample_and_the_whole_test_set(partition: str) -> None:
    """Writers and how much they wrote are no matter then."""
    division = divide(settings(f"task.partition={partition}", devices=4), RAW, Streams(0))
    assert division.test is division.partition.writers is None
    assert len(division.partition.indices) >= len(RAW.train_targets) - 3


@pytest.mark.parametrize("dataset", [name for name, entry in DATASETS.items() if entry.folders is not None])
def test_unknown_writers_are_told_with_what_to_get(dataset: str) -> None:
    said = f"task.partition: {dataset} does not name the writers"
    with pytest.raises(UserError, match=one_line("a partition other than 'writer'", begins=said)) as caught:
        divide(settings(dataset=dataset), replace(RAW, train_writers=None, test_writers=None), Streams(0))
    assert ("QMNIST's label files" in str(caught.value)) == (dataset == "mnist")
    assert (f"`airfl data get {dataset}`" in str(caught.value)) == bool(DATASETS[dataset].writers)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_validation_and_public_samples_are_nobodys(partition: str) -> None:
    n = len(RAW.train_targets)
    held_out = ("task.validation_share=0.2", "task.public_samples=9", "task.min_samples=0", "task.device_samples=10")
    for seed in range(5):
        division = divide(settings(*held_out, f"task.partition={partition}", devices=5), RAW, Streams(seed))
        held = np.concatenate([division.validation, division.public])
        assert (len(division.validation), len(division.public)) == (round(0.2 * n), 9)
        used = np.asarray(division.partition.indices)
        rows = np.concatenate([held, np.unique(used) if PARTITIONS[partition].shares else used])
        assert len(np.unique(rows)) == len(rows)
        assert (rows.min() >= 0, rows.max() < n) == (True, True)
        assert all(len(share) for share in shares(division))
        if partition == "writer":
            for share, writer in zip(shares(division), division.partition.writers, strict=True):
                left = np.setdiff1d(np.flatnonzero(RAW.train_writers == writer), held)
                np.testing.assert_array_equal(np.sort(share), left)
        iid = divide(settings(*held_out, "task.partition=iid", devices=5), RAW, Streams(seed))
        np.testing.assert_array_equal(division.validation, iid.validation)  # whatever the partition
        np.testing.assert_array_equal(division.public, iid.public)


def test_held_out_samples_count_for_their_writer() -> None:
    """A writer of enough samples stays one though a part of them is held out; what is held out is of all writers."""
    division = divide(settings("task.validation_share=0.3"), RAW, Streams(0))
    assert set(division.partition.writers.tolist()) == ENOUGH
    assert set(RAW.train_writers[division.validation].tolist()) - ENOUGH


def test_more_devices_than_samples_are_refused() -> None:
    n = len(RAW.train_targets)
    with pytest.raises(UserError, match=rf"run\.devices: {n + 1} devices, but only {n} training samples"):
        divide(settings("task.partition=iid", devices=n + 1), RAW, Streams(0))
    assert len(divide(settings("task.partition=iid", devices=n), RAW, Streams(0)).partition.sizes) == n
    with pytest.raises(UserError, match=r"only 0 training samples \(160 less 80 for validation and 100 public"):
        divide(settings("task.validation_share=0.5", "task.public_samples=100"), RAW, Streams(0))


def test_a_task_has_the_samples_of_its_division() -> None:
    """Images and labels of the same rows: in the data of a writer's device, held out, public, and tested on."""
    given = settings("task.validation_share=0.1", "task.public_samples=7", dataset="mnist", devices=3)
    task, division = build_task(given, RAW, Streams(1)), divide(given, RAW, Streams(1))
    assert 0 < len(division.test) < len(RAW.test_targets)
    for samples, rows, first in [
        (task.train, np.arange(len(RAW.train_targets)), 0),
        (task.validation, division.validation, 0),
        (task.public, division.public, 0),
        (task.test, division.test, 128),
    ]:
        np.testing.assert_array_equal(samples.inputs[:, 0, 0, 0].numpy(), rows)
        np.testing.assert_array_equal(samples.targets.numpy(), rows % 10)
        assert np.all(samples.inputs[:, 0, 1:].numpy() == first)
    np.testing.assert_array_equal(task.partition.indices, division.partition.indices)
    whole = build_task(settings("task.partition=iid", dataset="mnist"), RAW, Streams(1))
    np.testing.assert_array_equal(whole.test.inputs.numpy(), RAW.test_inputs)


@pytest.mark.parametrize("name", [2**31 - 1, -1])
def test_any_number_may_name_a_writer(name: int) -> None:
    """Writers are named by the source; QMNIST's numbers are 4-byte integers."""
    renamed = replace(RAW, train_writers=np.where(RAW.train_writers == 9, name, RAW.train_writers), test_writers=None)
    given = settings(dataset="mnist", devices=6)
    assert peak_of(lambda: divide(given, renamed, Streams(0))) < 10_000_000
    assert name in divide(given, renamed, Streams(0)).partition.writers


def test_writers_without_a_test_sample_are_refused() -> None:
    """They would leave nothing to test on."""
    raw = replace(RAW, test_writers=np.full(len(RAW.test_targets), 10_000, dtype=np.int64))
    with pytest.raises(UserError, match=r"the 5 writers .* no test samples"):
        divide(settings("task.partition=writer", "task.min_samples=0", devices=5), raw, Streams(3))
