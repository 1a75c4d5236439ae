"""The table of hand-batched layers. To add a layer, add a file beside this one and a line here."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from airfl.learning.layers.convolution import Convolution
from airfl.learning.layers.elementwise import Add, Flatten, Identity, Relu, Sigmoid, Tanh
from airfl.learning.layers.embedding import Embedding, Item, Long
from airfl.learning.layers.layer import Layer
from airfl.learning.layers.linear import Linear
from airfl.learning.layers.normalisation import GroupNorm
from airfl.learning.layers.pooling import AdaptiveAveragePool, MaxPool
from airfl.learning.layers.recurrent import Lstm
from airfl.learning.tasks.models.modules import resnet18

MODULES: dict[type[nn.Module], Callable[[Any], Layer]] = {
    nn.Linear: Linear,
    nn.Conv2d: Convolution,
    nn.MaxPool2d: MaxPool,
    nn.AdaptiveAvgPool2d: AdaptiveAveragePool,
    nn.GroupNorm: lambda module: GroupNorm(module, module.num_groups, module.eps),
    resnet18.GroupNorm: lambda module: GroupNorm(module, module.groups, 1e-5),
    nn.ReLU: Relu,
    nn.Sigmoid: Sigmoid,
    nn.Tanh: Tanh,
    nn.Flatten: Flatten,
    nn.Identity: Identity,
    nn.Embedding: Embedding,
    nn.LSTM: Lstm,
}

FUNCTIONS: dict[Callable[..., Any], Callable[..., Layer]] = {
    operator.add: Add,
    torch.add: Add,
    F.relu: Relu,
    torch.relu: Relu,
    torch.sigmoid: Sigmoid,
    torch.tanh: Tanh,
    operator.getitem: Item,
}

METHODS: dict[str, Callable[..., Layer]] = {"long": Long}

# Layers whose outputs are feature maps, and layers that cannot take feature maps before they are flattened.
IMAGE_LAYERS = (Convolution, MaxPool, AdaptiveAveragePool, GroupNorm)
FEATURE_LAYERS = (Linear, Embedding, Item, Lstm)
