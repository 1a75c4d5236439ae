"""The two ways in which the layers engine can convolve the feature maps of many devices: times and errors."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from unittest import mock

import torch
from torch import Tensor, nn

from airfl.learning.layers.convolution import Convolution
from airfl.runtime.precision import Precision, precision
from experiments.gpu.engines import EPS, MARGIN, ROUNDED
from experiments.gpu.rows import Given, Row, figure, guarded, within
from experiments.gpu.worlds import relative_error, timed

Shape = tuple[int, int, int, int, int, int, int, int]
SHAPES: dict[str, Shape] = {
    "VGG-11, first": (32, 50, 3, 64, 3, 1, 1, 32),
    "VGG-11, second": (32, 50, 64, 128, 3, 1, 1, 16),
    "VGG-11, fourth": (32, 50, 256, 256, 3, 1, 1, 8),
    "VGG-11, last": (32, 50, 512, 512, 3, 1, 1, 2),
    "pfl's CNN, second": (50, 10, 32, 32, 3, 1, 0, 30),
    "ResNet-18, stem": (100, 50, 3, 64, 7, 2, 3, 32),
    "ResNet-18, first block": (100, 50, 64, 64, 3, 1, 1, 8),
    "Fed-SMP's CNN, second": (100, 10, 32, 64, 5, 1, 2, 14),
}
"""Devices, samples, channels in and out, kernel, stride, padding, height and width."""
SMALL: Shape = (3, 4, 3, 8, 3, 1, 1, 8)


def convolutions(given: Given) -> Iterator[Row]:
    """Yield the times of forward and backward passes in both ways, and what they are wrong by."""
    for name, shape in given.pick(SHAPES, {"a small one": SMALL}).items():
        kinds: tuple[Precision, ...] = given.pick(("float32", "tf32", "bf16"), ("float32",))
        for kind in kinds:
            with precision(kind):
                yield from guarded(f"{name}, {kind}", functools.partial(_both, given, name, shape, kind))


def _both(given: Given, name: str, shape: Shape, kind: Precision) -> Iterator[Row]:
    devices, samples, channels, filters, kernel, stride, padding, size = shape
    layer = nn.Conv2d(channels, filters, kernel, stride, padding)
    inputs = torch.randn(devices, samples, channels, size, size).to(given.device)
    weight = torch.randn(devices, filters, kernel, kernel, channels).to(given.device).permute(0, 1, 4, 2, 3)
    parameters = (weight, torch.zeros(devices, filters).to(given.device))
    found: dict[str, list[Tensor]] = {}
    medians: dict[str, float] = {}
    for way, by_products in (("grouped", False), ("products", True)):
        with mock.patch.object(Convolution, "by_products", return_value=by_products):
            found[way] = _passes(Convolution(layer), parameters, inputs)
            again = functools.partial(_passes, Convolution(layer), parameters, inputs)
            medians[way] = timed(again, given.device, given.pick(3, 1), given.pick(0.1, 0.0)).median
    positions = found["products"][0].shape[2:].numel()
    operations = 6 * devices * samples * positions * channels * filters * kernel**2
    rates = {way: f"{1e3 * median:.3g} ms, {operations / median / 1e12:.3g} TFLOP/s" for way, median in medians.items()}
    yield figure(f"{name}, {kind}: grouped", rates["grouped"])
    speed = f", {medians['grouped'] / medians['products']:.2f} x"
    yield figure(f"{name}, {kind}: patches and products", rates["products"] + speed)
    exact = tuple(part.double() for part in parameters)
    with mock.patch.object(Convolution, "by_products", return_value=True):
        wanted = _passes(Convolution(layer), exact, inputs.double())
    errors = {
        way: max(relative_error(one, other) for one, other in zip(parts, wanted, strict=True))
        for way, parts in found.items()
    }
    yield figure(f"{name}, {kind}: grouped, against float64", errors["grouped"])
    terms = max(kernel**2 * max(channels, filters), samples * positions)
    limit = MARGIN * (EPS * terms**0.5 + ROUNDED[kind])
    yield within(f"{name}, {kind}: patches and products, against float64", errors["products"], limit)


def _passes(layer: Convolution, parameters: tuple[Tensor, Tensor], inputs: Tensor) -> list[Tensor]:
    """Return outputs and gradients of a pass forward and back."""
    outputs, saved = layer.forward(parameters, (inputs,), len(inputs))
    return [outputs, *layer.backward(parameters, saved, outputs), *layer.gradient(saved, outputs, len(inputs))]
