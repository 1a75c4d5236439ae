"""What a round without training holds on a GPU and how often it makes the CPU wait, found without a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from airfl.core.round import run_round
from airfl.learning.engines.factored import Factored
from airfl.learning.evaluation import evaluate
from airfl.learning.flat import FlatModel
from airfl.learning.layers import as_layers
from airfl.learning.layers.linear import Linear
from airfl.learning.per_sample import SampleGradients, parameter_views
from airfl.learning.sample_layers import numbers_of
from airfl.learning.tasks.models import MODELS
from airfl.learning.trainer import LocalTrainer
from airfl.schemes.names import SCHEMES
from airfl.uplinks.stages import Coder, RandK
from channels.transfer import on_device
from experiments.gpu.figures import SENDS, superposition
from experiments.gpu.imitation import CUDA, imitated_gpu
from experiments.gpu.memory import Meter, Use, use_of
from experiments.gpu.rows import IMITATED, Given
from experiments.gpu.worlds import first_state, short_world, unequal_task

DIMENSION, DEVICES, RATIO = 4_000_000, 8, 0.3

WAITS = {
    **dict.fromkeys(SCHEMES, 4),
    **dict.fromkeys(("wfl-p", "wfl-pdp", "cotaf", "baa", "obda", "pfels", "blind"), 6),
    **dict.fromkeys(("fsk-mv", "reed", "ncairfl", "affine-oac", "balanced-digits"), 5),
    **{"fedavg-topk": 6, "fed-smp-topk": 8, "cpsgd": 5, "a-dsgd": 13, "md-aircomp": 43, "age-topk": 13},
}
"""Most operations of a round for which the CPU waits, all devices in one chunk and without an evaluation.

Each scheme reads whether updates are finite, their norms, whether the new model is finite, and the aggregation error.
Analog links read energies of the devices and of the sum, non-coherent ones all at once. Some schemes select
coordinates, or recover a message or count devices step by step."""
QUICK = ("fedavg", "pfels", "soteriafl-saga")


def use(scheme: str, devices: int = DEVICES) -> Use:
    return use_of(scheme, DIMENSION, devices)


HELD = {
    "fedavg": (1.0, 4.0),  # theta, the ideal mean, the sum, the mean
    "wfl-p": (1.0, 4.0),  # the receiver's noise is added in place
    "dp-fedavg": (2.0, 4.0),  # a device's noise is not added to its update, which the ideal mean takes
    "pfels": (1.0 + RATIO, 2.0 + 2 * RATIO + 2 * RATIO + 1.0),  # 8 bytes a coordinate; sum and mean of k; the mean of d
    "fed-smp-randk": (1.0 + 2 * RATIO, 2.0 + 2 * RATIO),  # kept entries with and without noise, before any sum
}
"""Numbers of 4 bytes alive at the peak: multiples of r d, of which the updates are one, and of d (k = 0.3 d)."""


@pytest.mark.parametrize("scheme", HELD)
def test_a_round_holds_the_updates_and_a_few_vectors(scheme: str) -> None:
    per_device, beside = HELD[scheme]
    for devices in (DEVICES, 4 * DEVICES):
        found = use(scheme, devices)
        assert found.vectors_beside + devices == pytest.approx(per_device * devices + beside, abs=0.06)


def test_operations_do_not_grow_with_devices() -> None:
    few, more = (use("pfels", devices).operations for devices in (DEVICES, 4 * DEVICES))
    assert few == more < 60


def test_operations_of_a_layer_that_is_not_stored_do_not_grow_with_devices() -> None:
    """Weights and biases of the devices with the same number of steps are one product and one sum."""

    def operations(devices: int) -> int:
        layer, updates = Factored(Linear(nn.Linear(70, 50)), 0.9, 0.1), torch.zeros(devices, 3550, device=CUDA)
        for left in (devices, devices // 2):  # half of them make a second step
            layer.step(torch.zeros(left, 4, 70, device=CUDA), torch.zeros(left, 4, 50, device=CUDA))
        with Meter() as meter:
            layer.write([updates[:, :3500], updates[:, 3500:]], np.arange(devices))
        return meter.operations

    with imitated_gpu(hollow=True):
        assert operations(4) == operations(16) < 40


def test_clamped_gradients_of_samples_are_few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 32 devices with 50 samples each: slices and tiles of a GPU are not those of a CPU's caches."""
    module = MODELS["cnn-cifar10"]().build()
    model, layered = FlatModel(module), as_layers(module, None)
    assert not isinstance(layered, str)
    given = {"inputs": (32, 50, 3, 32, 32), "targets": (32, 50), "present": (32, 50)}
    shape = parameter_views(model, model.initial()[None])
    numbers = numbers_of(layered, shape, torch.zeros(1, 2, 3, 32, 32), torch.zeros(1, 2, dtype=torch.int64))
    task = unequal_task("mlp", (1, 1))  # of which nothing is read
    with imitated_gpu(hollow=True), monkeypatch.context() as patch:
        patch.setattr("airfl.learning.per_sample._gpu_bytes", lambda _: 80 << 30)
        tensors = {name: torch.zeros(size, device=CUDA) for name, size in given.items()}
        tensors["targets"] = tensors["targets"].long()
        gradients = SampleGradients(model, task, "layers", layered, numbers)
        parameters = torch.zeros(32, model.dimension, device=CUDA)
        with Meter() as meter:
            gradients.clamped_sums(parameters, **tensors, limit=1.0)
    assert meter.operations < 400
    assert meter.peak_bytes < 4 << 30


