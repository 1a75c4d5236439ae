"""LSTM layers, their slopes carried back through time by hand.

Sequences are [devices, steps, batch, features] here. A level is one layer of a stack, its parameters in the order of
`nn.LSTM`: W_ih [4 hidden, features], W_hh [4 hidden, hidden] and perhaps two biases [4 hidden], for gates i, f, g, o.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from airfl.local.layers.layer import Parts, squares_of
from airfl.local.layers.products import products

_rnn, _rnn_backward = torch.ops.aten.mkldnn_rnn_layer, torch.ops.aten.mkldnn_rnn_layer_backward
LSTM = 2  # among their kinds of recurrence


@dataclass
class Level:
    """One level of a pass through a stack of LSTM layers.

    Attributes:
        parts: Parameters of the level, each [devices, *shape].
        inputs: What goes in, [devices, steps, batch, features].
        outputs: What comes out, [devices, steps, batch, hidden].
        fused: What oneDNN's kernel left for each device; None where the level was computed step by step.
        gates: Gates i, f, g, o, activated, [devices, steps, batch, 4 hidden]; None after the fused kernel until they
            are asked for.
        cells: States of the cells, [devices, steps, batch, hidden]; None as `gates`.
        slope: Slope of the loss by the outputs, [devices, steps, batch, hidden]; None until it has been carried back to
            here.
        gradient: Slope of the loss by each of `parts`, where oneDNN gave it with the slope; else None.
        gate_slopes: Slopes by the gates' sums, [devices, steps, batch, 4 hidden]; None until they are asked for.
    """

    parts: Parts
    inputs: Tensor
    outputs: Tensor
    fused: list[Parts] | None = None
    gates: Tensor | None = None
    cells: Tensor | None = None
    slope: Tensor | None = None
    gradient: Parts | None = None
    gate_slopes: Tensor | None = None


class Lstm:
    """The outputs of a stack of LSTM layers, all from zero states: [devices, batch, steps, features] -> hidden.

    What is saved refers to the parameters: they may change after the last of `gradient`, `each` and `squares` only.
    by_sample: to be set where only `each` or `squares` are wanted, for which the fused kernel would be a detour.
    """

    by_sample = False

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.LSTM, module)
        if layer.bidirectional or layer.dropout or layer.proj_size or not layer.batch_first:
            raise NotImplementedError("an LSTM that is bidirectional, not batch first, with dropout or a projection")
        self._levels, self._parts = layer.num_layers, 4 if layer.bias else 2

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, list[Level]]:
        """See `Layer`; the levels are saved."""
        levels: list[Level] = []
        values = inputs[0].transpose(1, 2).contiguous()
        fused = _fused(values) and not self.by_sample
        for level in range(self._levels):
            own = parts[level * self._parts : (level + 1) * self._parts]
            levels.append(_fused_forward(own, values) if fused else _forward(own, values))
            values = levels[-1].outputs
        return values.transpose(1, 2), levels

    def backward(self, parts: Parts, saved: list[Level], slope: Tensor) -> Parts:
        """See `Layer`."""
        return (_carry_back(saved, slope).transpose(1, 2),)

    def gradient(self, saved: list[Level], slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        if saved[0].slope is None:
            _carry_back(saved, slope)
        return tuple(part for level in saved for part in level.gradient or _gradient(level))

    def each(self, saved: list[Level], slope: Tensor, devices: int) -> Parts:
        """See `ParametricLayer`."""
        if saved[0].slope is None:
            _carry_back(saved, slope)
        return tuple(part for level in saved for part in _each(level))

    def squares(self, saved: list[Level], slope: Tensor, devices: int) -> Tensor:
        """See `ParametricLayer`."""
        return squares_of(self.each(saved, slope, devices))


def _fused(values: Tensor) -> bool:
    """oneDNN's kernel runs near the limit of a core's products, beyond any loop over steps; it knows no other type."""
    usable = values.device.type == "cpu" and values.dtype == torch.float32 and not torch.compiler.is_compiling()
    return usable and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def _carry_back(levels: list[Level], slope: Tensor) -> Tensor:
    """From the slope by the outputs [devices, batch, steps, hidden] that by the inputs, all levels' slopes kept."""
    values = slope.transpose(1, 2)
    for level in reversed(levels):
        level.slope = values.contiguous()
        values = _fused_backward(level) if level.fused else _backward(level)
    return values


