"""Drafts: a reference graph rewritten node by node into another graph, with references kept in order."""

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
    """Shape and dtype of a value, as the reference has it in the operator's own dtypes."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def is_float(self) -> bool:
        """Whether the values are floats."""
        return self.dtype.is_floating_point

    @property
    def is_half(self) -> bool:
        """Whether the values are floats narrower than float32."""
        return self.dtype.is_floating_point and self.dtype.itemsize < 4


@dataclass(frozen=True)
class TypedGraph:
    """A graph with the form of every value that something uses.

    Attributes:
        graph: The graph.
        forms: By reference.
    """

    graph: Graph
    forms: dict[Reference, TensorForm]

    @cached_property
    def results(self) -> dict[int, list[NodeRef]]:
        """References to results of each node that something uses."""
        found: dict[int, list[NodeRef]] = {}
        for ref in self.forms:
            if isinstance(ref, NodeRef):
                found.setdefault(ref.node, []).append(ref)
        return found

    def form_of(self, index: int) -> TensorForm | None:
        """What the result of a node looks like; None if it has several, or nothing uses it."""
        return self.forms.get(NodeRef.model_construct(node=index))

    @classmethod
    def of(cls, graph: Graph, inputs: Sequence[torch.Tensor]) -> "TypedGraph":
        """Evaluate the graph once, in its own dtypes, to see what its values look like."""
        used = dict.fromkeys([*(used for node in graph.nodes for used in node.uses), *graph.outputs])
        results = evaluate(graph.model_copy(update={"outputs": tuple(used)}), inputs, double=False)
        forms = {ref: _form(result) for ref, result in zip(used, results, strict=True)}
        return cls(graph, {**{InputRef(input=i): _form(tensor) for i, tensor in enumerate(inputs)}, **forms})


def _form(tensor: torch.Tensor) -> TensorForm:
    return TensorForm(tuple(tensor.shape), tensor.dtype)


class GraphBuilder:
    """A graph in the making. Nodes are appended; forms are known for values that the sketch has, too."""

    def __init__(self, sketch: TypedGraph) -> None:
        self.nodes: list[Node] = []
        self._sketch = sketch
        self._values: dict[Reference, Value] = {}
        self._forms: dict[Reference, TensorForm] = {}
        for ref, form in sketch.forms.items():
            if isinstance(ref, InputRef):
                self._values[ref], self._forms[ref] = ref, form

    def call(self, op: str, *args: Value, **kwargs: Value) -> NodeRef:
        """Append a call, such as `mul.Tensor`; returns what refers to its result."""
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
        """What a value of the sketch looks like; None for constants and for what the draft has added."""
        return self._forms.get(value) if isinstance(value, NodeRef | InputRef) else None

    def replace_input(self, position: int, value: Value) -> None:
        """Put a value in place of an input."""
        ref = InputRef.model_construct(input=position)
        self._values[ref] = value
        if isinstance(value, NodeRef) and ref in self._forms:
            self._forms[value] = self._forms[ref]

    def replace(self, index: int, value: Value) -> None:
        """Put a value in place of a node of the sketch, or a tuple of values where the node has several results."""
        self._values[NodeRef.model_construct(node=index)] = value
        for known in self._sketch.results.get(index, ()):
            moved = self.moved(known)
            if isinstance(moved, NodeRef | InputRef):
                self._forms.setdefault(moved, self._sketch.forms[known])

    def moved(self, value: Value) -> Value:
        """A value of the sketch as the draft has it."""
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
        """A node of the sketch as the draft would have it."""
        args = tuple(self.moved(value) for value in node.args)
        return Node.model_construct(op=node.op, args=args, kwargs={k: self.moved(v) for k, v in node.kwargs.items()})

    def copy(self, node: Node) -> NodeRef:
        """Append a node of the draft's as it is."""
        self.nodes.append(node)
        return NodeRef.model_construct(node=len(self.nodes) - 1)


Change: TypeAlias = Callable[[GraphBuilder, Node, int], Value | None]
"""What to put in place of a node (its references moved already; its index in the sketch): a value, a tuple of values
where the node has several results, or None to leave it."""


def unchanged(draft: GraphBuilder, node: Node, index: int) -> None:
    """Leave every node as it is."""


def rewrite(sketch: TypedGraph, change: Change = unchanged, draft: GraphBuilder | None = None) -> Graph:
    """The graph with nodes changed, behind what a draft begins with, if there is one."""
    draft = draft or GraphBuilder(sketch)
    for index, node in enumerate(sketch.graph.nodes):
        moved = draft.moved_node(node)
        value = change(draft, moved, index)
        draft.replace(index, draft.copy(moved) if value is None else value)
    outputs = tuple(draft.moved(ref) for ref in sketch.graph.outputs)
    return sketch.graph.model_copy(update={"nodes": tuple(draft.nodes), "outputs": outputs})


def named(names: str) -> frozenset[str]:
    """Names of operations out of a text."""
    return frozenset(names.split())


def name_of(node: Node) -> str:
    """The operation without namespace and overload, such as `mul`."""
    return node.op.split(".")[1]