def test_the_meter_sees_what_is_alive_at_once() -> None:
    with imitated_gpu(hollow=True), Meter() as meter:
        first = torch.zeros(1000, device=CUDA)
        second = first + 1
        del first
        third = second[:500] * 2  # the slice is no memory of its own
        del second
        fourth = third + 1
        assert fourth.shape == third.shape
    assert meter.peak_bytes == 8000
    assert sorted(meter.at_peak) == [4000, 4000]
    assert meter.operations == 3


def waits_of(scheme: str, *overrides: str) -> int:
    """Waits of the second round, in which nothing is set up."""
    with imitated_gpu() as noted:
        world = short_world(scheme, CUDA, "run.evaluate_every=4", *overrides)
        state, _ = run_round(world, first_state(world))
        before = len(noted.noted)
        run_round(world, state)
        return len(noted.noted) - before


@pytest.mark.parametrize(
    "scheme", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in SCHEMES]
)
def test_waits_of_a_round_grow_neither_with_devices_nor_with_steps(scheme: str) -> None:
    larger = ("run.selected=8", "run.chunk=8", "local.steps=5")
    assert waits_of(scheme, *larger) <= waits_of(scheme, "run.chunk=8") <= WAITS[scheme]


def test_the_encoder_is_opened_once_a_gpu_trains_the_first_chunk() -> None:
    """So that the CPU draws the masks beside the training; all chunks share the encoder."""
    happened: list[str] = []
    with imitated_gpu(), pytest.MonkeyPatch.context() as patch:
        world = short_world("pfels", CUDA, "run.selected=4", "run.chunk=2")
        train, draw = LocalTrainer.updates, RandK.open

        def updates(*given: Any) -> Tensor:
            happened.append("train")
            return train(*given)

        def opened(*given: Any) -> Coder:
            happened.append("open")
            return draw(*given)

        patch.setattr(LocalTrainer, "updates", updates)
        patch.setattr(RandK, "open", opened)
        run_round(world, first_state(world))
    assert happened == ["train", "open", "train"]


def test_an_evaluation_waits_once() -> None:
    with imitated_gpu() as noted:
        world = short_world("fedavg", CUDA)
        parameters = first_state(world).parameters
        noted.noted.clear()
        evaluate(world.model, parameters, world.task)
        assert len(noted.noted) == 1


@pytest.mark.parametrize(
    ("scheme", "offset"),
    [
        ("wfl-p", "csi.frequency_offset_hz=100"),
        ("pfels", "csi.timing_offset_s=1e-6"),
        ("blind", "csi.linewidth_hz=10"),
    ],
)
def test_offsets_over_a_flat_channel_are_those_of_a_cpu(scheme: str, offset: str) -> None:
    """The gains vary, the precoders do not."""
    here = short_world(scheme, torch.device("cpu"), offset)
    wanted, _ = run_round(here, first_state(here))
    with imitated_gpu():
        there = short_world(scheme, CUDA, offset)
        state, _ = run_round(there, first_state(there))
        found = state.parameters.cpu()
    torch.testing.assert_close(found, wanted.parameters, rtol=1e-4, atol=1e-6)


def test_chunks_whose_norms_the_cpu_knows_are_superposed_without_a_wait() -> None:
    """As in a round; `gpu.py --stages superposition` is to measure that."""
    with imitated_gpu() as noted:
        list(superposition(Given(IMITATED, small=True)))
    calls = 2 * SENDS  # one to warm up, one that is timed
    assert len(noted.within("send")) == 2 * calls  # of the two ways whose energies are computed on the GPU


def test_numbers_with_gaps_are_copied_without_a_wait() -> None:
    """Such as a part of every row."""
    with imitated_gpu() as noted:
        given = np.arange(12.0).reshape(3, 4)[:, :3]
        found = on_device(given, CUDA)
        assert not noted.noted
        assert torch.equal(found.cpu(), torch.from_numpy(given.copy()))


def test_waits_over_a_selective_channel_do_not_grow_with_devices() -> None:
    selective = ("channel.fading=tapped-line", "channel.delay_spread_s=1e-6", "power.policy=per-subcarrier")
    few, more = (waits_of("pfels", *selective, f"run.selected={count}", "run.chunk=8") for count in (3, 8))
    assert few == more <= WAITS["pfels"] + 2