def _fused_forward(parts: Parts, values: Tensor) -> Level:
    hidden, biased = parts[1].shape[2], len(parts) == 4
    zeros = values.new_zeros(1, values.shape[2], hidden)
    left: list[Parts] = []
    with torch.enable_grad():  # else the kernel keeps nothing for its slopes; autograd itself has no part in it
        for own, *weights in _by_device(values, parts):
            left.append(_rnn(own, *weights, zeros, zeros, False, [], LSTM, hidden, 1, biased, False, False, True))
    return Level(parts, values, _stacked(found[0] for found in left), fused=left)


def _fused_backward(level: Level) -> Tensor:
    """Slopes by the inputs; those by the parameters are kept in the level."""
    hidden, biased = level.parts[1].shape[2], len(level.parts) == 4
    zeros = level.inputs.new_zeros(1, level.inputs.shape[2], hidden)
    found: list[list[Tensor]] = []
    rows = zip(_by_device(level.inputs, level.parts), level.fused or (), cast(Tensor, level.slope), strict=True)
    for seen, (outputs, last, cell, workspace), slope in rows:
        form = [False, LSTM, hidden, 1, biased, True, False, [], False]
        slopes = _rnn_backward(*seen, zeros, zeros, outputs, last, cell, slope, None, None, *form, workspace)
        found.append(slopes[: 1 + len(level.parts)])
    inputs, *gradient = map(_stacked, zip(*found, strict=True))
    level.gradient = (*gradient[:-1], gradient[-1].clone())  # the two biases' are one, which a caller may change
    return inputs


def _stacked(parts: Iterable[Tensor]) -> Tensor:
    first, *others = parts
    return torch.stack([first, *others]) if others else first[None]


def _by_device(values: Tensor, parts: Parts) -> Iterator[tuple[Tensor, ...]]:
    """What the fused kernels take of each device: its values and parameters, biases though there are none."""
    biases = parts[2:] or (values.new_zeros(parts[0].shape[:2]),) * 2
    return zip(values, *parts[:2], *biases, strict=True)


def _forward(parts: Parts, values: Tensor) -> Level:
    """Step by step, all devices at once."""
    gates = _sums(parts, values)
    devices, steps, batch, _ = gates.shape
    back = parts[1].transpose(1, 2)
    outputs, cells = (gates.new_empty(devices, steps, batch, parts[1].shape[2]) for _ in range(2))
    output, cell = gates.new_zeros(devices, batch, parts[1].shape[2]), None
    for now, into, kept in zip(gates.unbind(1), outputs.unbind(1), cells.unbind(1), strict=True):
        if cell is not None:
            now.baddbmm_(output, back)
        i, f, g, o = _activated(now)
        torch.mul(i, g, out=kept)
        if cell is not None:
            kept.addcmul_(f, cell)
        torch.mul(o, kept.tanh(), out=into)
        output, cell = into, kept
    return Level(parts, values, outputs, gates=gates, cells=cells)


def _sums(parts: Parts, values: Tensor) -> Tensor:
    """W_ih x + b of all steps, [devices, steps, batch, 4 hidden]."""
    found = products(values.flatten(1, 2), parts[0])
    if len(parts) == 4:
        found.add_((parts[2] + parts[3])[:, None])
    return found.view(*values.shape[:3], -1)


