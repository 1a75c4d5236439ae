"""A fully connected layer whose weights are never materialised while a device trains.

After some steps the weights are W - eta sum_j c_j delta_j x_j' over the samples j used so far: the weights that all
devices share, plus a matrix of rank at most the number of samples. Products with the shared part are one product for
all devices, and those with the low-rank part are small. The results are those of SGD, summed in another order.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from airfl.learning.layers import Layer, Node, Tensors
from airfl.learning.layers.linear import Linear
from airfl.learning.layers.products import product
from channels.transfer import on_device

# Fewest weights of a layer that is factored; below it the matrices fit into the cache anyway.
LARGE = 1 << 17


def worth_factoring(node: Node, start: Tensors, samples: int) -> bool:
    """Whether a layer takes fewer operations in factored form for this many samples per device."""
    if not isinstance(node.layer, Linear):
        return False
    outputs, inputs = start[node.parameter_indices[0]].shape
    return outputs * inputs >= LARGE and samples * (outputs + inputs) <= outputs * inputs


class Factored:
    """Replaces a `Linear` while one chunk of devices trains; its parameters are the shared W [out, in], bias [out]."""

    def __init__(self, layer: Layer, momentum: float, learning_rate: float) -> None:
        assert isinstance(layer, Linear)
        self._bias, self._momentum, self._rate = layer.bias, momentum, learning_rate
        self._inputs: list[Tensor] = []
        self._grad_outputs: list[Tensor] = []

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Tensor]:
        """Apply the layer with the weights after the steps so far; the inputs are saved."""
        (values,) = inputs
        outputs = product(values.flatten(0, 1), parameters[0]).view(*values.shape[:2], -1)
        outputs = outputs.add_(parameters[1]) if self._bias else outputs
        for earlier, grad_output, coefficient in self._earlier_steps(devices):
            products = values.bmm(earlier.transpose(1, 2))
            products = products.add_(1.0) if self._bias else products
            outputs.baddbmm_(products, grad_output, alpha=-self._rate * coefficient)
        return outputs, values

    def backward(self, parameters: Tensors, saved: Tensor, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        gradient = product(grad_output.flatten(0, 1), parameters[0].t().contiguous()).view(saved.shape)
        for inputs, earlier, coefficient in self._earlier_steps(len(grad_output)):
            gradient.baddbmm_(grad_output.bmm(earlier.transpose(1, 2)), inputs, alpha=-self._rate * coefficient)
        return (gradient,)

    def step(self, saved: Tensor, grad_output: Tensor) -> None:
        """Record an SGD step: inputs and output gradients of the devices that are still training."""
        self._inputs.append(saved)
        self._grad_outputs.append(grad_output)

    def write(self, into: list[Tensor], positions: np.ndarray) -> None:
        """Write the updates of the weights [devices, out in] and biases [devices, out].

        Device i of the round is number positions[i] in the order of this chunk, in which those with more steps come
        first. Devices with the same number of steps are one product.
        """
        active, rows = [len(inputs) for inputs in self._inputs], np.argsort(positions)
        for count in range(len(active) + 1):  # of steps, which the devices at these positions have made
            begin = active[count] if count < len(active) else 0
            end = active[count - 1] if count else len(positions)
            if begin == end:
                continue
            own = rows[begin:end]
            neighbours = bool((np.diff(own) == 1).all())
            at = slice(own[0], own[-1] + 1) if neighbours else on_device(own, into[0].device)
            if not count:
                for part in into:
                    part[at] = 0.0
                continue
            factors = [-self._rate * self._coefficient(step, count) for step in range(count)]
            steps = [self._grad_outputs[step][begin:end] * factor for step, factor in enumerate(factors)]
            left = torch.cat(steps, dim=1).transpose(1, 2)
            right = torch.cat([self._inputs[step][begin:end] for step in range(count)], dim=1)
            if neighbours:
                torch.bmm(left, right, out=into[0][at].view(len(own), left.shape[1], -1))
            else:
                into[0][at] = left.bmm(right).flatten(1)
            if self._bias:
                into[1][at] = left.sum(dim=2)

    def _earlier_steps(self, devices: int) -> list[tuple[Tensor, Tensor, float]]:
        """Return inputs, output gradients and coefficient of every step so far."""
        done = len(self._inputs)
        return [
            (self._inputs[step][:devices], self._grad_outputs[step][:devices], self._coefficient(step, done))
            for step in range(done)
        ]

    def _coefficient(self, step: int, done: int) -> float:
        """Return 1 + momentum + ... : how often a step's gradient has been applied after `done` steps."""
        return float(sum(self._momentum**later for later in range(done - step)))
