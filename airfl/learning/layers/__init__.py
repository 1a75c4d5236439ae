"""Hand-batched layers: forward and backward passes of many devices' copies of a model in one computation."""

from airfl.learning.layers.layer import Layer, Tensors
from airfl.learning.layers.model import (
    LayeredModel,
    Node,
    as_layers,
    logit_gradients,
    parameters_of,
    parametric,
)

__all__ = [
    "Layer",
    "LayeredModel",
    "Node",
    "Tensors",
    "as_layers",
    "logit_gradients",
    "parameters_of",
    "parametric",
]
