"""Clipped per-sample gradients of every engine against plain autograd; noise drawn by several threads."""

import math
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.learning import per_sample, sample_layers
from airfl.learning.dense.library import load_library
from airfl.learning.flat import FlatModel
from airfl.learning.layers import LayeredModel
from airfl.learning.per_sample import Rows, SampleGradients
from airfl.learning.sample_layers import clamped_outer
from airfl.learning.tasks.models import MODELS
from tests.local_steps import own_rows, point, sample_gradient
from tests.unit.test_estimators import ALL, G, close, task_of

DENSE = "layers" if load_library() is None else "dense"
ENGINE_OF = {"linear": DENSE, "conv": "layers", "lstm": "layers", "penalised": "vmap", "tied": "vmap", "gru": "loop"}
CLAMP = 0.05


def gradients_of(model: str, engine: str = "auto") -> SampleGradients:
    """Of forty samples of four devices."""
    task = task_of(model)
    with warnings.catch_warnings(action="ignore"):  # what vmap has no rule for is known without the tests' strictness
        return SampleGradients.of(FlatModel(task.model), task, engine)


@cache
def alone(model: str, device: int, number: int, bound: float = math.inf) -> Tensor:
    """Gradients of a device's samples, one by one, at the point of that number, [samples, d]."""
    task = task_of(model)
    if math.isinf(bound):
        return torch.stack([sample_gradient(task, point(task, number), row) for row in own_rows(task, device)])
    whole = alone(model, device, number)
    return whole * (bound / whole.norm(dim=1, keepdim=True)).clamp(max=1)


def limited(model: str, points: Sequence[int], bound: float = math.inf, clamp: float = math.inf) -> Tensor:
    """Means over each device's samples at its own point, sample by sample, [4, d]."""
    each = (alone(model, device, number, bound) for device, number in enumerate(points))
    return torch.stack([gradients.clamp(-clamp, clamp).mean(dim=0) for gradients in each])


def samples(found: SampleGradients) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, targets and presence of all samples of the four devices."""
    whole = Rows.whole(found.task, ALL)
    return *per_sample.samples_of(found.task, whole.rows), whole.present.float()


@pytest.mark.parametrize(
    ("model", "engine", "used"),
    [
        *((model, "auto", used) for model, used in ENGINE_OF.items()),
        ("linear", "layers", "layers"),
        *(("linear", "vmap", "vmap"), ("conv", "vmap", "vmap"), ("lstm", "vmap", "loop"), ("conv", "loop", "vmap")),
    ],
)
def test_every_engine_gives_the_gradients_of_single_samples(model: str, engine: str, used: str) -> None:
    """At one point for all devices, and at one for each; of 5, 12, 20 and 3 samples."""
    found, task = gradients_of(model, engine), task_of(model)
    assert found.engine == used
    x, whole = point(task, 0), Rows.whole(task, ALL)
    for bound in (math.inf, G):
        close(found.each(x, torch.tensor(own_rows(task, 1)), bound), alone(model, 1, 0, bound))
        close(found.means(x, whole, bound), limited(model, [0] * 4, bound))
    points = torch.stack([point(task, number) for number in range(4)])
    close(found.means(points, whole, G), limited(model, range(4), G))
    counts = whole.present.sum(dim=1, keepdim=True)
    for clamp in (CLAMP, math.inf):
        sums = found.clamped_sums(points, *samples(found), clamp)
        close(sums / counts, limited(model, range(4), clamp=clamp))


def test_the_bounds_of_these_tests_bite_some_and_not_all() -> None:
    single = torch.cat([alone("conv", device, 0) for device in range(4)])
    assert 0.1 < float((single.norm(dim=1) > G).float().mean()) < 0.95
    assert 0.1 < float((single.abs() > CLAMP).float().mean()) < 0.95


@pytest.mark.parametrize("model", ["linear", "conv", "penalised"])
def test_slices_do_not_matter(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few samples, and of one."""
    found, task = gradients_of(model), task_of(model)
    x, whole = point(task, 0), Rows.whole(task, ALL)

    def all_of_it() -> list[Tensor]:
        points = torch.stack([point(task, number) for number in range(4)])
        means = [found.means(points, whole, bound) for bound in (G, math.inf)]
        return [*means, found.each(x, torch.arange(40), G), found.clamped_sums(points, *samples(found), CLAMP)]

    wanted = all_of_it()
    for numbers in (4 * 3 * found.numbers, 0):
        monkeypatch.setattr(per_sample, "SLICE_BYTES", 4 * numbers)
        for one, other in zip(all_of_it(), wanted, strict=True):
            close(one, other)


