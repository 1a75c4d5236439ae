"""Translation of a torch module into hand-batched layers, and the passes through them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx, nn

from airfl.learning.layers.elementwise import Flatten
from airfl.learning.layers.layer import Layer, ParametricLayer, Tensors
from airfl.learning.layers.table import FEATURE_LAYERS, FUNCTIONS, IMAGE_LAYERS, METHODS, MODULES


@dataclass(frozen=True)
class Node:
    """A node of the computation graph.

    Attributes:
        layer: The layer or operation.
        sources: Indices of the nodes whose outputs it takes, -1 for the model's inputs.
        parameter_indices: Indices of its parameters in the order of `module.parameters()`.
        needs_input_grad: Whether a layer with parameters comes before it.
    """

    layer: Layer
    sources: tuple[int, ...]
    parameter_indices: tuple[int, ...]
    needs_input_grad: bool


@dataclass(frozen=True)
class Tape:
    """The result of a forward pass.

    Attributes:
        logits: Outputs of the model, [devices, batch, classes].
        saved: What every node saved for the backward pass, in the order of the nodes.
    """

    logits: Tensor
    saved: list[Any]


NOT_CROSS_ENTROPY = "the loss is not cross-entropy"
Visitor = Callable[[int, Node, Any, Tensor], None]
"""Called with (index, node, what it saved, gradient with respect to its output) for each node with parameters, from the
last to the first. The gradients with respect to its inputs are computed by then, so that its parameters may change."""


@dataclass(frozen=True)
class LayeredModel:
    """Forward and backward passes of many devices' copies of a model, layer by layer, without autograd.

    Attributes:
        nodes: The layers, in topological order.
    """

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, module: nn.Module) -> LayeredModel | None:
        """Return the layered model, or None if a layer is not in the table or the module has a penalty."""
        layered = cls.or_why_not(module)
        return None if isinstance(layered, str) else layered

    @classmethod
    def or_why_not(cls, module: nn.Module) -> LayeredModel | str:
        """Return the layered model, or a short reason why the module cannot be one."""
        if hasattr(module, "penalty"):
            return "it has a penalty() method"
        try:
            return cls(_nodes(module))
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:  # the module may do anything in tracing
            return str(error).split("\n")[0][:100] or type(error).__name__

    def forward(self, parameters: Sequence[Tensor], inputs: Tensor) -> Tape:
        """Compute the logits; parameters: [devices, *shape] each; inputs: [devices, batch, *shape]."""
        outputs: list[Tensor] = []
        saved: list[Any] = []
        for node in self.nodes:
            node_inputs = tuple(inputs if source < 0 else outputs[source] for source in node.sources)
            output, saved_of_node = node.layer.forward(parameters_of(parameters, node), node_inputs, len(inputs))
            outputs.append(output)
            saved.append(saved_of_node)
        return Tape(outputs[-1], saved)

    def backward(self, parameters: Sequence[Tensor], tape: Tape, grad_logits: Tensor, visit: Visitor) -> None:
        """Visit every node with parameters; grad_logits: gradient of the loss with respect to the logits, [devices,
        batch, classes]."""
        gradients: dict[int, Tensor] = {len(self.nodes) - 1: grad_logits}
        for index in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[index]
            grad_output = gradients.pop(index, None)
            if grad_output is None:
                continue
            saved, tape.saved[index] = tape.saved[index], None
            if node.needs_input_grad:
                grad_inputs = node.layer.backward(parameters_of(parameters, node), saved, grad_output)
                for source, gradient in zip(node.sources, grad_inputs, strict=True):
                    if source >= 0 and (self.nodes[source].needs_input_grad or self.nodes[source].parameter_indices):
                        gradients[source] = gradients[source] + gradient if source in gradients else gradient
            if node.parameter_indices:
                visit(index, node, saved, grad_output)


def as_layers(module: nn.Module, loss: object) -> LayeredModel | str:
    """Return a module as hand-batched layers, or the reason why not; they need cross-entropy (`loss` None)."""
    return LayeredModel.or_why_not(module) if loss is None else NOT_CROSS_ENTROPY


def parameters_of(parameters: Sequence[Tensor], node: Node) -> Tensors:
    """Select a node's parameters from those of the model."""
    return tuple(parameters[index] for index in node.parameter_indices)


