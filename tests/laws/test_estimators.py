"""Expectation of SoteriaFL's gradient estimates, and independence of mini-batches."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from airfl.config import Settings
from airfl.learning.batches import NOBODY, independent_batches
from airfl.learning.flat import FlatModel
from airfl.learning.per_sample import SampleGradients
from airfl.learning.task import DividedTask, Samples
from airfl.learning.tasks.partitions import Partition
from airfl.learning.work import Estimator, GradientEstimate
from airfl.runtime.store import Store
from airfl.runtime.streams import Purpose, Streams
from tests.laws.samples import assert_mean

STREAMS, CPU = Streams(8), torch.device("cpu")
ONLY = np.array([0])
CLIP = 1.0
N = 1000


@pytest.fixture(scope="module")
def task() -> DividedTask:
    """Twelve samples that every device has, and a linear model of 15 parameters."""
    generator = torch.Generator().manual_seed(2)
    train = Samples(torch.randn(12, 4, generator=generator), torch.randint(0, 3, (12,), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
    partition = Partition(np.tile(np.arange(12), N), 12 * np.arange(N + 1))
    return DividedTask(train, train, train, train, partition, (), (), model)


def draws(task: DividedTask, estimator: Estimator, replacement: bool = False) -> tuple[Tensor, Tensor]:
    """Estimates of all devices at x, with batches of 3 and a state made at other x, [N, d]; and the whole gradient."""
    run, local = {"devices": N, "selected": N, "rounds": 1}, {"steps": 1, "batch_size": 3, "clip_norm": 1.0}
    settings, store = Settings.model_validate({"run": run, "local": local}), Store()
    work = GradientEstimate(estimator, CLIP, refresh=0.3, replacement=replacement)
    trainer = work.build(settings.local, settings.run, task, STREAMS, CPU)
    for t in range(3):
        trainer.updates(point(task, t), np.arange(N), t, store)
    return -trainer.updates(point(task, 3), np.arange(N), 3, store).double(), gradients(task).mean(dim=0)


def point(task: DividedTask, number: int) -> Tensor:
    """The initial parameters, moved."""
    initial = FlatModel(task.model).initial()
    return initial + 0.5 * torch.randn(initial.shape, generator=torch.Generator().manual_seed(number))


def gradients(task: DividedTask) -> Tensor:
    """All clipped gradients at x, [samples, d]."""
    return SampleGradients.of(FlatModel(task.model), task).each(point(task, 3), torch.arange(12), CLIP).double()


@pytest.mark.parametrize(
    ("estimator", "replacement"), [("sgd", False), ("svrg", False), ("saga", False), ("sgd", True), ("svrg", True)]
)
def test_estimates_are_unbiased(task: DividedTask, estimator: Estimator, replacement: bool) -> None:
    """n = 1,000 devices with the same data: 15 entries within 5 standard errors of the whole (clipped) gradient."""
    found, wanted = draws(task, estimator, replacement)
    errors = found.std(dim=0) / np.sqrt(N)
    assert float(errors.min()) > 1e-4
    assert float(((found.mean(dim=0) - wanted).abs() / errors).max()) < 5


def test_the_variance_of_sgd_is_that_of_sampling_without_replacement(task: DividedTask) -> None:
    """E||g~ - g||^2 = (m - b)/(b (m - 1)) (1/m) sum ||g_j - g||^2; n = 1,000, within 5 standard errors."""
    m, b = 12, 3
    found, whole = draws(task, "sgd")
    wanted = (m - b) / (b * (m - 1)) * float((gradients(task) - whole).square().sum(dim=1).mean())
    assert_mean((found - whole).square().sum(dim=1), wanted)


def test_the_variance_of_sgd_with_replacement_is_larger(task: DividedTask) -> None:
    """E||g~ - g||^2 = (1/(b m)) sum ||g_j - g||^2; n = 1,000, within 5 standard errors."""
    m, b = 12, 3
    found, whole = draws(task, "sgd", replacement=True)
    wanted = float((gradients(task) - whole).square().sum(dim=1).sum()) / (b * m)
    assert_mean((found - whole).square().sum(dim=1), wanted)


def test_every_batch_is_equally_likely_and_batches_are_independent() -> None:
    """10 subsets of 2 of 5 in n = 20,000 steps, and the 100 pairs of successive ones: chi-square p-value > 1e-4."""
    n, subsets = 20_000, list(combinations(range(5), 2))
    plan = independent_batches(STREAMS, 0, ONLY, np.array([5]), 7, n, 2)[0]
    numbers = np.array([subsets.index((int(one), int(other))) for one, other in plan])
    assert stats.chisquare(np.bincount(numbers, minlength=10)).pvalue > 1e-4
    assert stats.chisquare(np.bincount(10 * numbers[0::2] + numbers[1::2], minlength=100)).pvalue > 1e-4


def test_with_replacement_every_tuple_is_equally_likely() -> None:
    """The 25 pairs of 5 samples in n = 20,000 steps, in ascending order: chi-square p-value > 1e-4."""
    n = 20_000
    plan = independent_batches(STREAMS, 0, ONLY, np.array([5]), 7, n, 2, replacement=True)[0]
    assert np.all(np.diff(plan, axis=1) >= 0)
    pairs = [(one, other) for one in range(5) for other in range(one, 5)]
    counts = [np.sum((plan == pair).all(axis=1)) for pair in pairs]
    shares = [n / 25 * (1 if one == other else 2) for one, other in pairs]
    assert stats.chisquare(counts, shares).pvalue > 1e-4


def test_devices_draw_for_themselves() -> None:
    """Whoever else is in the chunk, in whatever order, for however many steps; no sample twice in a batch."""
    devices, sizes = np.array([3, 8, 9]), np.array([10, 2, 7])
    together = independent_batches(STREAMS, 1, devices, sizes, 12, 6, 4)
    assert together.shape == (3, 6, 4)
    np.testing.assert_array_equal((together != NOBODY).sum(axis=2), np.minimum(sizes, 4)[:, None].repeat(6, axis=1))
    assert np.all(together < sizes[:, None, None])
    assert np.all(np.diff(together[0], axis=1) > 0)
    for row, device in enumerate(devices):
        alone = independent_batches(STREAMS, 1, devices[[row]], sizes[[row]], 12, 6, 4)
        np.testing.assert_array_equal(alone[0], together[row])
        longer = independent_batches(STREAMS, 1, devices[[row]], sizes[[row]], 12, 900, 4)
        np.testing.assert_array_equal(longer[0, :6], together[row])
        assert not np.array_equal(independent_batches(STREAMS, 2, ONLY + device, sizes[:1], 12, 6, 4), together[:1])
    assert np.all(np.diff(together[1, :, :2], axis=1) == 1)
    nobody = np.empty(0, dtype=np.int64)
    assert independent_batches(STREAMS, 1, nobody, nobody, 12, 6, 4).shape == (0, 6, 4)


def test_long_plans_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers, however many are drawn at a time."""
    wanted = independent_batches(STREAMS, 0, ONLY, np.array([50]), 50, 30, 5)
    monkeypatch.setattr("airfl.runtime.sampling.BLOCK", 350)
    np.testing.assert_array_equal(independent_batches(STREAMS, 0, ONLY, np.array([50]), 50, 30, 5), wanted)


def test_of_many_samples_those_with_the_smallest_numbers_are_taken() -> None:
    """Many of them: short stretches are sorted whole, and would not show it."""
    plan = independent_batches(STREAMS, 4, ONLY + 2, np.array([3000]), 5000, 20, 1000)[0]
    uniforms = STREAMS.device_generator(Purpose.BATCH, 4, 2).random((20, 3000))
    np.testing.assert_array_equal(plan, np.sort(np.argsort(uniforms, axis=1)[:, :1000], axis=1))
