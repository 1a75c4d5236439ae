"""Cost of local computation, computed by hand, and number of samples that a device processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from airfl.config.run import ComputeSettings
from airfl.core.computation import Computation
from airfl.learning.batches import NOBODY, BatchRule
from airfl.learning.estimators import Chunk
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.models.modules.logistic import Logistic
from airfl.learning.tasks.partitions import Partition
from airfl.runtime.store import Store


def test_energy_and_time_of_cycles() -> None:
    """3 and 5 samples of 1,000 cycles at 2 GHz: 1e-28 x 4e18 J and 0.5 ns a cycle; devices work side by side."""
    settings = ComputeSettings(cycles_per_sample=1000.0, frequency_hz=2e9, capacitance=1e-28)
    record = Computation.of(settings, np.array([3, 5])).record()
    assert record["compute_energy_j"] == pytest.approx(8 * 4e-7)
    assert record["compute_time_s"] == pytest.approx(2.5e-6)
    np.testing.assert_array_equal(record["gradient_evaluations"], [3, 5])


@pytest.mark.parametrize(
    ("epochs", "steps", "gone_through", "taken"),
    # Batches of 4, 4 and 2; a pass and two batches.
    [(2, 0, 20, 6), (0, 2, 8, 2), (0, 3, 10, 3), (0, 5, 18, 5), (0, 6, 20, 6)],
)
def test_a_pass_over_ten_samples_ends_with_a_batch_of_two(
    epochs: int, steps: int, gone_through: int, taken: int
) -> None:
    rule, sizes = BatchRule(epochs, steps, batch_size=4), np.array([10])
    assert rule.samples_of(sizes).tolist() == [gone_through]
    assert rule.steps_of(sizes).tolist() == [taken]


def test_padding_of_a_mini_batch_is_no_gradient() -> None:
    """A device of two samples beside one of four, in batches of three."""
    samples = Samples(torch.zeros(6, 123), torch.zeros(6, dtype=torch.int64))
    partition = Partition(np.arange(6), np.array([0, 2, 6]))
    task = DividedTask(samples, samples, samples, samples, partition, (), (), Logistic())
    gradients: Any = SimpleNamespace(task=task, means=lambda points, rows, bound: torch.zeros(2, 123))
    positions, evaluations = np.array([[0, 1, NOBODY], [0, 2, 3]]), np.zeros(2, dtype=np.int64)
    chunk = Chunk(gradients, 1.0, torch.zeros(123), np.arange(2), 0, positions, False, Store(), evaluations)
    chunk.at_batch(chunk.parameters)
    assert evaluations.tolist() == [2, 3]
