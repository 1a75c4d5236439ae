"""Convolutions by matrix products of patches, against one grouped convolution, and what else only a GPU computes."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from airfl.learning.flat import FlatModel
from airfl.learning.layers.convolution import Convolution
from airfl.learning.layers.normalisation import GroupNorm
from airfl.learning.layers.patches import Window, _sum_of_shifted, input_gradient
from airfl.learning.layers.products import _bf16_product, batched_product, product
from airfl.learning.layers.recurrent import Lstm
from airfl.runtime.precision import current_precision, precision
from experiments.gpu.engines import MOMENTUM, SIZES, updates
from experiments.gpu.imitation import imitated_gpu
from experiments.gpu.worlds import unequal_task

DEVICES, BATCH = 3, 4
LAYERS = {
    "3 x 3, padded": (nn.Conv2d(3, 8, 3, 1, 1), 9, 7),
    "whole words of channels": (nn.Conv2d(4, 4, 3, 1, 1), 6, 6),
    "unequal sides": (nn.Conv2d(4, 6, (3, 5), (2, 1), (1, 2)), 8, 9),
    "1 x 1": (nn.Conv2d(5, 4, 1, bias=False), 6, 6),
    "1 x 1, every second": (nn.Conv2d(5, 4, 1, 2), 7, 7),
    "a stem": (nn.Conv2d(3, 4, 7, 2, 3, bias=False), 12, 12),
    "more padding than window": (nn.Conv2d(2, 3, 2, 1, 3), 7, 8),
}


def tensors(layer: nn.Conv2d, height: int, width: int) -> tuple[tuple[Tensor, ...], Tensor]:
    """Parameters of some devices, channels last as the engine has them, and inputs, in double precision."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    weight = draw(DEVICES, layer.out_channels, *layer.kernel_size, layer.in_channels).permute(0, 1, 4, 2, 3)
    parameters = (weight, draw(DEVICES, layer.out_channels)) if layer.bias is not None else (weight,)
    return parameters, draw(DEVICES, BATCH, layer.in_channels, height, width)


def passes(layer: nn.Conv2d, parameters: tuple[Tensor, ...], inputs: Tensor, by_products: bool) -> list[Tensor]:
    """Outputs, gradients, per-sample gradients and their squared norms in one of the two ways."""
    with mock.patch.object(Convolution, "by_products", return_value=by_products):
        convolution = Convolution(layer)
        outputs, saved = convolution.forward(parameters, (inputs,), DEVICES)
        found = [outputs, *convolution.backward(parameters, saved, outputs)]
        for of_layer in (convolution.gradient, convolution.each):
            found += of_layer(saved, outputs, DEVICES)
        return [*found, convolution.squares(saved, outputs, DEVICES)]


