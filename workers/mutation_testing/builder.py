"""Builder of graphs: rewrites a reference graph node by node, and adapts references between nodes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch

from workers.protocol import DtypeRef, Graph, InputRef, Node, NodeRef, Reference
from workers.protocol.graph import Value
from workers.reference import evaluate


@dataclass(frozen=True)
class TensorForm:
    """Shape and dtype of a value of the reference, in the operator's own dtypes."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def is_float(self) -> bool:
        """True if the values are floats."""
        return self.dtype.is_floating_point

    @property
    def is_half(self) -> bool:
        """True if the values are floats narrower than float32."""
        return self.dtype.is_floating_point and self.dtype.itemsize < 4


@dataclass(frozen=True)
class TypedGraph:
    """A graph with the form of every value that is used.

    Attributes:
        graph: The graph.
        forms: Forms, by reference to the value.
    """

    graph: Graph
    forms: dict[Reference, TensorForm]

    @cached_property
    def results(self) -> dict[int, list[NodeRef]]:
        """References to the used results of each node."""
        found: dict[int, list[NodeRef]] = {}
        for ref in self.forms:
            if isinstance(ref, NodeRef):
                found.setdefault(ref.node, []).append(ref)
        return found

    def form_of(self, index: int) -> TensorForm | None:
        """Return the form of a node's result; None if it has several, or is not used."""
        return self.forms.get(NodeRef.model_construct(node=index))

    @classmethod
    def of(cls, graph: Graph, inputs: Sequence[torch.Tensor]) -> "TypedGraph":
        """Evaluate the graph once, in its own dtypes, to get the forms of its values."""
        used = dict.fromkeys([*(used for node in graph.nodes for used in node.uses), *graph.outputs])
        results = evaluate(graph.model_copy(update={"outputs": tuple(used)}), inputs, double=False)
        forms = {ref: _form(result) for ref, result in zip(used, results, strict=True)}
        return cls(graph, {**{InputRef(input=i): _form(tensor) for i, tensor in enumerate(inputs)}, **forms})


def _form(tensor: torch.Tensor) -> TensorForm:
    return TensorForm(tuple(tensor.shape), tensor.dtype)


class GraphBuilder:
    """Builder of a graph by appending nodes; it knows the forms of values that come from the sketch."""

    def __init__(self, sketch: TypedGraph) -> None:
        self.nodes: list[Node] = []
        self._sketch = sketch
        self._values: dict[Reference, Value] = {}
        self._forms: dict[Reference, TensorForm] = {}
        for ref, form in sketch.forms.items():
            if isinstance(ref, InputRef):
                self._values[ref], self._forms[ref] = ref, form

    def call(self, op: str, *args: Value, **kwargs: Value) -> NodeRef:
        """Append a call, such as `mul.Tensor`. Returns the reference to its result."""
        self.nodes.append(Node.model_construct(op=f"aten.{op}", args=args, kwargs=kwargs))
        return NodeRef.model_construct(node=len(self.nodes) - 1)

    def cast(self, value: Value, dtype: torch.dtype) -> NodeRef:
        """Append a cast."""
        name = DtypeRef.model_validate({"dtype": str(dtype).removeprefix("torch.")})
        return self.call("_to_copy.default", value, dtype=name)

    def rounded(self, value: Value, dtype: torch.dtype, back: torch.dtype) -> NodeRef:
        """Append a cast to a narrower dtype, and back."""
        return self.cast(self.cast(value, dtype), back)

    def cut(self, value: Value, axis: int, start: int, stop: int) -> NodeRef:
        """Append a slice along an axis."""
        return self.call("slice.Tensor", value, axis, start, stop)

    def form(self, value: Value) -> TensorForm | None:
        """Return the form of a value of the sketch; None for constants and for values that the draft added."""
        return self._forms.get(value) if isinstance(value, NodeRef | InputRef) else None

    def replace_input(self, position: int, value: Value) -> None:
        """Replace an input by a value."""
        ref = InputRef.model_construct(input=position)
        self._values[ref] = value
        if isinstance(value, NodeRef) and ref in self._forms:
            self._forms[value] = self._forms[ref]

    def replace(self, index: int, value: Value) -> None:
        """Replace a node of the sketch by a value, or by a tuple of values if the node has several results."""
        self._values[NodeRef.model_construct(node=index)] = value
        for known in self._sketch.results.get(index, ()):
            moved = self.moved(known)
            if isinstance(moved, NodeRef | InputRef):
                self._forms.setdefault(moved, self._sketch.forms[known])

    def moved(self, value: Value) -> Value:
        """Return the draft's value for a value of the sketch."""
        match value:
            case InputRef():
                return self._values.get(value, value)
            case NodeRef(node=node, result=None):
                return self._values[NodeRef.model_construct(node=node)]
            case NodeRef(node=node, result=result):
                whole = self._values[NodeRef.model_construct(node=node)]
                if isinstance(whole, tuple):
                    return whole[result or 0]
                return NodeRef.model_construct(node=whole.node, result=result) if isinstance(whole, NodeRef) else whole
            case tuple() | list():
                return tuple(self.moved(item) for item in value)
        return value

    def moved_node(self, node: Node) -> Node:
        """Return a node of the sketch with references to the draft."""
        args = tuple(self.moved(value) for value in node.args)
        return Node.model_construct(op=node.op, args=args, kwargs={k: self.moved(v) for k, v in node.kwargs.items()})

    def copy(self, node: Node) -> NodeRef:
        """Append a node whose references are the draft's."""
        self.nodes.append(node)
        return NodeRef.model_construct(node=len(self.nodes) - 1)


Change: TypeAlias = Callable[[GraphBuilder, Node, int], Value | None]
"""Function that replaces a node, given with the draft's references and its index in the sketch. Returns a value, a
tuple of values if the node has several results, or None to keep the node."""


def unchanged(draft: GraphBuilder, node: Node, index: int) -> None:
    """Keep every node."""


def rewrite(sketch: TypedGraph, change: Change = unchanged, draft: GraphBuilder | None = None) -> Graph:
    """Return the graph with changed nodes, appended to a draft if there is one."""
    draft = draft or GraphBuilder(sketch)
    for index, node in enumerate(sketch.graph.nodes):
        moved = draft.moved_node(node)
        value = change(draft, moved, index)
        draft.replace(index, draft.copy(moved) if value is None else value)
    outputs = tuple(draft.moved(ref) for ref in sketch.graph.outputs)
    return sketch.graph.model_copy(update={"nodes": tuple(draft.nodes), "outputs": outputs})


def named(names: str) -> frozenset[str]:
    """Split a text into names of operations."""
    return frozenset(names.split())
