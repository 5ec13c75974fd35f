"""Translation of a reference graph to a `torch.fx` module: the eager baseline, and the input of torch.compile.

It computes what `workers.reference.evaluate` computes in the operator's dtypes, but on the inputs themselves, and
leaves matrix products with NaN and infinities to BLAS: looking for them would make the host wait for the card.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import fx

from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef
from workers.protocol.base import NON_FINITE
from workers.reference import call_of

Tensors: TypeAlias = Sequence[torch.Tensor]
Function: TypeAlias = Callable[[Tensors], tuple[torch.Tensor, ...]]
"""Computes the operator's outputs from its inputs, both in order."""


def to_module(graph: Graph, inputs: int, device: torch.device) -> fx.GraphModule:
    """Translate a graph; the module takes the operator's inputs and returns a tuple.

    Args:
        graph: The reference for one shape.
        inputs: Number of the operator's inputs.
        device: Device on which factories of the graph create tensors.

    Raises:
        ValueError: If it contains an operation that a reference may not use.
    """
    translation = _Translation(inputs, device)
    for node in graph.nodes:
        translation.add(node)
    return translation.finish(graph.outputs)


def spread(module: Callable[..., tuple[torch.Tensor, ...]]) -> Function:
    """Wrap a function with one parameter per input as one that takes all inputs in one sequence."""

    def function(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return module(*inputs)

    return function


class _Translation:
    """Translation of a graph in progress: from protocol nodes to fx nodes."""

    def __init__(self, inputs: int, device: torch.device) -> None:
        self._fx = fx.Graph()
        self._device = device
        self._nodes: list[fx.Node] = []
        self._inputs = [self._fx.placeholder(f"input_{index}") for index in range(inputs)]

    def add(self, node: Node) -> None:
        """Add one node."""
        operation, args, kwargs = call_of(node, self._value, self._device)
        self._nodes.append(self._fx.call_function(operation, tuple(args), kwargs))

    def finish(self, outputs: Sequence[NodeRef | InputRef]) -> fx.GraphModule:
        """Return the module, once all nodes are added."""
        self._fx.output(tuple(self._value(output) for output in outputs))
        self._fx.lint()
        return fx.GraphModule(torch.nn.Module(), self._fx)

    def _value(self, value: object) -> fx.node.Argument:
        match value:
            case NodeRef():
                node = self._nodes[value.node]
                return node if value.result is None else self._fx.call_function(operator.getitem, (node, value.result))
            case InputRef():
                return self._inputs[value.input]
            case DtypeRef():
                dtype: torch.dtype = getattr(torch, value.dtype)
                return dtype
            case tuple() | list():
                return [self._value(item) for item in value]
            case str():
                return NON_FINITE.get(value, value)
            case bool() | int() | float() | None:
                return value
        raise ValueError(f"a reference graph may not hold a {type(value).__name__}")
