"""A network of linear layers and activations under cross-entropy: local SGD and sums of gradients by kernel.c."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.learning.dense.library import CALLBACK, CLayer, CSamples, load_library
from airfl.learning.engines.parallel import equal_parts, run_in_threads
from airfl.learning.flat import FlatModel
from airfl.learning.layers import LayeredModel, as_layers
from airfl.learning.layers.elementwise import Flatten, Identity, Relu, Sigmoid, Tanh
from airfl.learning.layers.linear import Linear
from airfl.learning.samples import Samples
from airfl.learning.sgd import normalise
from airfl.learning.task import DividedTask

ACTIVATIONS: dict[type, int] = {Relu: 1, Sigmoid: 2, Tanh: 3}
NO_ACTIVATION = 0
UNKNOWN_CLASS = 2
"""What kernel.c returns for a target that is no class; 1 stands for a lack of memory."""
FULL_PRECISION = "highest"
"""torch's name for float32 without a reduced precision of products."""


@dataclass(frozen=True)
class DenseLayer:
    """A linear layer and the activation that follows.

    Attributes:
        inputs: Numbers that it takes of a sample.
        outputs: Numbers that it gives.
        bias: Whether it has a bias.
        activation: One of `ACTIVATIONS`, or `NO_ACTIVATION`.
    """

    inputs: int
    outputs: int
    bias: bool
    activation: int = NO_ACTIVATION


