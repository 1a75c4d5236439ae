"""LSTM layers, with hand-written backpropagation through time.

Sequences are [devices, steps, batch, features] here. A level is one layer of a stack, with its parameters in the order
of `nn.LSTM`: W_ih [4 hidden, features], W_hh [4 hidden, hidden] and optionally two biases [4 hidden], for the gates i,
f, g, o.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from airfl.learning.layers.layer import Tensors, squares_of
from airfl.learning.layers.products import batched_product, products

_rnn, _rnn_backward = torch.ops.aten.mkldnn_rnn_layer, torch.ops.aten.mkldnn_rnn_layer_backward
LSTM = 2  # the mode of these operators


@dataclass
class Level:
    """One level of a pass through a stack of LSTM layers.

    Attributes:
        parameters: Parameters of the level, [devices, *shape] each.
        inputs: Inputs, [devices, steps, batch, features].
        outputs: Outputs, [devices, steps, batch, hidden].
        fused: Results of oneDNN's kernel for each device; None if the level was computed step by step.
        gates: Gates i, f, g, o after activation, [devices, steps, batch, 4 hidden]; after the fused kernel None until
            they are needed.
        cells: Cell states, [devices, steps, batch, hidden]; None in the same case.
        grad_output: Gradient with respect to the outputs, [devices, steps, batch, hidden]; None before the backward
            pass has reached the level.
        gradient: Gradients of `parameters`, if oneDNN's backward kernel has computed them; else None.
        grad_gates: Gradients with respect to the gates before activation, [devices, steps, batch, 4 hidden]; None until
            they are needed.
    """

    parameters: Tensors
    inputs: Tensor
    outputs: Tensor
    fused: list[Tensors] | None = None
    gates: Tensor | None = None
    cells: Tensor | None = None
    grad_output: Tensor | None = None
    gradient: Tensors | None = None
    grad_gates: Tensor | None = None


class Lstm:
    """A stack of LSTM layers with zero initial states: [devices, batch, steps, features] -> [..., hidden].

    What is saved refers to the parameters, which therefore may change only after the last call of `gradient`, `each`
    and `squares`. by_sample: set it if only `each` or `squares` are needed, for which the fused kernel is a detour.
    """

    by_sample = False

    def __init__(self, module: nn.Module) -> None:
        layer = cast(nn.LSTM, module)
        if layer.bidirectional or layer.dropout or layer.proj_size or not layer.batch_first:
            raise NotImplementedError("an LSTM that is bidirectional, not batch_first, or has dropout or a projection")
        self._levels, self._parameters_per_level = layer.num_layers, 4 if layer.bias else 2

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, list[Level]]:
        """Compute the outputs; the levels are saved."""
        levels: list[Level] = []
        values = inputs[0].transpose(1, 2).contiguous()
        fused = _fused(values) and not self.by_sample
        for level in range(self._levels):
            start = level * self._parameters_per_level
            of_level = parameters[start : start + self._parameters_per_level]
            levels.append(_fused_forward(of_level, values) if fused else _forward(of_level, values))
            values = levels[-1].outputs
        return values.transpose(1, 2), levels

    def backward(self, parameters: Tensors, saved: list[Level], grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        return (_backpropagate(saved, grad_output).transpose(1, 2),)

    def gradient(self, saved: list[Level], grad_output: Tensor, devices: int) -> Tensors:
        """Return the gradients of the parameters."""
        if saved[0].grad_output is None:
            _backpropagate(saved, grad_output)
        return tuple(part for level in saved for part in level.gradient or _gradient(level))

    def each(self, saved: list[Level], grad_output: Tensor, devices: int) -> Tensors:
        """Return the per-sample gradients of the parameters."""
        if saved[0].grad_output is None:
            _backpropagate(saved, grad_output)
        return tuple(part for level in saved for part in _each(level))

    def squares(self, saved: list[Level], grad_output: Tensor, devices: int) -> Tensor:
        """Return the squared norms of the per-sample gradients."""
        return squares_of(self.each(saved, grad_output, devices))


def _fused(values: Tensor) -> bool:
    """Whether to use oneDNN's kernel, which outperforms any loop over steps but is limited to float32 on a CPU."""
    usable = values.device.type == "cpu" and values.dtype == torch.float32 and not torch.compiler.is_compiling()
    return usable and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


