"""Per-sample gradients by hand-batched layers: sums of clipped ones, or each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from airfl.learning.layers import LayeredModel, Node, logit_gradients, parametric
from airfl.learning.layers.linear import Linear
from airfl.uplinks.stages.clip import clip_factor

# Numbers of a clamped outer product in memory at a time, so that they stay in the cache of a CPU.
TILE = 1 << 19
# The same on a GPU, which many small operations slow down.
GPU_TILE = 1 << 26

Tensors = Sequence[Tensor]
Visited = list[tuple[Node, Any, Tensor]]


@torch.no_grad()
def layer_sums(
    layered: LayeredModel,
    parameters: Tensors,
    inputs: Tensor,
    targets: Tensor,
    present: Tensor,
    bound: float,
    clamp: float,
    into: Tensors,
) -> None:
    """Write the sum over j of present_j g_j min(1, bound/||g_j||), or of present_j clamp(g_j), for each device.

    parameters, into: [devices, *shape] per parameter; the sums are written into the latter. inputs: [devices, n,
    *shape]; targets, present (1 for a sample, 0 for padding): [devices, n].
    """
    devices = len(targets)
    visited = _passes(layered, parameters, inputs, targets, present)
    if math.isfinite(bound):
        _clipped_sums(visited, devices, bound, into)
        return
    for node, saved, grad_output in visited:
        outputs = [into[index] for index in node.parameter_indices]
        if math.isinf(clamp):
            sums = parametric(node).gradient(saved, grad_output, devices)
        elif _is_outer_product(node, grad_output):
            clamped_outer(grad_output, saved, clamp, outputs[0])
            outputs, sums = outputs[1:], tuple(grad_output.clamp(-clamp, clamp).sum(dim=1) for _ in outputs[1:])
        else:
            each = parametric(node).each(saved, grad_output, devices)
            sums = tuple(part.clamp(-clamp, clamp).sum(dim=1) for part in each)
        for output, part in zip(outputs, sums, strict=True):
            output.copy_(part)


@torch.no_grad()
def layer_each(
    layered: LayeredModel, parameters: Tensors, inputs: Tensor, targets: Tensor, bound: float, into: Tensors
) -> None:
    """Write g_j min(1, bound/||g_j||) of every sample of one device.

    parameters: [1, *shape] per parameter; into: [n, *shape] per parameter.
    """
    visited = _passes(layered, parameters, inputs, targets, torch.ones_like(targets, dtype=parameters[0].dtype))
    materialised: dict[int, tuple[Tensor, ...]] = {}
    squares = []
    for number, (node, saved, grad_output) in enumerate(visited):
        if not _is_outer_product(node, grad_output):
            materialised[number] = parametric(node).each(saved, grad_output, 1)
            squares.append(_squares(materialised[number]))
        elif math.isfinite(bound):
            squares.append(parametric(node).squares(saved, grad_output, 1))
    factors = clip_factor(torch.stack(squares).sum(dim=0).sqrt(), bound)[0] if math.isfinite(bound) else None
    for number, (node, saved, grad_output) in enumerate(visited):
        outputs = [into[index] for index in node.parameter_indices]
        if number in materialised:
            for output, part in zip(outputs, materialised[number], strict=True):
                if factors is None:
                    output.copy_(part[0])
                else:
                    torch.mul(part[0], _broadcast(factors, output), out=output)
            continue
        scaled = grad_output[0] if factors is None else grad_output[0] * factors[:, None]
        torch.mul(scaled[:, :, None], saved[0][:, None, :], out=outputs[0])
        for output in outputs[1:]:
            output.copy_(scaled)


def clamped_outer(left: Tensor, right: Tensor, limit: float, into: Tensor) -> None:
    """Write the sum over j of left_j right_j', every product clamped to [-limit, limit], into [devices, m, n].

    left: [devices, samples, m]; right: [devices, samples, n]. The computation is tiled to stay in the cache, over
    several devices, one device, or rows of one device at a time.
    """
    devices, samples, height = left.shape
    tile_size = GPU_TILE if left.is_cuda else TILE
    rows_per_tile = max(1, min(height, tile_size // max(1, samples * right.shape[2])))
    group = max(1, min(devices, tile_size // max(1, samples * height * right.shape[2])))
    buffer = left.new_empty(group * samples * rows_per_tile * right.shape[2])
    for first in range(0, devices, group):
        some = slice(first, min(first + group, devices))
        for top in range(0, height, rows_per_tile):
            rows = slice(top, min(top + rows_per_tile, height))
            shape = (some.stop - first, samples, rows.stop - top, right.shape[2])
            tile = buffer[: math.prod(shape)].view(shape)
            torch.mul(left[some, :, rows, None], right[some, :, None, :], out=tile)
            torch.sum(tile.clamp_(-limit, limit), dim=1, out=into[some, rows])


@torch.no_grad()
def numbers_of(layered: LayeredModel, parameters: Tensors, inputs: Tensor, targets: Tensor) -> int:
    """Return how many float32 numbers a sample needs: what the passes save, and the gradients that are materialised."""
    visited = _passes(layered, parameters, inputs, targets, torch.ones_like(targets, dtype=parameters[0].dtype))
    kept = sum(numbers_in(saved) + grad_output.numel() for _, saved, grad_output in visited)
    materialised = sum(
        parameters[index].numel()
        for node, _, grad_output in visited
        if not _is_outer_product(node, grad_output)
        for index in node.parameter_indices
    )
    # Twice, for layers without parameters and temporary copies.
    return -(-2 * kept // targets.numel()) + 2 * materialised


def numbers_in(saved: object) -> int:
    """Count the numbers in a module's output or in what a layer has saved: a tensor, or nested tuples of tensors."""
    if isinstance(saved, Tensor):
        return saved.numel()
    return sum(numbers_in(part) for part in saved) if isinstance(saved, tuple | list) else 0