@dataclass(frozen=True)
class DenseNetwork:
    """A fully connected network, whose functions release Python's lock.

    A device's result does not depend on the devices beside it.

    Attributes:
        layers: The layers, in the order of `module.parameters()`.
    """

    layers: tuple[DenseLayer, ...]

    @property
    def dimension(self) -> int:
        """The number of parameters, d."""
        return sum(layer.outputs * (layer.inputs + layer.bias) for layer in self.layers)

    def train(
        self,
        parameters: Tensor,
        samples: DenseSamples,
        rows: NDArray[np.int64],
        learning_rate: float,
        momentum: float,
        updates: Tensor,
        *,
        threads: int,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """Write theta_i - theta after local SGD into `updates` [devices, d], with each device on one thread.

        Args:
            parameters: theta, [d].
            samples: The training data.
            rows: Rows of the samples of each step, [devices, steps, batch], negative for none.
            learning_rate: eta.
            momentum: Momentum of SGD.
            updates: The result.
            threads: Number of threads.
            meanwhile: What this thread does before it takes part, while the others train; not called for one thread.
        """
        devices, steps, batch = rows.shape
        start, rows = parameters.contiguous(), np.ascontiguousarray(rows)
        into = updates if updates.is_contiguous() else torch.empty(updates.shape)
        others = max(min(threads, devices) - 1, 0)
        raised: list[BaseException] = []

        def call() -> None:
            try:
                if meanwhile:
                    meanwhile()
            except BaseException as error:  # also Ctrl-C, after which the other threads are waited for
                raised.append(error)

        failed = _library().airfl_dense_train(
            self._c_layers,
            len(self.layers),
            start.data_ptr(),
            samples.c,
            rows.ctypes.data,
            *(devices, steps, batch),
            *(learning_rate, momentum),
            into.data_ptr(),
            others,
            CALLBACK(call if meanwhile and others else 0),
        )
        if raised:
            raise raised[0]
        _check(failed)
        if into is not updates:
            updates.copy_(into)

    def sums(
        self,
        parameters: Tensor,
        inputs: Tensor,
        targets: Tensor,
        present: Tensor,
        into: Tensor,
        *,
        threads: int,
        bound: float = math.inf,
        clamp: float = math.inf,
    ) -> None:
        """Write the sum over j of present_j g_j into `into` [devices, d], contiguous, with each device on one thread.

        Each g_j is clipped to the l2 norm `bound`, or its coordinates to [-clamp, clamp].

        Args:
            parameters: [devices, d], which may be one vector expanded.
            inputs: [devices, n, *shape].
            targets: [devices, n].
            present: [devices, n], 1 for a sample and 0 for padding.
            into: The result.
            threads: Number of threads.
            bound: Largest norm of a sample's gradient.
            clamp: Largest magnitude of its coordinates.
        """
        shared = parameters.stride(0) == 0
        points = parameters[:1] if shared else parameters
        given = [part.contiguous() for part in (points, inputs.flatten(2), targets, present)]
        assert given[0].dtype == given[1].dtype == given[3].dtype == into.dtype == torch.float32

        def compute(part: slice) -> None:
            points, *samples = given
            failed = _library().airfl_dense_sums(
                self._c_layers,
                len(self.layers),
                (points if shared else points[part]).data_ptr(),
                shared,
                *(one[part].data_ptr() for one in samples),
                *targets[part].shape,
                *(bound, clamp),
                into[part].data_ptr(),
            )
            _check(failed)

        run_in_threads([functools.partial(compute, part) for part in equal_parts(len(targets), threads)])

    @functools.cached_property
    def _c_layers(self) -> ctypes.Array[CLayer]:
        fields = ((layer.inputs, layer.outputs, layer.bias, layer.activation) for layer in self.layers)
        return (CLayer * len(self.layers))(*(CLayer(*each) for each in fields))


@dataclass(frozen=True)
class DenseSamples:
    """The training data as kernel.c reads it.

    Attributes:
        c: The pointers.
        held: What they point into.
    """

    c: CSamples
    held: tuple[Tensor, ...]

    @classmethod
    def of(cls, train: Samples, mean: tuple[float, ...], std: tuple[float, ...]) -> DenseSamples:
        """Return the samples of a task that `dense_network_of` has a network for; mean, std: their normalisation."""
        inputs, targets = train.inputs.contiguous(), train.targets.contiguous()
        if not mean:
            return cls(CSamples(floats=inputs.data_ptr(), targets=targets.data_ptr()), (inputs, targets))
        channels = len(mean)
        every = torch.arange(256, dtype=torch.uint8).expand(channels, 256)[:, :, None]
        values = normalise(every, mean, std)[..., 0].contiguous()
        numbers = inputs[0].numel() // channels
        pointers = CSamples(
            bytes=inputs.data_ptr(), values=values.data_ptr(), channel=numbers, targets=targets.data_ptr()
        )
        return cls(pointers, (inputs, targets, values))


def dense_network_of(model: FlatModel, task: DividedTask) -> DenseNetwork | None:
    """Return the network that computes a task's model in float32 on a CPU; None if none does."""
    layered = as_layers(model.module, model.loss)
    parameter = next(model.module.parameters())
    if isinstance(layered, str) or parameter.dtype != torch.float32 or parameter.device.type != "cpu":
        return None
    network = dense_network(layered, model.shapes)
    reduced = torch.get_float32_matmul_precision() != FULL_PRECISION
    return None if network is None or reduced or not _takes(network, task) else network


def _takes(network: DenseNetwork, task: DividedTask) -> bool:
    """Whether samples of the task have the numbers that the network takes and classes that it has.

    kernel.c reads and writes memory accordingly.
    """
    inputs, every = task.train.inputs, task.train.targets
    # kernel.c checks the targets that it reads, and those that are generated when they are read are many.
    targets = every if isinstance(every, Tensor) else every[:1]
    if targets.dtype != torch.int64 or targets.dim() != 1 or not len(targets):
        return False
    typed = inputs.dtype == (torch.uint8 if task.mean else torch.float32)
    known = int(targets.min()) >= 0 and int(targets.max()) < network.layers[-1].outputs
    return typed and known and inputs[0].numel() == network.layers[0].inputs


def dense_network(layered: LayeredModel, shapes: list[torch.Size]) -> DenseNetwork | None:
    """Return a model as a fully connected network; None if it is none, or if there is no library for it.

    shapes: of the parameters, in the order of `module.parameters()`.
    """
    layers: list[DenseLayer] = []
    next_parameter = 0
    for index, node in enumerate(layered.nodes):
        if node.sources != (index - 1,):
            return None
        kind = type(node.layer)
        if kind is Linear:
            bias = len(node.parameter_indices) == 2
            if node.parameter_indices != tuple(range(next_parameter, next_parameter + 1 + bias)):
                return None
            outputs, inputs = shapes[next_parameter]
            layers.append(DenseLayer(inputs, outputs, bias))
            next_parameter += 1 + bias
        elif kind in ACTIVATIONS:
            if not layers or layers[-1].activation != NO_ACTIVATION:
                return None
            layers[-1] = DenseLayer(layers[-1].inputs, layers[-1].outputs, layers[-1].bias, ACTIVATIONS[kind])
        elif kind not in (Flatten, Identity):
            return None
    if not layers or layers[-1].activation != NO_ACTIVATION or load_library() is None:
        return None
    if any(one.outputs != other.inputs for one, other in itertools.pairwise(layers)):
        return None  # a layer that is applied at several positions of a sample
    return DenseNetwork(tuple(layers))


def _library() -> ctypes.CDLL:
    library = load_library()
    assert library is not None  # `dense_network` has found it
    return library


def _check(failed: int) -> None:
    if failed == UNKNOWN_CLASS:
        raise IndexError("a target is not one of the classes of the model")
    if failed:
        raise MemoryError("no memory for the layers of a fully connected network")