def _backpropagate(levels: list[Level], grad_output: Tensor) -> Tensor:
    """Return the gradient with respect to the inputs from that with respect to the outputs, [devices, batch, steps,
    hidden]; every level stores its own."""
    values = grad_output.transpose(1, 2)
    for level in reversed(levels):
        level.grad_output = values.contiguous()
        values = _fused_backward(level) if level.fused else _backward(level)
    return values


def _fused_forward(parameters: Tensors, values: Tensor) -> Level:
    hidden, biased = parameters[1].shape[2], len(parameters) == 4
    zeros = values.new_zeros(1, values.shape[2], hidden)
    results: list[Tensors] = []
    with torch.enable_grad():  # otherwise the kernel keeps no workspace for its backward pass; autograd is not used
        for own, *weights in _by_device(values, parameters):
            results.append(_rnn(own, *weights, zeros, zeros, False, [], LSTM, hidden, 1, biased, False, False, True))
    return Level(parameters, values, _stacked(result[0] for result in results), fused=results)


def _fused_backward(level: Level) -> Tensor:
    """Return the gradient with respect to the inputs; those of the parameters are stored in the level."""
    hidden, biased = level.parameters[1].shape[2], len(level.parameters) == 4
    zeros = level.inputs.new_zeros(1, level.inputs.shape[2], hidden)
    gradients: list[list[Tensor]] = []
    grad_outputs = cast(Tensor, level.grad_output)
    rows = zip(_by_device(level.inputs, level.parameters), level.fused or (), grad_outputs, strict=True)
    for arguments, (outputs, last, cell, workspace), grad_output in rows:
        form = [False, LSTM, hidden, 1, biased, True, False, [], False]
        of_device = _rnn_backward(
            *arguments, zeros, zeros, outputs, last, cell, grad_output, None, None, *form, workspace
        )
        gradients.append(of_device[: 1 + len(level.parameters)])
    grad_inputs, *gradient = map(_stacked, zip(*gradients, strict=True))
    level.gradient = (*gradient[:-1], gradient[-1].clone())  # the biases share one tensor, which callers may modify
    return grad_inputs


def _stacked(parameters: Iterable[Tensor]) -> Tensor:
    first, *others = parameters
    return torch.stack([first, *others]) if others else first[None]


def _by_device(values: Tensor, parameters: Tensors) -> Iterator[tuple[Tensor, ...]]:
    """Yield the arguments of the fused kernels for each device: values, weights and (possibly zero) biases."""
    biases = parameters[2:] or (values.new_zeros(parameters[0].shape[:2]),) * 2
    return zip(values, *parameters[:2], *biases, strict=True)


def _forward(parameters: Tensors, values: Tensor) -> Level:
    """Compute a level step by step, for all devices at once."""
    gates = _sums(parameters, values)
    devices, steps, batch, _ = gates.shape
    recurrent = parameters[1].transpose(1, 2)
    outputs, cells = (gates.new_empty(devices, steps, batch, parameters[1].shape[2]) for _ in range(2))
    output, cell = gates.new_zeros(devices, batch, parameters[1].shape[2]), None
    for sums, next_output, next_cell in zip(gates.unbind(1), outputs.unbind(1), cells.unbind(1), strict=True):
        if cell is not None:
            sums.baddbmm_(output, recurrent)
        i, f, g, o = _activated(sums)
        torch.mul(i, g, out=next_cell)
        if cell is not None:
            next_cell.addcmul_(f, cell)
        torch.mul(o, next_cell.tanh(), out=next_output)
        output, cell = next_output, next_cell
    return Level(parameters, values, outputs, gates=gates, cells=cells)


def _sums(parameters: Tensors, values: Tensor) -> Tensor:
    """Return W_ih x + b of all steps, [devices, steps, batch, 4 hidden]."""
    sums = products(values.flatten(1, 2), parameters[0])
    if len(parameters) == 4:
        sums.add_((parameters[2] + parameters[3])[:, None])
    return sums.view(*values.shape[:3], -1)


def _activated(sums: Tensor) -> Tensors:
    """Apply the activations of the gates i, f, g, o to their sums [..., 4 hidden] in place, and return the gates."""
    hidden = sums.shape[-1] // 4
    sums[..., : 2 * hidden].sigmoid_()
    sums[..., 2 * hidden : 3 * hidden].tanh_()
    sums[..., 3 * hidden :].sigmoid_()
    return sums.chunk(4, dim=-1)