def _passes(layered: LayeredModel, parameters: Tensors, inputs: Tensor, targets: Tensor, present: Tensor) -> Visited:
    """Do both passes for the weighted sum of losses.

    Returns each node with parameters, what it has saved, and the gradient with respect to its output.
    """
    visited: Visited = []
    tape = layered.forward(parameters, inputs)
    grad_logits = logit_gradients(tape.logits, targets, present)
    layered.backward(parameters, tape, grad_logits, lambda _, *node_and_gradient: visited.append(node_and_gradient))
    return visited


def _clipped_sums(visited: Visited, devices: int, bound: float, into: Tensors) -> None:
    """Write the sums of clipped gradients: first the norms over all nodes, then the sums.

    Where per-sample gradients are not materialised, the output gradients are scaled instead.
    """
    materialised: dict[int, tuple[Tensor, ...]] = {}
    squares = []
    for number, (node, saved, grad_output) in enumerate(visited):
        if _is_outer_product(node, grad_output):
            squares.append(parametric(node).squares(saved, grad_output, devices))
        else:
            materialised[number] = parametric(node).each(saved, grad_output, devices)
            squares.append(_squares(materialised[number]))
    factors = clip_factor(torch.stack(squares).sum(dim=0).sqrt(), bound)
    for number, (node, saved, grad_output) in enumerate(visited):
        if number in materialised:
            sums = tuple(_weighted(factors, part) for part in materialised[number])
        else:
            sums = parametric(node).gradient(saved, grad_output * factors[:, :, None], devices)
        for index, part in zip(node.parameter_indices, sums, strict=True):
            into[index].copy_(part)


def _is_outer_product(node: Node, grad_output: Tensor) -> bool:
    """Whether a per-sample gradient is one outer product: that of a linear layer applied once per sample."""
    return isinstance(node.layer, Linear) and grad_output.dim() == 3


def _squares(gradients: tuple[Tensor, ...]) -> Tensor:
    """Return the squared norms of gradients [devices, n, *shape] each, [devices, n]."""
    norms = [torch.linalg.vector_norm(_rows(part)[0], dim=2) for part in gradients]
    return torch.stack(norms).square().sum(dim=0)


def _weighted(weights: Tensor, gradients: Tensor) -> Tensor:
    """Return sum_j weights_j g_j, [devices, *shape]; weights: [devices, n], gradients: [devices, n, *shape]."""
    rows, order = _rows(gradients)
    sums = weights[:, None].bmm(rows)[:, 0]
    shape = [gradients.shape[2 + dimension] for dimension in order]
    return sums.view(-1, *shape).permute(0, *(1 + order.index(dimension) for dimension in range(len(order))))


def _rows(gradients: Tensor) -> tuple[Tensor, list[int]]:
    """Flatten [devices, n, *shape] to [devices, n, numbers] in memory order, so that nothing is copied.

    Also returns that order of the shape's dimensions.
    """
    order = sorted(range(gradients.dim() - 2), key=lambda dimension: -gradients.stride(2 + dimension))
    return gradients.permute(0, 1, *(2 + dimension for dimension in order)).flatten(2), order


def _broadcast(factors: Tensor, part: Tensor) -> Tensor:
    """Return factors [n] in a shape that broadcasts against [n, *shape]."""
    return factors.view(-1, *[1] * (part.dim() - 1))
