"""Hand-batched layers: forward and backward passes of many devices' copies of a model in one computation."""

from airfl.local.layers.layer import Layer, ParametricLayer, Tensors
from airfl.local.layers.model import (
    LayeredModel,
    Node,
    Tape,
    Visitor,
    as_layers,
    logit_gradients,
    parameters_of,
    parametric,
)

__all__ = [
    "Layer",
    "LayeredModel",
    "Node",
    "ParametricLayer",
    "Tape",
    "Tensors",
    "Visitor",
    "as_layers",
    "logit_gradients",
    "parameters_of",
    "parametric",
]
