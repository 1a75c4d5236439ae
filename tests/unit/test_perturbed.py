"""Fed-SPA's local steps against a plain loop over steps and samples, on data of three unequal devices."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from airfl.config import Settings
from airfl.errors import UserError
from airfl.local import sample_layers
from airfl.local.batches import NOBODY, independent_batches
from airfl.local.flat import FlatModel
from airfl.local.layers.convolution import Convolution
from airfl.local.layers.linear import Linear
from airfl.local.perturbed import PerturbedTrainer, median_of, noise_of
from airfl.local.trainer import LocalTrainer
from airfl.local.work import PerturbedSgd
from airfl.stages.masks import own_coordinates
from airfl.store import Store
from airfl.streams import Purpose, Streams
from airfl.tasks.partition import Partition
from airfl.tasks.task import Samples, Task

STREAMS, CPU = Streams(6), torch.device("cpu")
SIZES = np.array([9, 16, 3])
ALL = np.arange(3)
ROUND, BATCH, KEPT = 3, 4, 20
CLIP = 0.1


class Flat(nn.Module):
    """A model whose loss does not depend on its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(500))

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [batch, 3]."""
        return inputs.flatten(1)[:, :3] + 0 * self.weight.sum()


def task_of(model: nn.Module | None = None) -> Task:
    """Twenty-eight samples in a shuffled order, divided into `SIZES`; 47 parameters unless a model is given."""
    generator = torch.Generator().manual_seed(1)
    train = Samples(2 * torch.randn(28, 1, 2, 3, generator=generator), torch.randint(0, 3, (28,), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        small = nn.Sequential(nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    partition = Partition(np.random.default_rng(0).permutation(28), np.concatenate([[0], np.cumsum(SIZES)]))
    return Task(train, train, train, train, partition, (), (), model or small)


def settings_of(**local: Any) -> Settings:
    """Three devices, two a round; five steps of 4 samples."""
    given = {"steps": 5, "batch_size": BATCH, "clip_norm": 1.0, "learning_rate": 0.3, **local}
    return Settings.model_validate({"run": {"devices": 3, "selected": 2, "rounds": 9}, "local": given})


def trainer_of(task: Task, kept: int, multiplier: float, clip: float | None, **local: Any) -> PerturbedTrainer:
    """Of three devices."""
    trainer = PerturbedSgd(kept, multiplier, clip).build(settings_of(**local), task, STREAMS, CPU)
    assert isinstance(trainer, PerturbedTrainer)
    return trainer


def updates_of(trainer: PerturbedTrainer, start: Tensor, devices: Any = ALL, round_index: int = ROUND) -> Tensor:
    """Of some devices in a round, [devices, d]."""
    return trainer.updates(start, np.asarray(devices, dtype=np.int64), round_index, Store())


def dimension_of(task: Task) -> int:
    """d."""
    return FlatModel(task.model).dimension


def start_of(task: Task) -> Tensor:
    """Parameters that are not those the module was built with."""
    initial = FlatModel(task.model).initial()
    return initial + 0.3 * torch.randn(initial.shape, generator=torch.Generator().manual_seed(0))


def gradient(task: Task, vector: Tensor, row: int) -> Tensor:
    """Of one sample's loss, by plain autograd."""
    module = copy.deepcopy(task.model)
    nn.utils.vector_to_parameters(vector.clone(), module.parameters())
    loss = F.cross_entropy(module(task.train.inputs[row : row + 1]), task.train.targets[row : row + 1])
    slopes = torch.autograd.grad(loss, list(module.parameters()))
    return torch.cat([slope.reshape(-1) for slope in slopes])


def reference(task: Task, device: int, mask: Tensor, clip: float, rate: float, momentum: float, steps: int) -> Tensor:
    """Eq. 5 without noise, step by step and sample by sample."""
    start = start_of(task)
    theta, velocity = start.clone(), torch.zeros_like(start)
    plan = independent_batches(STREAMS, ROUND, ALL, SIZES, 16, steps, BATCH)[device]
    for batch in plan:
        rows = task.partition.indices[task.partition.offsets[device] + batch[batch != NOBODY]]
        mean = torch.stack([gradient(task, theta, int(row)).clamp(-clip, clip) for row in rows]).mean(dim=0)
        velocity = momentum * velocity + mask * mean * len(mask) / mask.sum()
        theta = theta - rate * velocity
    return theta - start


def mask_of(device: int, dimension: int, kept: int) -> Tensor:
    """1 on the kept coordinates, 0 off them."""
    mask = torch.zeros(dimension)
    mask[torch.from_numpy(own_coordinates(STREAMS, ROUND, device, dimension, kept))] = 1
    return mask


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums of this size are slower on two threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def task() -> Task:
    """A small convolutional network."""
    return task_of()


