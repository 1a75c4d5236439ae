"""A fully connected layer whose weights are never written down while a device trains.

After some steps they are W - eta sum_j c_j delta_j x_j' over the samples j seen so far: the weights that all devices
share, and a matrix of as low a rank as there were samples. Products with the shared part are one product for all
devices, those with the rest are small. The numbers are those of SGD, summed in another order.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from airfl.local.layers import Layer, Node, Parts
from airfl.local.layers.linear import Linear
from airfl.local.layers.products import product

# Weights from so many on; below it the matrices fit into the cache anyway.
LARGE = 1 << 17


def worth_factoring(node: Node, start: Parts, samples: int) -> bool:
    """Whether a layer's products with the samples of a device are fewer than those with its weights."""
    if not isinstance(node.layer, Linear):
        return False
    leaving, entering = start[node.places[0]].shape
    return leaving * entering >= LARGE and samples * (leaving + entering) <= leaving * entering


class Factored:
    """In the place of a `Linear` while one chunk of devices trains; parts are the shared W [out, in] and bias [out]."""

    def __init__(self, layer: Layer, momentum: float, learning_rate: float) -> None:
        assert isinstance(layer, Linear)
        self._bias, self._momentum, self._rate = layer.bias, momentum, learning_rate
        self._entered: list[Tensor] = []
        self._left: list[Tensor] = []

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Tensor]:
        """See `Layer`."""
        (given,) = inputs
        found = product(given.flatten(0, 1), parts[0]).view(*given.shape[:2], -1)
        found = found.add_(parts[1]) if self._bias else found
        for entered, left, share in self._before(devices):
            along = given.bmm(entered.transpose(1, 2))
            along = along.add_(1.0) if self._bias else along
            found.baddbmm_(along, left, alpha=-self._rate * share)
        return found, given

    def backward(self, parts: Parts, saved: Tensor, slope: Tensor) -> Parts:
        """See `Layer`."""
        found = product(slope.flatten(0, 1), parts[0].t().contiguous()).view(saved.shape)
        for entered, left, share in self._before(len(slope)):
            found.baddbmm_(slope.bmm(left.transpose(1, 2)), entered, alpha=-self._rate * share)
        return (found,)

    def take(self, saved: Tensor, slope: Tensor) -> None:
        """A step: what entered the layer and the slope by what left it, of the devices that still train."""
        self._entered.append(saved)
        self._left.append(slope)

    def write(self, into: list[Tensor], places: np.ndarray) -> None:
        """The updates of weights [devices, out in] and biases [devices, out]; device i of the round is number places[i]
        of this chunk's order."""
        for row, number in enumerate(places.tolist()):
            own = [step for step, entered in enumerate(self._entered) if number < len(entered)]
            shares = [-self._rate * self._share(step, len(own)) for step in own]
            weight = into[0][row].view(self._left[0].shape[-1], -1) if own else into[0][row].zero_()
            if own:
                left = torch.cat([self._left[step][number] * share for step, share in zip(own, shares, strict=True)])
                entered = torch.cat([self._entered[step][number] for step in own])
                torch.mm(left.t(), entered, out=weight)
            if self._bias:
                torch.sum(left, dim=0, out=into[1][row]) if own else into[1][row].zero_()

    def _before(self, devices: int) -> list[tuple[Tensor, Tensor, float]]:
        """What entered and left in every step before, and its share in the parameters' way."""
        done = len(self._entered)
        return [
            (self._entered[step][:devices], self._left[step][:devices], self._share(step, done)) for step in range(done)
        ]

    def _share(self, step: int, done: int) -> float:
        """1 + momentum + ... : how often a step's gradient has moved the parameters after `done` steps."""
        return float(sum(self._momentum**later for later in range(done - step)))
