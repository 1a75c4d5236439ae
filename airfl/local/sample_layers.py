"""Gradients of single samples by hand-batched layers: sums of bounded ones, and all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from airfl.local.layers import LayeredModel, Node, logit_slopes, parametric
from airfl.local.layers.linear import Linear
from airfl.stages.clip import clip_factor

# Numbers of a clamped outer product that are in memory at a time: they stay in a cache.
TILE = 1 << 19

Parts = Sequence[Tensor]
Passed = list[tuple[Node, Any, Tensor]]


@torch.no_grad()
def layer_sums(
    layered: LayeredModel,
    parts: Parts,
    inputs: Tensor,
    targets: Tensor,
    present: Tensor,
    bound: float,
    clamp: float,
    into: Parts,
) -> None:
    """Sum over j of present_j g_j min(1, bound/||g_j||), or of present_j clamp(g_j), over each device's samples.

    parts, into: [devices, *shape] a parameter, the sums go into the latter; inputs [devices, n, *shape]; targets and
    present (1 for a sample, 0 for padding) [devices, n].
    """
    devices = len(targets)
    passed = _pass(layered, parts, inputs, targets, present)
    if math.isfinite(bound):
        _clipped_sums(passed, devices, bound, into)
        return
    for node, saved, slope in passed:
        places = [into[place] for place in node.places]
        if math.isinf(clamp):
            sums = parametric(node).gradient(saved, slope, devices)
        elif _is_plain(node, slope):
            clamped_outer(slope, saved, clamp, places[0])
            places, sums = places[1:], tuple(slope.clamp(-clamp, clamp).sum(dim=1) for _ in places[1:])
        else:
            each = parametric(node).each(saved, slope, devices)
            sums = tuple(part.clamp(-clamp, clamp).sum(dim=1) for part in each)
        for place, part in zip(places, sums, strict=True):
            place.copy_(part)


@torch.no_grad()
def layer_each(layered: LayeredModel, parts: Parts, inputs: Tensor, targets: Tensor, bound: float, into: Parts) -> None:
    """g_j min(1, bound/||g_j||) of every sample of one device; parts [1, *shape], into [n, *shape] a parameter."""
    passed = _pass(layered, parts, inputs, targets, torch.ones_like(targets, dtype=parts[0].dtype))
    found: dict[int, tuple[Tensor, ...]] = {}
    squares = []
    for number, (node, saved, slope) in enumerate(passed):
        if not _is_plain(node, slope):
            found[number] = parametric(node).each(saved, slope, 1)
            squares.append(_squares(found[number]))
        elif math.isfinite(bound):
            squares.append(parametric(node).squares(saved, slope, 1))
    shares = clip_factor(torch.stack(squares).sum(dim=0).sqrt(), bound)[0] if math.isfinite(bound) else None
    for number, (node, saved, slope) in enumerate(passed):
        places = [into[place] for place in node.places]
        if number in found:
            for place, part in zip(places, found[number], strict=True):
                place.copy_(part[0]) if shares is None else torch.mul(part[0], _along(shares, place), out=place)
            continue
        scaled = slope[0] if shares is None else slope[0] * shares[:, None]
        torch.mul(scaled[:, :, None], saved[0][:, None, :], out=places[0])
        for place in places[1:]:
            place.copy_(scaled)


def clamped_outer(left: Tensor, right: Tensor, limit: float, into: Tensor) -> None:
    """Sum over j of left_j right_j', every product clamped to [-limit, limit], into [devices, m, n].

    left [devices, samples, m], right [devices, samples, n]. In tiles that stay in the cache: several devices at a time,
    or one, or some rows of one.
    """
    devices, samples, height = left.shape
    rows = max(1, min(height, TILE // max(1, samples * right.shape[2])))
    group = max(1, TILE // max(1, samples * height * right.shape[2]))
    space = left.new_empty(group * samples * rows * right.shape[2])
    for first in range(0, devices, group):
        some = slice(first, min(first + group, devices))
        for top in range(0, height, rows):
            there = slice(top, min(top + rows, height))
            shape = (some.stop - first, samples, there.stop - top, right.shape[2])
            tile = space[: math.prod(shape)].view(shape)
            torch.mul(left[some, :, there, None], right[some, :, None, :], out=tile)
            torch.sum(tile.clamp_(-limit, limit), dim=1, out=into[some, there])


@torch.no_grad()
def numbers_of(layered: LayeredModel, parts: Parts, inputs: Tensor, targets: Tensor) -> int:
    """float32 that a sample takes: what the passes keep of it, and those gradients that must be written down."""
    passed = _pass(layered, parts, inputs, targets, torch.ones_like(targets, dtype=parts[0].dtype))
    kept = sum(numbers_in(saved) + slope.numel() for _, saved, slope in passed)
    written = sum(
        parts[place].numel() for node, _, slope in passed if not _is_plain(node, slope) for place in node.places
    )
    return -(-2 * kept // targets.numel()) + 2 * written  # twice: layers without parameters, temporary copies


def numbers_in(saved: object) -> int:
    """Numbers in a module's output or in what a layer has saved: a tensor, or (of recurrent ones) tuples of some."""
    if isinstance(saved, Tensor):
        return saved.numel()
    return sum(numbers_in(part) for part in saved) if isinstance(saved, tuple | list) else 0