def _activated(sums: Tensor) -> Parts:
    """The gates i, f, g, o of their sums [..., 4 hidden], in place."""
    hidden = sums.shape[-1] // 4
    sums[..., : 2 * hidden].sigmoid_()
    sums[..., 2 * hidden : 3 * hidden].tanh_()
    sums[..., 3 * hidden :].sigmoid_()
    return sums.chunk(4, dim=-1)


def _recall(level: Level) -> tuple[Tensor, Tensor]:
    """Gates and cells of a level. The fused kernel keeps them to itself; from its outputs they follow at once."""
    if level.gates is None or level.cells is None:
        gates = _sums(level.parts, level.inputs)
        later = gates[:, 1:]
        later.add_(products(level.outputs[:, :-1].flatten(1, 2), level.parts[1]).view(later.shape))
        i, f, g, _ = _activated(gates)
        cells = i * g
        kept = cells.unbind(1)
        for cell, before, forget in zip(kept[1:], kept, f.unbind(1)[1:], strict=False):
            cell.addcmul_(forget, before)
        level.gates, level.cells = gates, cells
    return level.gates, level.cells


def _gate_slopes(level: Level) -> Tensor:
    """Slopes by the gates' sums, [devices, steps, batch, 4 hidden], from the last step to the first."""
    if level.gate_slopes is None:
        gates, cells = _recall(level)
        i, f, g, o = gates.chunk(4, dim=-1)
        curved = cells.tanh()
        by_cell = o * (1 - curved.square())
        before = torch.nn.functional.pad(cells[:, :-1], (0, 0, 0, 0, 1, 0))
        # What a slope by the cell (i, f, g) or by the output (o) is multiplied with; the products take their place.
        factors = torch.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g.square()), curved * o * (1 - o)], 3)
        slopes = factors.flatten(3)
        cell = torch.zeros_like(cells[:, 0])
        after: Tensor | None = None
        arriving = cast(Tensor, level.slope)
        for step in range(cells.shape[1] - 1, -1, -1):
            output = arriving[:, step] if after is None else torch.baddbmm(arriving[:, step], after, level.parts[1])
            cell.addcmul_(output, by_cell[:, step])
            factors[:, step, :, :3].mul_(cell[:, :, None])
            factors[:, step, :, 3].mul_(output)
            cell.mul_(f[:, step])
            after = slopes[:, step]
        level.gate_slopes = slopes
    return level.gate_slopes


def _backward(level: Level) -> Tensor:
    turned = level.parts[0].transpose(1, 2).contiguous()
    return products(_gate_slopes(level).flatten(1, 2), turned).view(level.inputs.shape)


def _gradient(level: Level) -> Parts:
    """One product over all steps and samples a weight."""
    slopes = _gate_slopes(level)
    turned = slopes.flatten(1, 2).transpose(1, 2)
    first = turned.bmm(level.inputs.flatten(1, 2))
    later = slopes[:, 1:].flatten(1, 2).transpose(1, 2)
    return _with_biases(level, first, later.bmm(level.outputs[:, :-1].flatten(1, 2)), turned.sum(dim=2))


def _each(level: Level) -> Parts:
    """The same, over the steps of one sample."""
    slopes = _gate_slopes(level)
    devices, _, batch, _ = slopes.shape
    turned = _by_sample(slopes)
    first = products(turned, _by_sample(level.inputs))
    later = products(_by_sample(slopes[:, 1:]), _by_sample(level.outputs[:, :-1]))
    found = _with_biases(level, first, later, turned.sum(dim=2))
    return tuple(part.view(devices, batch, *part.shape[1:]) for part in found)


def _by_sample(values: Tensor) -> Tensor:
    """[devices batch, features, steps]."""
    return values.permute(0, 2, 3, 1).flatten(0, 1).contiguous()


def _with_biases(level: Level, first: Tensor, later: Tensor, bias: Tensor) -> Parts:
    return (first, later, bias, bias.clone()) if len(level.parts) == 4 else (first, later)
