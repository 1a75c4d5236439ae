"""Hand-batched layers: forward and backward passes of many devices' copies of a model at once."""

from airfl.local.layers.layer import Layer, Parts
from airfl.local.layers.model import LayeredModel, Node, as_layers, logit_slopes, own, parametric

__all__ = [
    "Layer",
    "LayeredModel",
    "Node",
    "Parts",
    "as_layers",
    "logit_slopes",
    "own",
    "parametric",
]
