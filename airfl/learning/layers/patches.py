"""Convolutions of all devices as batched matrix products, for GPUs.

cuDNN computes a convolution of many groups slowly. A convolution multiplies the weights by the patches that its window
sees. Patches of all positions are written out once, [devices, positions, window channels], and outputs and both
gradients are then one product of matrices a device each. Feature maps are channels last, so that a device's outputs are
written in place by a product with a row stride.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from airfl.learning.layers.products import batched_product


@dataclass(frozen=True)
class Window:
    """The window of a convolution without dilation.

    Attributes:
        size: Height and width.
        stride: Steps of the window, vertical and horizontal.
        padding: Rows and columns of zeros on each side.
    """

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


def patches_of(maps: Tensor, devices: int, window: Window) -> Tensor:
    """Return what the window sees at each position, [devices, batch height' width', window channels].

    maps: [batch, devices channels, height, width].
    """
    (down, right), (rows, columns) = window.padding, window.size
    values = _in_words(_apart(maps, devices))
    if down or right:
        values = F.pad(values, (0, 0, 0, 0, right, right, down, down))
    seen = values.unfold(1, rows, window.stride[0]).unfold(2, columns, window.stride[1])
    seen = seen.permute(3, 0, 1, 2, 5, 6, 4)
    if values.dtype != maps.dtype:
        seen = seen.contiguous().view(maps.dtype)
    return seen.reshape(devices, -1, rows * columns * seen.shape[-1])


def convolve(patches: Tensor, weight: Tensor, bias: Tensor | None, batch: int, height: int, width: int) -> Tensor:
    """Return the outputs, [batch, devices channels', height, width], channels last.

    Args:
        patches: See `patches_of`.
        weight: [devices, channels', channels, *window].
        bias: [devices, channels'], None for none.
        batch: Samples.
        height: Rows of the outputs.
        width: Columns of the outputs.
    """
    devices, channels = weight.shape[:2]
    factors = patches, _matrices(weight).transpose(1, 2)
    if torch.compiler.is_compiling():  # the compiler does not support `out`
        outputs = batched_product(*factors).transpose(0, 1).contiguous()
    else:
        outputs = patches.new_empty(patches.shape[1], devices, channels, dtype=weight.dtype)
        batched_product(*factors, outputs.transpose(0, 1))
    if bias is not None:
        outputs.add_(bias)
    return outputs.view(batch, height, width, devices * channels).permute(0, 3, 1, 2)


def input_gradient(grad_output: Tensor, weight: Tensor, height: int, width: int, window: Window) -> Tensor:
    """Return the gradient with respect to the inputs, [batch, devices channels, height, width], channels last.

    A position's gradient is the sum over the places in the window at which it was seen: with stride 1 the convolution
    of the gradient by turned weights, otherwise a sum of shifted products. Of these the one that moves fewer numbers is
    taken.

    Args:
        grad_output: Gradient with respect to the outputs, [batch, devices channels', height', width'].
        weight: [devices, channels', channels, *window].
        height: Rows of the inputs.
        width: Columns of the inputs.
        window: The window.
    """
    filters, channels, *size = weight.shape[1:]
    around = size[0] - 1 - window.padding[0], size[1] - 1 - window.padding[1]
    positions = grad_output.numel() // (len(weight) * filters)
    fewer = 2 * positions * filters + 4 * filters * channels < 4 * positions * channels
    if window.stride == (1, 1) and min(around) >= 0 and fewer:
        patches = patches_of(grad_output, len(weight), Window(window.size, (1, 1), around))
        turned = weight.flip(3, 4).transpose(1, 2)
        return convolve(patches, turned, None, len(grad_output), height, width)
    return _sum_of_shifted(grad_output, weight, height, width, window)


def _sum_of_shifted(grad_output: Tensor, weight: Tensor, height: int, width: int, window: Window) -> Tensor:
    devices, _, channels = weight.shape[:3]
    batch, _, high, wide = grad_output.shape
    (down, right), (rows, columns), (below, beside) = window.padding, window.size, window.stride
    products = batched_product(_by_position(grad_output, devices), _matrices(weight))
    seen = products.view(devices, batch, high, wide, rows, columns, channels).permute(4, 5, 1, 2, 3, 0, 6)
    gradient = seen.new_zeros(batch, height + 2 * down, width + 2 * right, devices, channels)
    for row in range(rows):
        for column in range(columns):
            at_rows = slice(row, row + below * (high - 1) + 1, below)
            at_columns = slice(column, column + beside * (wide - 1) + 1, beside)
            gradient[:, at_rows, at_columns].add_(seen[row, column])
    return _together(gradient[:, down : down + height, right : right + width].contiguous())


def weight_gradient(patches: Tensor, grad_output: Tensor, channels: int, window: Window) -> Tensor:
    """Return the gradient with respect to the weights, [devices, channels', channels, *window]."""
    devices = len(patches)
    gradient = batched_product(_by_position(grad_output, devices).transpose(1, 2), patches)
    return gradient.view(devices, -1, *window.size, channels).permute(0, 1, 4, 2, 3)


def _in_words(values: Tensor) -> Tensor:
    """View the last dimension in words of 16 bytes if it divides into them, since torch copies element by element."""
    each = 16 // values.element_size()
    if torch.compiler.is_compiling() or each == 1 or values.stride(-1) != 1:
        return values
    steps = (values.shape[-1], values.storage_offset(), *values.stride()[:-1])
    return values if any(step % each for step in steps) else values.view(torch.complex128)


def _apart(maps: Tensor, devices: int) -> Tensor:
    """[batch, devices channels, height, width] -> a view [batch, height, width, devices, channels]."""
    batch, channels, *size = maps.shape
    return maps.permute(0, 2, 3, 1).view(batch, *size, devices, channels // devices)


def _together(values: Tensor) -> Tensor:
    """[batch, height, width, devices, channels] -> [batch, devices channels, height, width], channels last."""
    return values.flatten(-2).permute(0, 3, 1, 2)


def _by_position(maps: Tensor, devices: int) -> Tensor:
    """[batch, devices channels, height, width] -> [devices, batch height width, channels], a view if channels last."""
    values = _apart(maps, devices)
    return values.permute(3, 0, 1, 2, 4).reshape(devices, -1, values.shape[-1])


def _matrices(weight: Tensor) -> Tensor:
    """[devices, channels', channels, *window] -> [devices, channels', window channels], a view if channels last."""
    return weight.permute(0, 1, 3, 4, 2).flatten(2)
