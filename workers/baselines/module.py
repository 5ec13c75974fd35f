"""A reference graph as a `torch.fx` module: run as it is, it is the eager baseline; torch.compile takes it too.

It computes what `workers.reference.evaluate` computes in the operator's dtypes, but on the inputs themselves, and
leaves matrix products with NaN and infinities to BLAS: looking for them would make the host wait for the card.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import fx
from torch._ops import OpOverload

from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef
from workers.protocol.base import NON_FINITE
from workers.reference import is_allowed

Tensors: TypeAlias = Sequence[torch.Tensor]
Function: TypeAlias = Callable[[Tensors], tuple[torch.Tensor, ...]]
"""The operator's inputs in, its outputs out, both in order."""


def to_module(graph: Graph, inputs: int, device: torch.device) -> fx.GraphModule:
    """Translate a graph; the module takes the operator's inputs and returns a tuple.

    Args:
        graph: The reference for one shape.
        inputs: How many inputs the operator has.
        device: Where factories of the graph make their tensors.

    Raises:
        ValueError: If it names an operation that a reference may not use.
    """
    translation = _Translation(inputs, device)
    for node in graph.nodes:
        translation.add(node)
    return translation.finish(graph.outputs)


def spread(module: Callable[..., tuple[torch.Tensor, ...]]) -> Function:
    """A function of all inputs at once from one that takes them one by one."""

    def function(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return module(*inputs)

    return function


class _Translation:
    """The walk over a graph: protocol nodes in, fx nodes out."""

    def __init__(self, inputs: int, device: torch.device) -> None:
        self._fx = fx.Graph()
        self._device = device
        self._nodes: list[fx.Node] = []
        self._inputs = [self._fx.placeholder(f"input_{index}") for index in range(inputs)]

    def add(self, node: Node) -> None:
        """Take over one node."""
        operation = _operation(node.op)
        args = tuple(self._value(value) for value in node.args)
        kwargs = {name: self._value(value) for name, value in node.kwargs.items()}
        if "memory_format" in kwargs:
            kwargs["memory_format"] = getattr(torch, str(kwargs["memory_format"]))
        if _is_factory(operation):
            kwargs["device"] = self._device
        self._nodes.append(self._fx.call_function(operation, args, kwargs))

    def finish(self, outputs: Sequence[NodeRef | InputRef]) -> fx.GraphModule:
        """The module, once all nodes are added."""
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


def _operation(op: str) -> OpOverload:
    namespace, name, overload = op.split(".")
    if namespace != "aten" or not is_allowed(name, overload):
        raise ValueError(f"a reference graph may not contain {op}")
    found: OpOverload = getattr(getattr(torch.ops.aten, name), overload)
    return found


def _is_factory(operation: OpOverload) -> bool:
    arguments = operation._schema.arguments
    takes_tensor = any("Tensor" in str(argument.type) for argument in arguments)
    return not takes_tensor and any(argument.name == "device" for argument in arguments)