@pytest.mark.parametrize("kept", [47, KEPT])
@pytest.mark.parametrize("clip", [CLIP, math.inf])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_without_noise_are_those_of_the_paper(task: Task, kept: int, clip: float, momentum: float) -> None:
    """And with all coordinates and no clip those of plain SGD, whatever the batch of a device with 3 samples."""
    trainer = trainer_of(task, kept, 0.0, clip, momentum=momentum)
    found = updates_of(trainer, start_of(task))
    masks = [mask_of(device, 47, kept) if kept < 47 else torch.ones(47) for device in range(3)]
    wanted = torch.stack([reference(task, i, mask, clip, 0.3, momentum, 5) for i, mask in enumerate(masks)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)
    assert float(wanted.norm(dim=1).min()) > 0.1


def test_the_clip_of_these_tests_bites_some_coordinates_and_not_all(task: Task) -> None:
    sizes = torch.stack([gradient(task, start_of(task), row).abs() for row in range(28)])
    assert 0.1 < float((sizes > CLIP).float().mean()) < 0.9


def test_whole_batches_without_clip_and_noise_are_the_training_of_fedavg(task: Task) -> None:
    """Batches of all samples are the same in both: three epochs of one step each."""
    settings = settings_of(steps=0, epochs=3, batch_size=16, momentum=0.5, engine="layers")
    plain = LocalTrainer(settings, task, STREAMS, CPU)
    trainer = PerturbedSgd(47, 0.0, math.inf).build(settings, task, STREAMS, CPU)
    found = trainer.updates(start_of(task), ALL, ROUND, Store())
    wanted = torch.cat([plain.updates(start_of(task), ALL[i : i + 1], ROUND, Store()) for i in range(3)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)
    np.testing.assert_array_equal(trainer.evaluations(ALL, ROUND), plain.evaluations(ALL, ROUND))


def test_without_a_clip_no_gradient_of_a_single_sample_is_computed(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(task, 47, 0.0, math.inf)
    monkeypatch.setattr(Convolution, "each", None)
    monkeypatch.setattr(Linear, "each", None)
    monkeypatch.setattr(sample_layers, "clamped_outer", None)
    assert float(updates_of(trainer, start_of(task)).norm()) > 0


def test_the_learning_rate_follows_its_schedule(task: Task) -> None:
    """One step in round 3 with eta/sqrt(t + 1) is half of a step with eta."""
    plain = updates_of(trainer_of(task, KEPT, 0.5, CLIP, steps=1), start_of(task))
    slower = updates_of(trainer_of(task, KEPT, 0.5, CLIP, steps=1, schedule="inverse-sqrt"), start_of(task))
    torch.testing.assert_close(slower, plain / 2, rtol=0, atol=1e-6)


def test_updates_are_zero_off_a_mask_that_stays_over_the_steps(task: Task) -> None:
    """With noise on every kept coordinate."""
    found = updates_of(trainer_of(task, KEPT, 1.0, CLIP), start_of(task))
    masks = torch.stack([mask_of(device, 47, KEPT) for device in range(3)])
    assert torch.equal((found != 0).float(), masks)
    assert not torch.equal(masks[0], masks[1])


@pytest.mark.parametrize("kept", [500, 60])
def test_noise_on_kept_coordinates_is_as_strong_as_said(kept: int) -> None:
    """Gradients of 0: an update is -eta d/k times the sum of tau noises, of k entries each, of the device's stream."""
    task, tau, multiplier = task_of(Flat()), 7, 1.5
    start = FlatModel(task.model).initial()
    found = updates_of(trainer_of(task, kept, multiplier, CLIP, steps=tau), start)
    for device, size in enumerate(SIZES):
        std = multiplier * CLIP * math.sqrt(kept) / min(BATCH, size)
        drawn = STREAMS.device_generator(Purpose.LOCAL_NOISE, ROUND, device)
        noise = sum(drawn.standard_normal(kept, dtype=np.float32) for _ in range(tau))
        coordinates = own_coordinates(STREAMS, ROUND, device, 500, kept) if kept < 500 else np.arange(500)
        wanted = -0.3 * 500 / kept * std * noise
        np.testing.assert_allclose(found[device, coordinates].numpy(), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("numbers", [1, 100, 150, 1 << 22])
def test_noise_may_be_drawn_for_several_steps_at_a_time(
    task: Task, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6, 8 and 2 steps of three devices: 20 coordinates each, step after step."""
    trainer = trainer_of(task, KEPT, 1.0, CLIP, steps=0, epochs=2)
    wanted = updates_of(trainer, start_of(task))
    monkeypatch.setattr("airfl.local.perturbed.NOISE_NUMBERS", numbers)
    torch.testing.assert_close(updates_of(trainer, start_of(task)), wanted, rtol=0, atol=0)
    steps, generators = np.array([8, 6, 2]), [np.random.default_rng(seed) for seed in range(3)]
    noises = list(noise_of(generators, steps, KEPT))
    assert len(noises) == 8
    for device, own in enumerate(steps):
        drawn = np.random.default_rng(device).standard_normal((own, KEPT), dtype=np.float32)
        for step in range(own):
            np.testing.assert_array_equal(noises[step][device].numpy(), drawn[step])


def test_the_noise_of_one_step_is_normal() -> None:
    """n = 3 devices x 500 coordinates x 10 rounds: mean and variance within 5 standard errors."""
    task = task_of(Flat())
    start = FlatModel(task.model).initial()
    trainer = trainer_of(task, 500, 0.8, CLIP, steps=1)
    std = 0.3 * 0.8 * CLIP * math.sqrt(500) / np.minimum(SIZES, BATCH)[None, :, None]
    noise = np.stack([updates_of(trainer, start, round_index=t).numpy() for t in range(10)]) / std
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    assert abs((noise**2).mean() - 1) < 5 * math.sqrt(2 / noise.size)


def test_replacing_a_sample_moves_a_step_by_no_more_than_the_sensitivity(task: Task) -> None:
    """2 c sqrt(k)/b on the kept coordinates: of the last device, whose 3 samples are its batch."""
    other = copy.deepcopy(task)
    other.train.inputs[task.partition.indices[task.partition.offsets[2]]] *= -1000
    pair = [updates_of(trainer_of(one, KEPT, 0.0, 0.01, steps=1), start_of(task), [2]) for one in (task, other)]
    moved = float((pair[0] - pair[1]).norm()) / (0.3 * 47 / KEPT)
    assert 0 < moved <= 2 * 0.01 * math.sqrt(KEPT) / 3 * (1 + 1e-4)


def test_a_device_does_not_depend_on_its_chunk_and_a_seed_gives_one_result(task: Task) -> None:
    trainer, start = trainer_of(task, KEPT, 1.0, CLIP), start_of(task)
    before = start.clone()
    together = updates_of(trainer, start)
    for device in (2, 0, 1):
        alone = updates_of(trainer, start, [device])[0]
        torch.testing.assert_close(alone, together[device], rtol=0, atol=5e-6)
    torch.testing.assert_close(updates_of(trainer, start, [2, 0]), together[[2, 0]], rtol=0, atol=5e-6)
    assert torch.equal(updates_of(trainer_of(task, KEPT, 1.0, CLIP), start), together)
    assert torch.equal(start, before)
    assert not torch.equal(updates_of(trainer, start, round_index=ROUND + 1), together)
    assert updates_of(trainer, start, []).shape == (0, 47)


@pytest.mark.parametrize("kept", [47, KEPT])
@pytest.mark.parametrize(("engine", "used", "chunk"), [("auto", "layers", 2), ("vmap", "vmap", 2), ("loop", "loop", 1)])
def test_all_engines_give_the_same_numbers(task: Task, engine: str, used: str, chunk: int, kept: int) -> None:
    """Two epochs of batches of 4 of 9, 16 and 3 samples: 6, 8 and 2 steps."""
    local = {"steps": 0, "epochs": 2, "momentum": 0.5}
    trainer, plain = (trainer_of(task, kept, 0.5, CLIP, **local, engine=name) for name in (engine, "loop"))
    assert (trainer.engine, trainer.chunk) == (used, chunk)
    wanted = torch.cat([updates_of(plain, start_of(task), [device]) for device in range(3)])
    torch.testing.assert_close(updates_of(trainer, start_of(task)), wanted, rtol=0, atol=5e-6)


@pytest.mark.parametrize("kept", [47, KEPT])
def test_devices_make_as_many_steps_as_their_samples_ask_for(task: Task, kept: int) -> None:
    """3, 4 and 1 steps: without noise those of the paper, in whatever order the devices come."""
    trainer = trainer_of(task, kept, 0.0, CLIP, steps=0, epochs=1, momentum=0.9)
    found = updates_of(trainer, start_of(task))
    for order in ([0, 2, 1], [1, 2, 0]):
        torch.testing.assert_close(updates_of(trainer, start_of(task), order), found[order], rtol=0, atol=5e-6)
    for device, steps in enumerate((3, 4, 1)):
        mask = mask_of(device, 47, kept) if kept < 47 else torch.ones(47)
        wanted = reference(task, device, mask, CLIP, 0.3, 0.9, steps)
        torch.testing.assert_close(found[device], wanted, rtol=0, atol=5e-6)


def test_samples_that_are_seen_often_are_normalised_once(task: Task) -> None:
    """The same steps, whether inputs are normalised step by step or before."""
    pixels = Samples(torch.arange(28 * 6, dtype=torch.uint8).view(28, 1, 2, 3), task.train.targets)
    raw = replace(task, train=pixels, mean=(0.3,), std=(0.2,))
    ready = replace(task, train=Samples((pixels.inputs.float() / 255 - 0.3) / 0.2, pixels.targets))
    for steps in (1, 30):
        pair = [updates_of(trainer_of(one, 47, 0.0, CLIP, steps=steps), start_of(task)) for one in (raw, ready)]
        torch.testing.assert_close(*pair, rtol=0, atol=2e-5)


def test_threads_draw_the_same_masks_and_noise(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, and as many as devices."""
    trainer = trainer_of(task, KEPT, 1.0, CLIP)
    wanted = updates_of(trainer, start_of(task))
    monkeypatch.setattr("airfl.local.draws.PARALLEL", 1)
    for threads in (2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert torch.equal(updates_of(trainer, start_of(task)), wanted)


def test_nothing_is_kept(task: Task) -> None:
    store, work = Store(), PerturbedSgd(KEPT, 1.0, CLIP)
    work.build(settings_of(), task, STREAMS, CPU).updates(start_of(task), ALL, 0, store)
    assert store.nbytes == 0
    assert work.kept(47, 16) == ()


def test_evaluations_are_steps_times_batch(task: Task) -> None:
    """Five steps; two epochs of batches of 4, which are 3, 4 and 1 steps."""
    steps, epochs = trainer_of(task, KEPT, 1.0, CLIP), trainer_of(task, KEPT, 1.0, CLIP, steps=0, epochs=2)
    np.testing.assert_array_equal(steps.evaluations(ALL, 0), [20, 20, 15])
    np.testing.assert_array_equal(epochs.evaluations(ALL, 0), [24, 32, 6])


def initial_values(task: Task) -> list[np.ndarray]:
    """Absolute gradients of the initial round, those of each device in a row."""
    found = []
    for device in np.sort(np.argsort(STREAMS.generator(Purpose.INITIAL_ROUND).random(3))[:2]).tolist():
        uniforms = STREAMS.device_generator(Purpose.INITIAL_ROUND, None, device).random(int(SIZES[device]))
        rows = task.partition.indices[task.partition.offsets[device] + np.sort(np.argsort(uniforms)[:BATCH])]
        gradients = [gradient(task, FlatModel(task.model).initial(), int(row)).abs().numpy() for row in rows]
        found.append(np.concatenate(gradients))
    return found


def test_without_a_clip_it_is_the_median_of_an_initial_round(task: Task) -> None:
    """Two of three devices, a mini-batch each, at the initial model: the same whenever it is asked for."""
    wanted = float(np.median(np.concatenate(initial_values(task))))
    assert trainer_of(task, KEPT, 1.0, None).coordinate_clip == pytest.approx(wanted, rel=1e-5)
    trained = trainer_of(task, KEPT, 1.0, None)
    found = updates_of(trained, start_of(task), round_index=5)
    assert trained.coordinate_clip == pytest.approx(wanted, rel=1e-5)
    given = trainer_of(task, KEPT, 1.0, trained.coordinate_clip)
    assert torch.equal(found, updates_of(given, start_of(task), round_index=5))


def test_the_median_of_a_large_model_is_taken_over_some_coordinates(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fourth of 376, for 120 or fewer."""
    monkeypatch.setattr("airfl.local.perturbed.MEDIAN_NUMBERS", 120)
    wanted = float(np.median(np.concatenate([values[::4] for values in initial_values(task)])))
    assert trainer_of(task, KEPT, 1.0, None).coordinate_clip == pytest.approx(wanted, rel=1e-5)


def test_a_median_of_zero_gives_way_to_that_of_what_is_not_zero() -> None:
    assert median_of(np.array([0, 0, 0, 0, 1, 2, 4], dtype=np.float32)) == 2
    assert median_of(np.array([0, 3, 1, 2, 5], dtype=np.float32)) == 2
    for values in ([0.0, 0.0], [math.nan, 1.0], [math.inf, math.inf]):
        with pytest.raises(UserError, match=r"^scheme\.coordinate_clip: .*; give a number$"):
            median_of(np.array(values, dtype=np.float32))


def test_noise_needs_a_finite_clip(task: Task) -> None:
    with pytest.raises(ValueError, match="needs a finite coordinate clip"):
        trainer_of(task, KEPT, 1.0, math.inf)
