"""The papers' models, layer by layer: an equal parameter count alone could hide two mistakes."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from airfl.tasks import build_model
from airfl.tasks.models.resnet18 import GroupNorm


def shapes(model: nn.Module, kind: type[nn.Module]) -> list[tuple[int, ...]]:
    """Weight shapes of all modules of that kind, in order."""
    return [tuple(module.weight.shape) for module in model.modules() if isinstance(module, kind)]


def has_bias(model: nn.Module, kind: type[nn.Module]) -> set[bool]:
    return {module.bias is not None for module in model.modules() if isinstance(module, kind)}


def test_vgg11_is_configuration_a_with_a_small_head() -> None:
    model = build_model("vgg11")
    widths = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    assert shapes(model, nn.Conv2d) == [(after, before, 3, 3) for before, after in pairwise(widths)]
    assert shapes(model, nn.Linear) == [(512, 512), (512, 512), (10, 512)]
    assert has_bias(model, nn.Conv2d) == {True}
    assert {type(module) for module in model.modules()} == {
        nn.Sequential,
        nn.Conv2d,
        nn.ReLU,
        nn.MaxPool2d,
        nn.Flatten,
        nn.Linear,
    }


def test_vgg11_keeps_its_signal_at_the_start() -> None:
    """He initialisation: the features of unit inputs have about unit size after eight convolutions, not 10^-2."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model("vgg11")
        inputs = torch.randn(8, 3, 32, 32)
    assert isinstance(model, nn.Sequential)
    flat = next(place for place, module in enumerate(model) if isinstance(module, nn.Flatten))
    with torch.no_grad():
        features = model[: flat + 1](inputs)
    assert features.shape == (8, 512)
    assert 0.3 < float(features.square().mean().sqrt()) < 10


def test_resnet18_has_the_layers_of_he_et_al() -> None:
    model = build_model("resnet18")
    convolutions = shapes(model, nn.Conv2d)
    assert convolutions[0] == (64, 1, 7, 7)
    assert sum(shape[2:] == (3, 3) for shape in convolutions) == 16
    assert [shape for shape in convolutions if shape[2:] == (1, 1)] == [
        (128, 64, 1, 1),
        (256, 128, 1, 1),
        (512, 256, 1, 1),
    ]
    assert shapes(model, nn.Linear) == [(62, 512)]
    assert has_bias(model, nn.Conv2d) == {False}
    assert not list(model.buffers())  # a batch norm would have some
    # One norm a convolution, one affine pair a group of 32 channels.
    assert [shape[0] for shape in shapes(model, GroupNorm)] == [shape[0] // 32 for shape in convolutions]
    # 28 -> 14 by the stem, 7 by the pool, 4, 2, 1 by the stages.
    assert isinstance(model, nn.Sequential)
    assert model[:-3](torch.zeros(2, 1, 28, 28)).shape == (2, 512, 1, 1)


def test_group_norm_normalises_each_group_and_scales_it() -> None:
    norm = GroupNorm(96)
    assert norm.groups == 3
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
        norm.bias.copy_(torch.tensor([0.0, 10.0, 20.0]))
    inputs = 5 + 7 * torch.randn(4, 96, 6, 6, generator=torch.Generator().manual_seed(0))
    outputs = norm(inputs)
    groups = outputs.reshape(4, 3, -1)
    torch.testing.assert_close(groups.mean(dim=2), torch.tensor([0.0, 10.0, 20.0]).expand(4, 3), atol=1e-4, rtol=0)
    torch.testing.assert_close(
        groups.std(dim=2, unbiased=False), torch.tensor([1.0, 2.0, 3.0]).expand(4, 3), atol=1e-3, rtol=0
    )
    torch.testing.assert_close(outputs[:, :32], F.group_norm(inputs, 3)[:, :32])


def test_the_other_papers_models() -> None:
    assert shapes(build_model("cnn-cifar10"), nn.Conv2d) == [(64, 3, 3, 3), (128, 64, 3, 3), (256, 128, 3, 3)]
    assert shapes(build_model("cnn-cifar10"), nn.Linear) == [(128, 1024), (256, 128), (10, 256)]
    assert shapes(build_model("cnn-fashion"), nn.Conv2d) == [(32, 1, 5, 5), (64, 32, 5, 5)]
    assert shapes(build_model("cnn-fashion"), nn.Linear) == [(512, 3136), (10, 512)]
    assert shapes(build_model("mlp-sigmoid"), nn.Linear) == [(64, 784), (10, 64)]
    assert any(isinstance(module, nn.Sigmoid) for module in build_model("mlp-sigmoid").modules())
