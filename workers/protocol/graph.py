"""The reference graph: an operator's reference as data, so that judging never runs the submitter's Python."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from typing_extensions import TypeAliasType

from workers.protocol.base import Constant, WireModel
from workers.protocol.operator import MAX_INPUTS, DtypeName, Shape

MAX_NODES = 8192
"""Maximum number of nodes of a graph; references of the catalogue stay under 160, models of KernelBench under 3000."""
MOST_FLOPS = 1e24
"""Maximum number of operations of a graph: more than any card computes in a year."""


class NodeRef(WireModel):
    """The value of an earlier node, or one of its results if it has several."""

    kind: Literal["node"] = "node"
    node: int = Field(ge=0, lt=MAX_NODES)
    result: int | None = None


class InputRef(WireModel):
    """An input of the operator, by position."""

    kind: Literal["input"] = "input"
    input: int = Field(ge=0, lt=MAX_INPUTS)


Reference: TypeAlias = NodeRef | InputRef
"""A value of a graph."""


class DtypeRef(WireModel):
    """A dtype passed to an operation."""

    kind: Literal["dtype"] = "dtype"
    dtype: DtypeName


Value = TypeAliasType("Value", "NodeRef | InputRef | DtypeRef | Constant | tuple[Value, ...]")
"""An argument of a node: a reference, a constant, or a list of them."""


class Node(WireModel):
    """One ATen call, such as `aten.mul.Tensor`. Arguments nest in lists; tensors and dtypes are references."""

    op: Annotated[str, Field(pattern=r"^(aten|prims)\.[a-z0-9_]+\.[A-Za-z0-9_]+$", max_length=96)]
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = {}

    @property
    def name(self) -> str:
        """Name of the operation without namespace and overload, such as `mul`."""
        return self.op.split(".")[1]

    @property
    def uses(self) -> tuple[Reference, ...]:
        """The values that it takes, in order, with repetitions."""
        return tuple(_references((self.args, tuple(self.kwargs.values()))))


class Graph(WireModel):
    """The reference for one shape: nodes in order, and the values that are its results, in the operator's order."""

    shape: Shape
    nodes: tuple[Node, ...] = Field(max_length=MAX_NODES)
    outputs: tuple[Reference, ...] = Field(min_length=1, max_length=16)
    output_shapes: tuple[tuple[Annotated[int, Field(ge=0, le=2**40)], ...], ...]
    output_dtypes: tuple[DtypeName, ...]
    matrix_flops: Annotated[float | None, Field(ge=0, le=MOST_FLOPS)] = None
    """Floating-point operations of its matrix products and convolutions, as the reference is written."""
    other_flops: Annotated[float | None, Field(ge=0, le=MOST_FLOPS)] = None
    """All other operations: one per element that an operation processes."""

    @model_validator(mode="after")
    def _references_hold(self) -> Self:
        for index, node in enumerate(self.nodes):
            if any(isinstance(used, NodeRef) and used.node >= index for used in node.uses):
                raise ValueError(f"node {index} ({node.op}) uses a value that does not exist before it")
        if any(isinstance(output, NodeRef) and output.node >= len(self.nodes) for output in self.outputs):
            raise ValueError("an output is a node that does not exist")
        if not len(self.outputs) == len(self.output_shapes) == len(self.output_dtypes):
            raise ValueError("every output needs one shape and one dtype")
        return self


def _references(value: object) -> Iterator[Reference]:
    if isinstance(value, NodeRef | InputRef):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _references(item)