def _pass(layered: LayeredModel, parts: Parts, inputs: Tensor, targets: Tensor, present: Tensor) -> Passed:
    """What the nodes with parameters have saved, and the slopes by their outputs of the losses' weighted sum."""
    passed: Passed = []
    tape = layered.forward(parts, inputs)
    slopes = logit_slopes(tape.logits, targets, present)
    layered.backward(parts, tape, slopes, lambda _, node, saved, slope: passed.append((node, saved, slope)))
    return passed


def _clipped_sums(passed: Passed, devices: int, bound: float, into: Parts) -> None:
    """Norms first, by all nodes; then sums, of scaled slopes where no gradient of a sample is written down."""
    written: dict[int, tuple[Tensor, ...]] = {}
    squares = []
    for number, (node, saved, slope) in enumerate(passed):
        if _is_plain(node, slope):
            squares.append(parametric(node).squares(saved, slope, devices))
        else:
            written[number] = parametric(node).each(saved, slope, devices)
            squares.append(_squares(written[number]))
    shares = clip_factor(torch.stack(squares).sum(dim=0).sqrt(), bound)
    for number, (node, saved, slope) in enumerate(passed):
        if number in written:
            sums = tuple(_weighted(shares, part) for part in written[number])
        else:
            sums = parametric(node).gradient(saved, slope * shares[:, :, None], devices)
        for place, part in zip(node.places, sums, strict=True):
            into[place].copy_(part)


def _is_plain(node: Node, slope: Tensor) -> bool:
    """Whether a sample's gradient is one outer product: of a linear layer that it goes through once."""
    return isinstance(node.layer, Linear) and slope.dim() == 3


def _squares(gradients: tuple[Tensor, ...]) -> Tensor:
    """Squared norms of gradients [devices, n, *shape] each, [devices, n]."""
    norms = [torch.linalg.vector_norm(_rows(part)[0], dim=2) for part in gradients]
    return torch.stack(norms).square().sum(dim=0)


def _weighted(weights: Tensor, gradients: Tensor) -> Tensor:
    """Sum over j of weights_j g_j; weights [devices, n], gradients [devices, n, *shape], returns [devices, *shape]."""
    rows, order = _rows(gradients)
    found = weights[:, None].bmm(rows)[:, 0]
    shape = [gradients.shape[2 + dimension] for dimension in order]
    return found.view(-1, *shape).permute(0, *(1 + order.index(dimension) for dimension in range(len(order))))


def _rows(gradients: Tensor) -> tuple[Tensor, list[int]]:
    """[devices, n, numbers] of [devices, n, *shape], in the order in which they lie in memory, so that nothing is
    copied; and that order of the shape's dimensions."""
    order = sorted(range(gradients.dim() - 2), key=lambda dimension: -gradients.stride(2 + dimension))
    return gradients.permute(0, 1, *(2 + dimension for dimension in order)).flatten(2), order


def _along(shares: Tensor, part: Tensor) -> Tensor:
    """[n] against [n, *shape]."""
    return shares.view(-1, *[1] * (part.dim() - 1))
