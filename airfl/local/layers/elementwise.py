"""What lies between layers with parameters: activations, sums, shapes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from airfl.local.layers.layer import Parts, by_device, pictures

aten = torch.ops.aten


class Relu:
    """max(x, 0)."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Tensor]:
        """See `Layer`."""
        found = torch.relu(inputs[0])
        return found, found

    def backward(self, parts: Parts, saved: Tensor, slope: Tensor) -> Parts:
        """See `Layer`."""
        return (aten.threshold_backward(slope, saved, 0),)


class Sigmoid:
    """1/(1 + exp(-x))."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Tensor]:
        """See `Layer`."""
        found = torch.sigmoid(inputs[0])
        return found, found

    def backward(self, parts: Parts, saved: Tensor, slope: Tensor) -> Parts:
        """See `Layer`."""
        return (aten.sigmoid_backward(slope, saved),)


class Tanh:
    """tanh(x)."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, Tensor]:
        """See `Layer`."""
        found = torch.tanh(inputs[0])
        return found, found

    def backward(self, parts: Parts, saved: Tensor, slope: Tensor) -> Parts:
        """See `Layer`."""
        return (aten.tanh_backward(slope, saved),)


class Identity:
    """x; also of what only changes a number's type."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, None]:
        """See `Layer`."""
        return inputs[0], None

    def backward(self, parts: Parts, saved: None, slope: Tensor) -> Parts:
        """See `Layer`."""
        return (slope,)


class Add:
    """x + y, of one shape."""

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, None]:
        """See `Layer`."""
        return inputs[0] + inputs[1], None

    def backward(self, parts: Parts, saved: None, slope: Tensor) -> Parts:
        """See `Layer`."""
        return slope, slope


class Flatten:
    """A sample's numbers in a row, channel by channel: [devices, batch, features].

    merged: whether it is given pictures of all devices; a model knows, the numbers of dimensions do not tell.
    """

    merged = False

    def __init__(self, module: nn.Module | None = None) -> None:
        if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
            raise NotImplementedError("flattening but from the first dimension to the last")

    def forward(self, parts: Parts, inputs: Parts, devices: int) -> tuple[Tensor, torch.Size]:
        """See `Layer`."""
        values = by_device(inputs[0], devices) if self.merged else inputs[0]
        return values.flatten(2), values.shape

    def backward(self, parts: Parts, saved: torch.Size, slope: Tensor) -> Parts:
        """See `Layer`."""
        values = slope.reshape(saved)
        return (pictures(values) if self.merged else values,)