def test_linear_layers_write_no_gradient_of_a_sample_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """To clip its norm; of nobody nothing is computed."""
    found = gradients_of("linear")
    x, nobody = point(found.task, 0), np.empty(0, dtype=np.int64)
    wanted = limited("linear", [0] * 4, G)
    monkeypatch.setattr("airfl.learning.layers.linear.Linear.each", None)
    close(found.means(x, Rows.whole(found.task, ALL), G), wanted)
    assert found.means(x, Rows.whole(found.task, nobody), G).shape == (0, 43)


@pytest.mark.parametrize("tile", [1, 60, 100, 500, 1 << 18])
def test_clamped_outer_products_in_tiles_of_any_size(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one device, one device, several."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(5, 3, 7, generator=generator), torch.randn(5, 3, 11, generator=generator)
    into = torch.full((5, 100), 9.0)
    wanted = (left[..., None] * right[:, :, None]).clamp(-0.4, 0.4).sum(dim=1)
    monkeypatch.setattr(sample_layers, "TILE", tile)
    clamped_outer(left, right, 0.4, into[:, 10:87].view(5, 7, 11))
    close(into[:, 10:87].view(5, 7, 11), wanted)
    assert bool((into[:, :10] == 9).all())
    assert bool((into[:, 87:] == 9).all())


def test_what_a_sample_takes_grows_with_gradients_that_are_written_down() -> None:
    """A convolution's are, a linear layer's are not."""
    linear, conv = gradients_of("linear"), gradients_of("conv")
    assert linear.numbers < 2 * (6 + 4 + 4 + 3) * 2
    assert conv.numbers > 2 * 10
    assert gradients_of("penalised").numbers == 3 * 21


def test_chunks_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """By parameters of devices, and by gradients of samples; at least one device, and one in a loop."""
    found = gradients_of("linear")
    assert found.chunk(7, 4) == 7
    monkeypatch.setattr(per_sample, "CHUNK_BYTES", 20 * 43 * 5)
    assert found.chunk(7, 4) == 5
    monkeypatch.setattr(per_sample, "SLICE_BYTES", 4 * 4 * found.numbers * 2)
    assert found.chunk(7, 4) == 2
    assert found.chunk(7, 100) == 1
    assert gradients_of("gru").chunk(7, 4) == 1


@pytest.mark.parametrize("name", ["mlp", "mlp-sigmoid", "cnn"])
def test_models_of_the_papers_are_computed_by_layers(name: str) -> None:
    """With the same gradients as by vmap, at weights of each device's own."""
    entry, generator = MODELS[name](), torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = FlatModel(entry.build())
    inputs = torch.randn(2, 3, *entry.input_shape, generator=generator)
    targets = torch.randint(0, entry.classes, (2, 3), generator=generator)
    present = torch.tensor([[1.0, 1, 1], [1, 1, 0]])
    points = model.initial() + 0.02 * torch.randn(2, model.dimension, generator=generator)
    task = task_of("linear")
    layered = LayeredModel.of(model.module)
    assert layered is not None
    pair = [SampleGradients(model, task, "layers", layered, 1), SampleGradients(model, task, "vmap", None, 1)]
    limits: list[dict[str, Any]] = [{}, {"bound": 1.0}, {"clamp": 0.003}]
    for limit in limits:
        one, other = (found.sums(points, inputs, targets, present, **limit) for found in pair)
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * float(other.abs().max()))