def parametric(node: Node) -> ParametricLayer:
    """Return the layer of a node that has parameters."""
    return cast(ParametricLayer, node.layer)


def logit_gradients(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the gradient of sum_j weights_j cross-entropy_j with respect to the logits [devices, batch, classes].

    targets, weights: [devices, batch].
    """
    gradients = torch.softmax(logits, dim=-1)
    gradients.scatter_add_(-1, targets[..., None], gradients.new_full((1, 1, 1), -1.0).expand(*targets.shape, 1))
    return gradients.mul_(weights[..., None])


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, module_qualified_name: str) -> bool:
        return type(module) in MODULES or super().is_leaf_module(module, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        output = super().call_module(m, forward, args, kwargs)
        return (output, None) if isinstance(m, nn.LSTM) else output  # the final state is not computed


def _nodes(module: nn.Module) -> tuple[Node, ...]:
    index_of = {id(parameter): index for index, parameter in enumerate(module.parameters())}
    numbers: dict[fx.Node, int] = {}
    nodes: list[Node] = []
    with_maps: set[int] = set()  # nodes whose outputs are feature maps
    for traced in _Tracer().trace(module).nodes:
        if traced.op == "placeholder":
            if numbers:
                raise NotImplementedError("a model with several inputs")
            numbers[traced] = -1
        elif traced.op == "output":
            if numbers.get(traced.args[0]) != len(nodes) - 1:
                raise NotImplementedError("an output that is not that of the last operation")
        else:
            layer, parameter_indices = _layer(module, traced, index_of)
            sources = tuple(numbers[source] for source in traced.args if isinstance(source, fx.Node))
            takes_maps = any(source in with_maps for source in sources)
            if isinstance(layer, Flatten):
                layer.merged = takes_maps
            elif takes_maps and isinstance(layer, FEATURE_LAYERS):
                raise NotImplementedError(f"{type(layer).__name__} on feature maps that are not flattened")
            elif takes_maps or isinstance(layer, IMAGE_LAYERS):
                with_maps.add(len(nodes))
            before = [nodes[source] for source in sources if source >= 0]
            needs_input_grad = any(node.needs_input_grad or node.parameter_indices for node in before)
            numbers[traced] = len(nodes)
            nodes.append(Node(layer, sources, parameter_indices, needs_input_grad))
    if {source for node in nodes for source in node.sources} | {-1} != set(range(-1, len(nodes) - 1)):
        raise NotImplementedError("a layer whose output is not used")
    if sorted(index for node in nodes for index in node.parameter_indices) != list(range(len(index_of))):
        raise NotImplementedError("a parameter that no layer uses, or that several layers share")
    return tuple(nodes)


def _layer(module: nn.Module, traced: fx.Node, index_of: dict[int, int]) -> tuple[Layer, tuple[int, ...]]:
    """Return the layer of a traced node and the indices of its parameters."""
    fixed = [argument for argument in traced.args if not isinstance(argument, fx.Node)]
    if any(traced.kwargs.values()) or (fixed and traced.target is not operator.getitem):
        raise NotImplementedError(f"{traced.target} with further arguments")
    if traced.op == "call_module":
        part = module.get_submodule(cast(str, traced.target))
        if type(part) not in MODULES:
            raise NotImplementedError(type(part).__name__)
        return MODULES[type(part)](part), tuple(index_of[id(parameter)] for parameter in part.parameters())
    tables: dict[str, dict[Any, Callable[..., Layer]]] = {"call_function": FUNCTIONS, "call_method": METHODS}
    table = tables.get(traced.op, {})
    if traced.target not in table:
        raise NotImplementedError(str(traced.target))
    return table[traced.target](*fixed), ()
