"""A module as hand-batched layers, in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx, nn

from airfl.local.layers.layer import Layer, ParametricLayer, Parts
from airfl.local.layers.table import FUNCTIONS, MODULES


@dataclass(frozen=True)
class Node:
    """A layer in its place. sources: nodes whose outputs it takes, -1 for the model's inputs; places: of its parameters
    in the order of `module.parameters()`; steep: whether a layer with parameters comes before it."""

    layer: Layer
    sources: tuple[int, ...]
    places: tuple[int, ...]
    steep: bool


@dataclass(frozen=True)
class Tape:
    """What a forward pass leaves: the logits [devices, batch, classes], and what every node saved."""

    logits: Tensor
    saved: list[Any]


Visitor = Callable[[int, Node, Any, Tensor], None]
"""(number, node, what it saved, slope by its output), of each node with parameters, from the last to the first; the
slopes by its inputs are known by then, so that its parameters may change."""


@dataclass(frozen=True)
class LayeredModel:
    """Forward and backward passes of many devices' copies of a model, layer by layer, with no autograd."""

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, module: nn.Module) -> LayeredModel | None:
        """None for a module that is made of other layers than those of the table, or has a penalty of its own."""
        if hasattr(module, "penalty"):
            return None
        try:
            return cls(_nodes(module))
        except (fx.proxy.TraceError, NotImplementedError, TypeError):
            return None

    def forward(self, parts: Sequence[Tensor], inputs: Tensor) -> Tape:
        """parts: [devices, *shape] each; inputs: [devices, batch, *shape]."""
        outputs: list[Tensor] = []
        saved: list[Any] = []
        for node in self.nodes:
            given = tuple(inputs if source < 0 else outputs[source] for source in node.sources)
            output, kept = node.layer.forward(own(parts, node), given, len(inputs))
            outputs.append(output)
            saved.append(kept)
        return Tape(outputs[-1], saved)

    def backward(self, parts: Sequence[Tensor], tape: Tape, slope: Tensor, visit: Visitor) -> None:
        """slope: of the loss by the logits, [devices, batch, classes]."""
        slopes: dict[int, Tensor] = {len(self.nodes) - 1: slope}
        for number in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[number]
            arriving = slopes.pop(number, None)
            if arriving is None:
                continue
            saved, tape.saved[number] = tape.saved[number], None
            if node.steep:
                leaving = node.layer.backward(own(parts, node), saved, arriving)
                for source, part in zip(node.sources, leaving, strict=True):
                    if source >= 0 and (self.nodes[source].steep or self.nodes[source].places):
                        slopes[source] = slopes[source] + part if source in slopes else part
            if node.places:
                visit(number, node, saved, arriving)


def own(parts: Sequence[Tensor], node: Node) -> Parts:
    """A node's parameters out of those of the model."""
    return tuple(parts[place] for place in node.places)


def parametric(node: Node) -> ParametricLayer:
    """The layer of a node that has parameters."""
    return cast(ParametricLayer, node.layer)


def logit_slopes(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Slope of sum_j weights_j cross-entropy_j by the logits [devices, batch, classes]; the others [devices, batch]."""
    slopes = torch.softmax(logits, dim=-1)
    slopes.scatter_add_(-1, targets[..., None], slopes.new_full((1, 1, 1), -1.0).expand(*targets.shape, 1))
    return slopes.mul_(weights[..., None])


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, module_qualified_name: str) -> bool:
        return type(module) in MODULES or super().is_leaf_module(module, module_qualified_name)


def _nodes(module: nn.Module) -> tuple[Node, ...]:
    place_of = {id(parameter): place for place, parameter in enumerate(module.parameters())}
    numbers: dict[fx.Node, int] = {}
    nodes: list[Node] = []
    for traced in _Tracer().trace(module).nodes:
        if traced.op == "placeholder":
            numbers[traced] = -1
        elif traced.op == "output":
            if numbers.get(traced.args[0]) != len(nodes) - 1:
                raise NotImplementedError("an output that is not the last that is computed")
        else:
            layer, places = _layer(module, traced, place_of)
            sources = tuple(numbers[source] for source in traced.all_input_nodes)
            before = [nodes[source] for source in sources if source >= 0]
            numbers[traced] = len(nodes)
            nodes.append(Node(layer, sources, places, any(node.steep or node.places for node in before)))
    if sorted(place for node in nodes for place in node.places) != list(range(len(place_of))):
        raise NotImplementedError("parameters that no layer uses, or several")
    return tuple(nodes)


def _layer(module: nn.Module, traced: fx.Node, place_of: dict[int, int]) -> tuple[Layer, tuple[int, ...]]:
    """Of a traced node, and the places of its parameters."""
    if traced.op == "call_module":
        part = module.get_submodule(cast(str, traced.target))
        if type(part) not in MODULES:
            raise NotImplementedError(type(part).__name__)
        return MODULES[type(part)](part), tuple(place_of[id(parameter)] for parameter in part.parameters())
    plain = all(isinstance(argument, fx.Node) for argument in traced.args) and not any(traced.kwargs.values())
    if traced.op != "call_function" or traced.target not in FUNCTIONS or not plain:
        raise NotImplementedError(str(traced.target))
    return FUNCTIONS[traced.target](), ()
