"""Fed-SPA's local steps against a plain loop over steps and samples, on data of three unequal devices."""

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from airfl.config import Settings
from airfl.errors import UserError
from airfl.learning import sample_layers
from airfl.learning.batches import NOBODY, independent_batches
from airfl.learning.flat import FlatModel
from airfl.learning.layers.convolution import Convolution
from airfl.learning.layers.linear import Linear
from airfl.learning.perturbed import PerturbedTrainer, median_of, noise_of
from airfl.learning.task import DividedTask, Samples
from airfl.learning.trainer import LocalTrainer
from airfl.learning.work import PerturbedSgd
from airfl.runtime import philox
from airfl.runtime.store import Store
from airfl.runtime.streams import Purpose, Streams
from airfl.uplinks.stages.masks import per_device_coordinates
from tests.local_steps import CPU, divided_task, own_rows, point, sample_gradient

STREAMS = Streams(6)
SIZES, ALL = np.array([9, 16, 3]), np.arange(3)
ROUND, BATCH, KEPT = 3, 4, 20
CLIP = 0.1


class Flat(nn.Module):
    """A model whose loss does not depend on its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(500))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.flatten(1)[:, :3] + 0 * self.weight.sum()


def task_of(model: nn.Module | None = None) -> DividedTask:
    """Twenty-eight samples; 47 parameters unless a model is given."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        small = nn.Sequential(nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    return divided_task(model or small, SIZES.tolist())


def settings_of(**local: Any) -> Settings:
    """Three devices, two a round; five steps of 4 samples."""
    given = {"steps": 5, "batch_size": BATCH, "clip_norm": 1.0, "learning_rate": 0.3, **local}
    return Settings.model_validate({"run": {"devices": 3, "selected": 2, "rounds": 9}, "local": given})


def trainer_of(task: DividedTask, kept: int, multiplier: float, clip: float | None, **local: Any) -> PerturbedTrainer:
    settings = settings_of(**local)
    trainer = PerturbedSgd(kept, multiplier, clip).build(settings.local, settings.run, task, STREAMS, CPU)
    assert isinstance(trainer, PerturbedTrainer)
    return trainer


def updates_of(trainer: PerturbedTrainer, start: Tensor, devices: Any = ALL, round_index: int = ROUND) -> Tensor:
    """Of some devices in a round, [devices, d]."""
    return trainer.updates(start, np.asarray(devices, dtype=np.int64), round_index, Store())


def reference(task: DividedTask, device: int, kept: int, clip: float, momentum: float, steps: int) -> Tensor:
    """Eq. 5 without noise, step by step and sample by sample."""
    start, mask = point(task, 0), mask_of(device, 47, kept)
    theta, velocity = start.clone(), torch.zeros_like(start)
    for batch in independent_batches(STREAMS, ROUND, ALL, SIZES, 16, steps, BATCH)[device]:
        rows = np.array(own_rows(task, device))[batch[batch != NOBODY]].tolist()
        mean = torch.stack([sample_gradient(task, theta, row).clamp(-clip, clip) for row in rows]).mean(dim=0)
        velocity = momentum * velocity + mask * mean * len(mask) / mask.sum()
        theta = theta - 0.3 * velocity
    return theta - start


def mask_of(device: int, dimension: int, kept: int) -> Tensor:
    mask = torch.zeros(dimension)
    mask[coordinates_of(device, dimension, kept)] = 1
    return mask


def coordinates_of(device: int, dimension: int, kept: int) -> Tensor:
    """Those that are kept: all, or the device's own."""
    own = (
        np.arange(dimension)
        if kept == dimension
        else per_device_coordinates(STREAMS, ROUND, device, dimension, kept).copy()
    )
    return torch.from_numpy(own)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def task() -> DividedTask:
    return task_of()


