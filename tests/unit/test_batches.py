"""Assignment of samples to the steps of a device, how many it processes, and what that costs."""

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.config.run import ComputeSettings
from airfl.core.computation import Computation
from airfl.learning.batches import NOBODY, BatchRule, plan_batches
from airfl.runtime.streams import Streams

STREAMS = Streams(2)
DEVICES, SIZES = np.array([3, 8, 9]), np.array([10, 4, 7])


def plan(rule: BatchRule, devices: NDArray[np.int64] = DEVICES, round_index: int = 0) -> NDArray[np.int64]:
    """The plan of some of the devices above; the largest of the population has 10 samples."""
    sizes = SIZES[np.searchsorted(DEVICES, devices)]
    return plan_batches(rule, STREAMS, round_index, devices, sizes, largest=10)


def seen(steps: NDArray[np.int64]) -> list[int]:
    """The samples of one device in the order in which it sees them."""
    return [int(sample) for sample in steps.ravel() if sample != NOBODY]


def passes_of(steps: NDArray[np.int64], size: int) -> list[tuple[int, ...]]:
    """The passes of one device, of which the last may be short; some differ."""
    samples = seen(steps)
    passes = [tuple(samples[start : start + size]) for start in range(0, len(samples), size)]
    assert len(set(passes)) > 1
    return passes


def test_every_epoch_is_a_permutation_of_the_devices_samples() -> None:
    """The last batch of a pass is smaller and short devices are padded; padding stands at the end of a batch."""
    steps = plan(BatchRule(epochs=3, steps=0, batch_size=4))
    for device, size in enumerate(SIZES):
        assert [sorted(one) for one in passes_of(steps[device], size)] == [list(range(size))] * 3
    present = (steps != NOBODY).sum(axis=2)
    np.testing.assert_array_equal(present, [[4, 4, 2] * 3, [4, 4, 4] + [0] * 6, [4, 3] * 3 + [0] * 3])
    assert np.all(np.diff((steps == NOBODY).astype(int), axis=2) >= 0)


def test_steps_go_through_pass_after_pass() -> None:
    """Seven steps of 4: a device with 4 samples passes over them seven times, one with 10 twice and a third."""
    steps = plan(BatchRule(epochs=0, steps=7, batch_size=4))
    present = (steps != NOBODY).sum(axis=2)
    np.testing.assert_array_equal(present, [[4, 4, 2, 4, 4, 2, 4], [4] * 7, [4, 3, 4, 3, 4, 3, 4]])
    for device, size in enumerate(SIZES):
        passes = passes_of(steps[device], size)
        assert all(sorted(one) == list(range(size)) for one in passes if len(one) == size)
        assert all(len(set(one)) == len(one) for one in passes)
    few = plan(BatchRule(epochs=0, steps=2, batch_size=3))  # fewer than a pass
    assert few.shape == (3, 2, 3)
    assert all(len(set(seen(one))) == len(seen(one)) for one in few)


@pytest.mark.parametrize("rule", [BatchRule(2, 0, 4), BatchRule(0, 7, 4), BatchRule(1, 0, 1), BatchRule(0, 3, 64)])
def test_a_devices_order_does_not_depend_on_the_chunk(rule: BatchRule) -> None:
    together = plan(rule)
    for row, device in enumerate(DEVICES):
        alone = plan(rule, DEVICES[[row]])[0]
        np.testing.assert_array_equal(alone, together[row, : len(alone)])
        assert np.all(together[row, len(alone) :] == NOBODY)
        backwards = plan_batches(rule, STREAMS, 0, DEVICES[::-1], SIZES[::-1], 10)
        np.testing.assert_array_equal(backwards[list(DEVICES[::-1]).index(device)], together[row])


def test_devices_and_rounds_are_shuffled_differently() -> None:
    plans = [plan_batches(BatchRule(1, 0, 10), STREAMS, t, np.arange(5), np.full(5, 10), 10) for t in range(5)]
    assert len({tuple(seen(steps)) for plan in plans for steps in plan}) == 25


def test_every_order_is_equally_likely() -> None:
    """n = 6,000 devices of 3 samples over 6 orders: each count within 5 standard errors of 1,000."""
    n = 6000
    steps = plan_batches(BatchRule(1, 0, 3), STREAMS, 0, np.arange(n), np.full(n, 3), largest=5)
    counts = np.unique(steps[:, 0], axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.all(np.abs(counts / n - 1 / 6) < 5 * np.sqrt(1 / 6 * 5 / 6 / n))


def test_a_batch_is_no_wider_than_the_largest_device() -> None:
    """And the plan of nobody is empty."""
    assert plan(BatchRule(epochs=1, steps=0, batch_size=64)).shape == (3, 1, 10)
    nobody = np.empty(0, dtype=np.int64)
    for rule in (BatchRule(2, 0, 4), BatchRule(0, 5, 4)):
        assert plan_batches(rule, STREAMS, 0, nobody, nobody, 10).shape[0] == 0


def test_energy_and_time_of_cycles() -> None:
    """3 and 5 samples of 1,000 cycles at 2 GHz: 1e-28 x 4e18 J and 0.5 ns a cycle; devices work side by side."""
    settings = ComputeSettings(cycles_per_sample=1000.0, frequency_hz=2e9, capacitance=1e-28)
    record = Computation.of(settings, np.array([3, 5])).record()
    assert record["compute_energy_j"] == pytest.approx(8 * 4e-7)
    assert record["compute_time_s"] == pytest.approx(2.5e-6)
    np.testing.assert_array_equal(record["gradient_evaluations"], [3, 5])


@pytest.mark.parametrize(
    ("epochs", "steps", "samples", "taken"),
    # Batches of 4, 4 and 2; a pass and two batches.
    [(2, 0, 20, 6), (0, 2, 8, 2), (0, 3, 10, 3), (0, 5, 18, 5), (0, 6, 20, 6)],
)
def test_a_pass_over_ten_samples_ends_with_a_batch_of_two(epochs: int, steps: int, samples: int, taken: int) -> None:
    rule, sizes = BatchRule(epochs, steps, batch_size=4), np.array([10])
    assert (rule.samples_of(sizes).tolist(), rule.steps_of(sizes).tolist()) == ([samples], [taken])