def _recall(level: Level) -> tuple[Tensor, Tensor]:
    """Return gates and cells of a level. The fused kernel does not return them; they follow from its outputs."""
    if level.gates is None or level.cells is None:
        gates = _sums(level.parameters, level.inputs)
        later = gates[:, 1:]
        later.add_(products(level.outputs[:, :-1].flatten(1, 2), level.parameters[1]).view(later.shape))
        i, f, g, _ = _activated(gates)
        cells = i * g
        steps = cells.unbind(1)
        for cell, before, forget in zip(steps[1:], steps, f.unbind(1)[1:], strict=False):
            cell.addcmul_(forget, before)
        level.gates, level.cells = gates, cells
    return level.gates, level.cells


def _grad_gates(level: Level) -> Tensor:
    """Return the gradients with respect to the gates before activation, [devices, steps, batch, 4 hidden]; they are
    computed from the last step to the first."""
    if level.grad_gates is None:
        gates, cells = _recall(level)
        i, f, g, o = gates.chunk(4, dim=-1)
        tanh_cells = cells.tanh()
        output_by_cell = o * (1 - tanh_cells.square())
        before = torch.nn.functional.pad(cells[:, :-1], (0, 0, 0, 0, 1, 0))
        # Local derivatives, which the gradients with respect to cell (i, f, g) or output (o) then multiply in place.
        factors = torch.stack(
            [g * i * (1 - i), before * f * (1 - f), i * (1 - g.square()), tanh_cells * o * (1 - o)], 3
        )
        grad_gates = factors.flatten(3)
        grad_cell = torch.zeros_like(cells[:, 0])
        later: Tensor | None = None
        grad_outputs = cast(Tensor, level.grad_output)
        for step in range(cells.shape[1] - 1, -1, -1):
            grad_output = grad_outputs[:, step]
            if later is not None:
                grad_output = torch.baddbmm(grad_output, later, level.parameters[1])
            grad_cell.addcmul_(grad_output, output_by_cell[:, step])
            factors[:, step, :, :3].mul_(grad_cell[:, :, None])
            factors[:, step, :, 3].mul_(grad_output)
            grad_cell.mul_(f[:, step])
            later = grad_gates[:, step]
        level.grad_gates = grad_gates
    return level.grad_gates


def _backward(level: Level) -> Tensor:
    transposed = level.parameters[0].transpose(1, 2).contiguous()
    return products(_grad_gates(level).flatten(1, 2), transposed).view(level.inputs.shape)


def _gradient(level: Level) -> Tensors:
    """Return the gradients of a level's parameters, by one product over all steps and samples per weight."""
    grad_gates = _grad_gates(level)
    transposed = grad_gates.flatten(1, 2).transpose(1, 2)
    input_weight = batched_product(transposed, level.inputs.flatten(1, 2))
    later = grad_gates[:, 1:].flatten(1, 2).transpose(1, 2)
    hidden_weight = batched_product(later, level.outputs[:, :-1].flatten(1, 2))
    return _with_biases(level, input_weight, hidden_weight, transposed.sum(dim=2))


def _each(level: Level) -> Tensors:
    """Return the per-sample gradients of a level's parameters, by products over the steps of each sample."""
    grad_gates = _grad_gates(level)
    devices, _, batch, _ = grad_gates.shape
    transposed = _by_sample(grad_gates)
    input_weight = products(transposed, _by_sample(level.inputs))
    hidden_weight = products(_by_sample(grad_gates[:, 1:]), _by_sample(level.outputs[:, :-1]))
    gradients = _with_biases(level, input_weight, hidden_weight, transposed.sum(dim=2))
    return tuple(part.view(devices, batch, *part.shape[1:]) for part in gradients)


def _by_sample(values: Tensor) -> Tensor:
    """[devices, steps, batch, features] -> [devices batch, features, steps]."""
    return values.permute(0, 2, 3, 1).flatten(0, 1).contiguous()


def _with_biases(level: Level, input_weight: Tensor, hidden_weight: Tensor, bias: Tensor) -> Tensors:
    weights = (input_weight, hidden_weight)
    return (*weights, bias, bias.clone()) if len(level.parameters) == 4 else weights
