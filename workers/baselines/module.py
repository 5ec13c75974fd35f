"""Translation of a reference graph to a `torch.fx` module: the eager baseline, and the input of torch.compile.

It computes what `workers.reference.evaluate` computes in the operator's dtypes, but on the inputs themselves, with
batch norms as a user calls them, and leaves matrix products with NaN and infinities to BLAS: looking for them would
make the host wait for the card.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch import fx

from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef
from workers.protocol.base import NON_FINITE
from workers.reference import call_of

BATCH_NORM = "native_batch_norm"
"""Name of the batch norm of a reference graph. Called so it is never cuDNN's, which a user's eager PyTorch takes: on an
H200 `nn.BatchNorm2d` of 4.3 GB took 16.3 ms, and 8.4 as KernelBench's evaluator calls it."""

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
    taken = {(use.node, use.result) for use in (*graph.outputs, *_uses(graph)) if isinstance(use, NodeRef)}
    for index, node in enumerate(graph.nodes):
        if node.name == BATCH_NORM and not taken & {(index, 1), (index, 2)}:
            translation.add_batch_norm(node)
        else:
            translation.add(node)
    return translation.finish(graph.outputs)


def _uses(graph: Graph) -> Iterator[NodeRef | InputRef]:
    for node in graph.nodes:
        yield from node.uses


def spread(module: Callable[..., tuple[torch.Tensor, ...]]) -> Function:
    """Wrap a function with one parameter per input as one that takes all inputs in one sequence."""

    def function(inputs: Tensors) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return module(*inputs)

    return function


class _Translation:
    """Translation of a graph in progress: from protocol nodes to fx nodes, or lists of their results."""

    def __init__(self, inputs: int, device: torch.device) -> None:
        self._fx = fx.Graph()
        self._device = device
        self._nodes: list[fx.Node | list[fx.Node]] = []
        self._inputs = [self._fx.placeholder(f"input_{index}") for index in range(inputs)]

    def add(self, node: Node) -> None:
        """Add one node."""
        operation, args, kwargs = call_of(node, self._value, self._device)
        self._nodes.append(self._fx.call_function(operation, tuple(args), kwargs))

    def add_batch_norm(self, node: Node) -> None:
        """Add a batch norm of which only the result is taken, as a user calls it."""
        _, args, _ = call_of(node, self._value, self._device)
        self._nodes.append([self._fx.call_function(torch.ops.aten.batch_norm.default, (*args, True))])

    def finish(self, outputs: Sequence[NodeRef | InputRef]) -> fx.GraphModule:
        """Return the module, once all nodes are added."""
        self._fx.output(tuple(self._value(output) for output in outputs))
        self._fx.lint()
        return fx.GraphModule(torch.nn.Module(), self._fx)

    def _value(self, value: object) -> fx.node.Argument:
        match value:
            case NodeRef():
                node = self._nodes[value.node]
                if isinstance(node, list):
                    return node[value.result or 0]
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