@pytest.mark.parametrize("name", LAYERS)
def test_products_of_patches_are_the_grouped_convolution(name: str) -> None:
    layer, height, width = LAYERS[name]
    parameters, inputs = tensors(layer, height, width)
    found, wanted = (passes(layer, parameters, inputs, by_products) for by_products in (True, False))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    assert found[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("positions", [1, 40])
def test_both_ways_to_the_gradient_of_the_inputs_agree(positions: int) -> None:
    """The way is chosen by the numbers that it moves, which depends on the number of positions."""
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(2, 4, 8, 3, 3, generator=generator, dtype=torch.float64)
    gradient = torch.randn(BATCH, 2 * 4, positions, 1, generator=generator, dtype=torch.float64)
    window = Window((3, 3), (1, 1), (1, 1))
    with mock.patch("airfl.learning.layers.patches._sum_of_shifted", side_effect=_sum_of_shifted) as shifted:
        found = input_gradient(gradient, weight, positions, 1, window)
    assert shifted.called == (positions == 1)
    torch.testing.assert_close(found, _sum_of_shifted(gradient, weight, positions, 1, window))


@pytest.mark.parametrize(
    ("layer", "size", "precision_name", "wanted"),
    [
        (nn.Conv2d(64, 64, 3), 8, "float32", True),
        (nn.Conv2d(64, 64, 3), 8, "tf32", False),
        (nn.Conv2d(64, 64, 3), 8, "bf16", True),
        (nn.Conv2d(3, 64, 3), 8, "tf32", True),
        (nn.Conv2d(64, 128, 3), 8, "tf32", True),
        (nn.Conv2d(64, 64, 3), 5, "tf32", True),
        (nn.Conv2d(64, 64, 3, dilation=2), 8, "float32", False),
        (nn.Conv2d(64, 64, 3, groups=2), 8, "float32", False),
    ],
)
def test_which_convolutions_are_products_on_a_gpu(
    layer: nn.Conv2d, size: int, precision_name: str, wanted: bool
) -> None:
    maps = torch.zeros(1, layer.in_channels, size, size)
    assert not Convolution(layer).by_products(maps)
    with imitated_gpu(), precision(precision_name):  # type: ignore[arg-type]
        assert Convolution(layer).by_products(maps.cuda()) == wanted


def test_a_gpu_rounds_factors_to_bfloat16_and_sums_in_float32_where_the_precision_is_bf16() -> None:
    left, right = torch.randn(2, 5, 300), torch.randn(2, 300, 4)
    rounded = left.bfloat16().float() @ right.bfloat16().float()
    assert current_precision() == "float32"
    with imitated_gpu(), precision("bf16"):
        found = batched_product(left.cuda(), right.cuda()).cpu()
        into = torch.empty(5, 2, 4).cuda()
        batched_product(left.cuda(), right.cuda(), into.transpose(0, 1))
        written = into.cpu().transpose(0, 1)
    torch.testing.assert_close(found, rounded, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(written, rounded, rtol=1e-5, atol=1e-5)
    with imitated_gpu(), precision("tf32"):
        plain = batched_product(left.cuda(), right.cuda()).cpu()
    torch.testing.assert_close(plain, left @ right, rtol=1e-5, atol=1e-5)


def test_bf16_is_for_single_products_and_for_the_weights_of_an_lstm_too() -> None:
    left, right = torch.randn(3, 300), torch.randn(4, 300)
    module = nn.LSTM(5, 6, batch_first=True)
    weights = tuple(part.detach()[None].repeat(2, *[1] * part.dim()) for part in module.parameters())
    inputs = torch.randn(2, 3, 4, 5)
    with imitated_gpu(), precision("bf16"):
        found = product(left.cuda(), right.cuda()).cpu()
        layer, there = Lstm(module), tuple(part.cuda() for part in weights)
        outputs, levels = layer.forward(there, (inputs.cuda(),), 2)
        with mock.patch("airfl.learning.layers.products._bf16_product", side_effect=_bf16_product) as rounding:
            layer.gradient(levels, outputs, 2)
    torch.testing.assert_close(found, left.bfloat16().float() @ right.bfloat16().float().T, rtol=1e-5, atol=1e-5)
    assert rounding.call_count == 3  # of the inputs' gradient, of the weights of inputs and of hidden states


def test_a_gpu_normalises_groups_channels_last() -> None:
    module = nn.GroupNorm(2, 6)
    parameters = (torch.randn(DEVICES, 6), torch.randn(DEVICES, 6))
    inputs = torch.randn(DEVICES, BATCH, 6, 5, 4)

    def both(inputs: Tensor, parameters: tuple[Tensor, ...]) -> list[Tensor]:
        layer = GroupNorm(module, 2, module.eps)
        outputs, saved = layer.forward(parameters, (inputs,), DEVICES)
        return [outputs, *layer.backward(parameters, saved, outputs), *layer.gradient(saved, outputs, DEVICES)]

    with imitated_gpu():
        there = both(inputs.cuda(), tuple(part.cuda() for part in parameters))
        assert there[0].is_contiguous(memory_format=torch.channels_last)
        found = [part.cpu() for part in there]
    for one, other in zip(found, both(inputs, parameters), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def moved_together(self: nn.RNNBase) -> None:
    """What `flatten_parameters` does on a GPU: the weights lie in memory of the layer's own from then on."""
    for weight in self._flat_weights:
        weight.set_(weight.clone())


def test_a_recurrent_layer_leaves_the_parameters_where_they_are() -> None:
    """Otherwise steps of SGD change the layer's memory and not the update, which then lacks the recurrent layer."""
    size = {"devices": 2, "batch": 2}
    wanted = updates("loop", unequal_task("lstm", SIZES), MOMENTUM, **size)
    with mock.patch.object(nn.RNNBase, "flatten_parameters", moved_together):
        task = unequal_task("lstm", SIZES)
        found = updates("loop", task, MOMENTUM, **size)
    assert found is not None
    assert wanted is not None
    assert torch.equal(found, wanted)
    blocks = torch.split(found, FlatModel(task.model).sizes, dim=1)
    assert all(bool(block.any()) for block in blocks)
    lstm = next(part for part in task.model.modules() if isinstance(part, nn.LSTM))
    assert "flatten_parameters" not in lstm.__dict__
    assert np.isfinite(found.numpy()).all()