@pytest.mark.parametrize("kept", [47, KEPT])
@pytest.mark.parametrize("clip", [CLIP, math.inf])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_without_noise_are_those_of_the_paper(task: DividedTask, kept: int, clip: float, momentum: float) -> None:
    """And with all coordinates and no clip those of plain SGD, whatever the batch of a device with 3 samples."""
    found = updates_of(trainer_of(task, kept, 0.0, clip, momentum=momentum), point(task, 0))
    wanted = torch.stack([reference(task, device, kept, clip, momentum, 5) for device in range(3)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)
    assert float(wanted.norm(dim=1).min()) > 0.1


def test_the_clip_of_these_tests_bites_some_coordinates_and_not_all(task: DividedTask) -> None:
    sizes = torch.stack([sample_gradient(task, point(task, 0), row).abs() for row in range(28)])
    assert 0.1 < float((sizes > CLIP).float().mean()) < 0.9


def test_whole_batches_without_clip_and_noise_are_the_training_of_fedavg(task: DividedTask) -> None:
    """Batches of all samples are the same in both: three epochs of one step each."""
    settings = settings_of(steps=0, epochs=3, batch_size=16, momentum=0.5, engine="layers")
    plain = LocalTrainer(settings.local, settings.run, task, STREAMS, CPU)
    trainer = PerturbedSgd(47, 0.0, math.inf).build(settings.local, settings.run, task, STREAMS, CPU)
    found = trainer.updates(point(task, 0), ALL, ROUND, Store())
    wanted = torch.cat([plain.updates(point(task, 0), ALL[i : i + 1], ROUND, Store()) for i in range(3)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)
    np.testing.assert_array_equal(trainer.evaluations(ALL, ROUND), plain.evaluations(ALL, ROUND))


def test_without_a_clip_no_sample_has_its_gradient(task: DividedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(task, 47, 0.0, math.inf)
    monkeypatch.setattr(Convolution, "each", None)
    monkeypatch.setattr(Linear, "each", None)
    monkeypatch.setattr(sample_layers, "clamped_outer", None)
    assert float(updates_of(trainer, point(task, 0)).norm()) > 0


def test_the_learning_rate_follows_its_schedule(task: DividedTask) -> None:
    """One step in round 3 with eta/sqrt(t + 1) is half of a step with eta."""
    plain = updates_of(trainer_of(task, KEPT, 0.5, CLIP, steps=1), point(task, 0))
    slower = updates_of(trainer_of(task, KEPT, 0.5, CLIP, steps=1, schedule="inverse-sqrt"), point(task, 0))
    torch.testing.assert_close(slower, plain / 2, rtol=0, atol=1e-6)


def test_updates_are_zero_off_a_mask_that_stays_over_the_steps(task: DividedTask) -> None:
    """With noise on every kept coordinate; evaluations are steps times batch, and nothing is kept."""
    trainer, store = trainer_of(task, KEPT, 1.0, CLIP), Store()
    found = trainer.updates(point(task, 0), ALL, ROUND, store)
    masks = torch.stack([mask_of(device, 47, KEPT) for device in range(3)])
    assert torch.equal((found != 0).float(), masks)
    assert not torch.equal(masks[0], masks[1])
    np.testing.assert_array_equal(trainer.evaluations(ALL, 0), [20, 20, 15])
    epochs = trainer_of(task, KEPT, 1.0, CLIP, steps=0, epochs=2)  # of batches of 4: twice 3, 4 and 1 steps
    np.testing.assert_array_equal(epochs.evaluations(ALL, 0), [24, 32, 6])
    assert not store.rows
    assert not store.server
    assert PerturbedSgd(KEPT, 1.0, CLIP).device_state(47, 16) == ()


@pytest.mark.parametrize("kept", [500, 60])
def test_noise_on_kept_coordinates_is_as_strong_as_said(kept: int) -> None:
    """Gradients of 0: an update is -eta d/k times the sum of tau noises, of k entries each, of the device's stream."""
    task, tau, multiplier = task_of(Flat()), 7, 1.5
    trainer = trainer_of(task, kept, multiplier, CLIP, steps=tau)
    found = updates_of(trainer, FlatModel(task.model).initial())
    for device, size in enumerate(SIZES):
        std = multiplier * CLIP * math.sqrt(kept) / min(BATCH, size)
        drawn = philox.normals(STREAMS.address(Purpose.LOCAL_NOISE, ROUND), [device], tau * kept)
        noise = drawn.reshape(tau, kept).sum(axis=0)
        wanted = -0.3 * 500 / kept * std * noise
        of_device = found[device, coordinates_of(device, 500, kept)].numpy()
        np.testing.assert_allclose(of_device, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("numbers", [1, 100, 150, 1 << 22])
def test_noise_of_several_steps_at_a_time(task: DividedTask, numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """6, 8 and 2 steps of three devices: 20 coordinates each, step after step."""
    trainer = trainer_of(task, KEPT, 1.0, CLIP, steps=0, epochs=2)
    wanted = updates_of(trainer, point(task, 0))
    monkeypatch.setattr("airfl.learning.perturbed.NOISE_NUMBERS", numbers)
    torch.testing.assert_close(updates_of(trainer, point(task, 0)), wanted, rtol=0, atol=0)
    steps, address = np.array([8, 6, 2]), STREAMS.address(Purpose.LOCAL_NOISE, 3)
    noises = [noise.numpy() for noise in noise_of(address, [4, 0, 9], steps, KEPT, CPU)]
    assert len(noises) == 8
    for row, (device, own) in enumerate(zip([4, 0, 9], steps, strict=True)):
        drawn = philox.normals(address, [device], own * KEPT).reshape(own, KEPT)
        np.testing.assert_array_equal([noise[row] for noise in noises[:own]], drawn)


def test_replacing_a_sample_moves_a_step_by_no_more_than_the_sensitivity(task: DividedTask) -> None:
    """2 c sqrt(k)/b on the kept coordinates: of the last device, whose 3 samples are its batch."""
    other = copy.deepcopy(task)
    other.train.inputs[task.partition.indices[task.partition.offsets[2]]] *= -1000
    pair = [updates_of(trainer_of(one, KEPT, 0.0, 0.01, steps=1), point(task, 0), [2]) for one in (task, other)]
    moved = float((pair[0] - pair[1]).norm()) / (0.3 * 47 / KEPT)
    assert 0 < moved <= 2 * 0.01 * math.sqrt(KEPT) / 3 * (1 + 1e-4)


def test_a_device_does_not_depend_on_its_chunk_and_a_seed_gives_one_result(task: DividedTask) -> None:
    trainer, start = trainer_of(task, KEPT, 1.0, CLIP), point(task, 0)
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
def test_all_engines_give_the_same_numbers(task: DividedTask, engine: str, used: str, chunk: int, kept: int) -> None:
    """Two epochs of batches of 4 of 9, 16 and 3 samples: 6, 8 and 2 steps."""
    local = {"steps": 0, "epochs": 2, "momentum": 0.5}
    trainer, plain = (trainer_of(task, kept, 0.5, CLIP, **local, engine=name) for name in (engine, "loop"))
    assert (trainer.engine, trainer.chunk) == (used, chunk)
    wanted = torch.cat([updates_of(plain, point(task, 0), [device]) for device in range(3)])
    torch.testing.assert_close(updates_of(trainer, point(task, 0)), wanted, rtol=0, atol=5e-6)


@pytest.mark.parametrize("kept", [47, KEPT])
def test_devices_make_as_many_steps_as_their_samples_ask_for(task: DividedTask, kept: int) -> None:
    """3, 4 and 1 steps: without noise those of the paper, in whatever order the devices come."""
    trainer = trainer_of(task, kept, 0.0, CLIP, steps=0, epochs=1, momentum=0.9)
    steps = enumerate((3, 4, 1))
    wanted = torch.stack([reference(task, device, kept, CLIP, 0.9, count) for device, count in steps])
    for order in ([0, 1, 2], [0, 2, 1], [1, 2, 0]):
        torch.testing.assert_close(updates_of(trainer, point(task, 0), order), wanted[order], rtol=0, atol=5e-6)


def test_samples_that_are_seen_often_are_normalised_once(task: DividedTask) -> None:
    """The same steps, whether inputs are normalised step by step or before."""
    pixels = Samples(torch.arange(28 * 6, dtype=torch.uint8).view(28, 1, 2, 3), task.train.targets)
    raw = replace(task, train=pixels, mean=(0.3,), std=(0.2,))
    ready = replace(task, train=Samples((pixels.inputs.float() / 255 - 0.3) / 0.2, pixels.targets))
    for steps in (1, 30):
        pair = [updates_of(trainer_of(one, 47, 0.0, CLIP, steps=steps), point(task, 0)) for one in (raw, ready)]
        torch.testing.assert_close(*pair, rtol=0, atol=2e-5)


def test_threads_draw_the_same_masks_and_noise(task: DividedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, and as many as devices."""
    trainer = trainer_of(task, KEPT, 1.0, CLIP)
    wanted = updates_of(trainer, point(task, 0))
    monkeypatch.setattr("airfl.runtime.sampling.PARALLEL", 1)
    for threads in (2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert torch.equal(updates_of(trainer, point(task, 0)), wanted)


def initial_values(task: DividedTask) -> list[np.ndarray]:
    """Absolute gradients of the initial round, those of each device in a row."""
    found = []
    for device in np.sort(np.argsort(STREAMS.generator(Purpose.INITIAL_ROUND).random(3))[:2]).tolist():
        uniforms = STREAMS.device_generator(Purpose.INITIAL_ROUND, None, device).random(int(SIZES[device]))
        rows = task.partition.indices[task.partition.offsets[device] + np.sort(np.argsort(uniforms)[:BATCH])]
        gradients = [sample_gradient(task, FlatModel(task.model).initial(), int(row)).abs().numpy() for row in rows]
        found.append(np.concatenate(gradients))
    return found


def test_without_a_clip_it_is_an_initial_median(task: DividedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over an initial round of two of three devices, a mini-batch each, at the initial model: the same whenever it is
    asked for; of a large model over some coordinates: every fourth of 376, for 120 or fewer."""
    values = initial_values(task)
    wanted = float(np.median(np.concatenate(values)))
    assert trainer_of(task, KEPT, 1.0, None).coordinate_clip == pytest.approx(wanted, rel=1e-5)
    trained = trainer_of(task, KEPT, 1.0, None)
    found = updates_of(trained, point(task, 0), round_index=5)
    assert trained.coordinate_clip == pytest.approx(wanted, rel=1e-5)
    given = trainer_of(task, KEPT, 1.0, trained.coordinate_clip)
    assert torch.equal(found, updates_of(given, point(task, 0), round_index=5))
    monkeypatch.setattr("airfl.learning.perturbed.MEDIAN_NUMBERS", 120)
    wanted = float(np.median(np.concatenate([own[::4] for own in values])))
    assert trainer_of(task, KEPT, 1.0, None).coordinate_clip == pytest.approx(wanted, rel=1e-5)


def test_a_median_of_zero_gives_way_to_that_of_what_is_not_zero(task: DividedTask) -> None:
    assert median_of(np.array([0, 0, 0, 0, 1, 2, 4], dtype=np.float32)) == 2
    assert median_of(np.array([0, 3, 1, 2, 5], dtype=np.float32)) == 2
    for values in ([0.0, 0.0], [math.nan, 1.0], [math.inf, math.inf]):
        with pytest.raises(UserError, match=r"^scheme\.coordinate_clip: .*initial round"):
            median_of(np.array(values, dtype=np.float32))
    with pytest.raises(ValueError, match="finite coordinate_clip, got inf"):
        trainer_of(task, KEPT, 1.0, math.inf)
