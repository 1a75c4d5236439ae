"""Operations without parameters: activations, sums, reshaping."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from airfl.learning.layers.layer import Tensors, by_device, feature_maps

aten = torch.ops.aten


class Relu:
    """max(x, 0)."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Tensor]:
        """Return max(x, 0), which is saved too."""
        outputs = torch.relu(inputs[0])
        return outputs, outputs

    def backward(self, parameters: Tensors, saved: Tensor, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        return (aten.threshold_backward(grad_output, saved, 0),)


class Sigmoid:
    """1/(1 + exp(-x))."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Tensor]:
        """Return 1/(1 + exp(-x)), which is saved too."""
        outputs = torch.sigmoid(inputs[0])
        return outputs, outputs

    def backward(self, parameters: Tensors, saved: Tensor, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        return (aten.sigmoid_backward(grad_output, saved),)


class Tanh:
    """tanh(x)."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, Tensor]:
        """Return tanh(x), which is saved too."""
        outputs = torch.tanh(inputs[0])
        return outputs, outputs

    def backward(self, parameters: Tensors, saved: Tensor, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        return (aten.tanh_backward(grad_output, saved),)


class Identity:
    """x; also stands for operations that only change a number's type."""

    def __init__(self, module: nn.Module | None = None) -> None: ...

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, None]:
        """Return the input; nothing is saved."""
        return inputs[0], None

    def backward(self, parameters: Tensors, saved: None, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        return (grad_output,)


class Add:
    """x + y, where both have the same shape."""

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, None]:
        """Return the sum; nothing is saved."""
        return inputs[0] + inputs[1], None

    def backward(self, parameters: Tensors, saved: None, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        return grad_output, grad_output


class Flatten:
    """Flatten every sample, channel by channel, to [devices, batch, features].

    merged: whether the inputs are feature maps of all devices. The model sets it, since the number of dimensions alone
    does not show it.
    """

    merged = False

    def __init__(self, module: nn.Module | None = None) -> None:
        if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
            raise NotImplementedError("flattening of some dimensions only")

    def forward(self, parameters: Tensors, inputs: Tensors, devices: int) -> tuple[Tensor, torch.Size]:
        """Flatten; the shape is saved."""
        values = by_device(inputs[0], devices) if self.merged else inputs[0]
        return values.flatten(2), values.shape

    def backward(self, parameters: Tensors, saved: torch.Size, grad_output: Tensor) -> Tensors:
        """Return the gradient with respect to the inputs."""
        values = grad_output.reshape(saved)
        return (feature_maps(values) if self.merged else values,)
