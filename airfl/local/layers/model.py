"""A module as hand-batched layers, in the order in which they are computed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx, nn

from airfl.local.layers.elementwise import Flatten
from airfl.local.layers.layer import Layer, ParametricLayer, Parts
from airfl.local.layers.table import FUNCTIONS, METHODS, MODULES, OF_FEATURES, OF_PICTURES


@dataclass(frozen=True)
class Node:
    """A layer in its place.

    Attributes:
        layer: What it computes.
        sources: Nodes whose outputs it takes, -1 for the model's inputs.
        places: Places of its parameters in the order of `module.parameters()`.
        steep: Whether a layer with parameters comes before it.
    """

    layer: Layer
    sources: tuple[int, ...]
    places: tuple[int, ...]
    steep: bool


@dataclass(frozen=True)
class Tape:
    """What a forward pass leaves.

    Attributes:
        logits: Outputs of the model, [devices, batch, classes].
        saved: What every node saved, in the nodes' order.
    """

    logits: Tensor
    saved: list[Any]


NOT_CROSS_ENTROPY = "the loss is not cross-entropy"
Visitor = Callable[[int, Node, Any, Tensor], None]
"""(number, node, what it saved, slope by its output), of each node with parameters, from the last to the first; the
slopes by its inputs are known by then, so that its parameters may change."""


@dataclass(frozen=True)
class LayeredModel:
    """Forward and backward passes of many devices' copies of a model, layer by layer, with no autograd.

    Attributes:
        nodes: Its layers, each after those whose outputs it takes.
    """

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, module: nn.Module) -> LayeredModel | None:
        """None for a module that is made of other layers than those of the table, or has a penalty of its own."""
        found = cls.or_why_not(module)
        return None if isinstance(found, str) else found

    @classmethod
    def or_why_not(cls, module: nn.Module) -> LayeredModel | str:
        """The same, and in a few words why it is none."""
        if hasattr(module, "penalty"):
            return "it has a penalty of its own"
        try:
            return cls(_nodes(module))
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:  # whatever the module does in tracing
            return str(error).split("\n")[0][:100] or type(error).__name__

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


def as_layers(module: nn.Module, loss: object) -> LayeredModel | str:
    """A module as hand-batched layers, whose slopes are those of cross-entropy, `loss` None; else why it is not."""
    return LayeredModel.or_why_not(module) if loss is None else NOT_CROSS_ENTROPY


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

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        found = super().call_module(m, forward, args, kwargs)
        return (found, None) if isinstance(m, nn.LSTM) else found  # its final state is not computed


def _nodes(module: nn.Module) -> tuple[Node, ...]:
    place_of = {id(parameter): place for place, parameter in enumerate(module.parameters())}
    numbers: dict[fx.Node, int] = {}
    nodes: list[Node] = []
    pictures: set[int] = set()
    for traced in _Tracer().trace(module).nodes:
        if traced.op == "placeholder":
            if numbers:
                raise NotImplementedError("several inputs")
            numbers[traced] = -1
        elif traced.op == "output":
            if numbers.get(traced.args[0]) != len(nodes) - 1:
                raise NotImplementedError("an output that is not the last that is computed")
        else:
            layer, places = _layer(module, traced, place_of)
            sources = tuple(numbers[source] for source in traced.args if isinstance(source, fx.Node))
            pictured = any(source in pictures for source in sources)
            if isinstance(layer, Flatten):
                layer.merged = pictured
            elif pictured and isinstance(layer, OF_FEATURES):
                raise NotImplementedError("a layer of features over pictures")
            elif pictured or isinstance(layer, OF_PICTURES):
                pictures.add(len(nodes))
            before = [nodes[source] for source in sources if source >= 0]
            numbers[traced] = len(nodes)
            nodes.append(Node(layer, sources, places, any(node.steep or node.places for node in before)))
    if {source for node in nodes for source in node.sources} | {-1} != set(range(-1, len(nodes) - 1)):
        raise NotImplementedError("a layer whose output has no use")
    if sorted(place for node in nodes for place in node.places) != list(range(len(place_of))):
        raise NotImplementedError("parameters that no layer uses, or several")
    return tuple(nodes)


def _layer(module: nn.Module, traced: fx.Node, place_of: dict[int, int]) -> tuple[Layer, tuple[int, ...]]:
    """Of a traced node, and the places of its parameters."""
    fixed = [argument for argument in traced.args if not isinstance(argument, fx.Node)]
    if any(traced.kwargs.values()) or (fixed and traced.target is not operator.getitem):
        raise NotImplementedError(f"{traced.target} with settings of the call")
    if traced.op == "call_module":
        part = module.get_submodule(cast(str, traced.target))
        if type(part) not in MODULES:
            raise NotImplementedError(type(part).__name__)
        return MODULES[type(part)](part), tuple(place_of[id(parameter)] for parameter in part.parameters())
    tables: dict[str, dict[Any, Callable[..., Layer]]] = {"call_function": FUNCTIONS, "call_method": METHODS}
    table = tables.get(traced.op, {})
    if traced.target not in table:
        raise NotImplementedError(str(traced.target))
    return table[traced.target](*fixed), ()
