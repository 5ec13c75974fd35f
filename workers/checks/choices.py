"""Indices of computed values: the order of values that are equal but for rounding is open.

PyTorch documents none even for equal ones. Values that are inputs, or that were only cast and moved, have no rounding:
their ties are broken as in the reference.
"""

from dataclasses import dataclass
from typing import Self

import torch

from workers.protocol import Graph, InputRef, NodeRef
from workers.reference import RoundedFloats, is_whole_slice, origin

_WITH_VALUES = ("sort", "max", "min")
"""Operations whose second result is a place along an axis."""
_ALONE = ("argmax", "argmin")


def chosen_among(graph: Graph, rounded: RoundedFloats) -> frozenset[int]:
    """Return the nodes with rounding among whose values places are chosen that other nodes use, as in routing."""
    used = {value for node in graph.nodes for value in node.uses if isinstance(value, NodeRef)}
    found = set[int]()
    for index, node in enumerate(graph.nodes):
        place = NodeRef(node=index, result=1 if node.name in _WITH_VALUES else None)
        if node.name in (*_WITH_VALUES, *_ALONE) and place in used:
            source = origin(graph, node.uses[0])
            found |= {source} & rounded.nodes if source is not None else set()
    return frozenset(found)


@dataclass(frozen=True)
class Choice:
    """Values among which an integer result chooses places.

    Attributes:
        graph: Graph with the values as its only result.
        graph_with_places: Graph with the places and the values as its results.
        axis: Axis along which a place counts.
        squeezed: True if the result lacks that axis.
        depends_on_another: True if values with rounding are chosen among on the way to the values.
    """

    graph: Graph
    graph_with_places: Graph
    axis: int
    squeezed: bool
    depends_on_another: bool

    @classmethod
    def of(cls, graph: Graph, number: int, rounded: RoundedFloats) -> Self | None:
        """Return the values of a result; None for other results, and for values without rounding."""
        value = graph.outputs[number]
        while isinstance(value, NodeRef) and is_whole_slice(graph.nodes[value.node]):
            value = graph.nodes[value.node].uses[0]
        if isinstance(value, InputRef):
            return None
        node = graph.nodes[value.node]
        name = node.name
        axis, kept = ([*node.args[1:3], None, None])[:2]
        axis = node.kwargs.get("dim", -1 if name == "sort" else axis)
        kept = True if name == "sort" else node.kwargs.get("keepdim", kept or False)
        is_place = value.result == 1 if name in _WITH_VALUES else name in _ALONE
        source = node.uses[0] if node.uses else None
        if not is_place or not isinstance(axis, int) or not isinstance(source, NodeRef):
            return None
        if source.node not in rounded.nodes:
            return None
        told = {"outputs": (source,), "output_shapes": ((),), "output_dtypes": ("float32",)}
        both = {
            "outputs": (graph.outputs[number], source),
            "output_shapes": ((), ()),
            "output_dtypes": (graph.output_dtypes[number], "float32"),
        }
        before = graph.model_copy(update={"nodes": graph.nodes[: source.node + 1]})
        return cls(
            graph=graph.model_copy(update=told),
            graph_with_places=graph.model_copy(update=both),
            axis=axis,
            squeezed=not kept,
            depends_on_another=bool(chosen_among(before, rounded)),
        )

    def explains(
        self, got: torch.Tensor, expected: torch.Tensor, values: torch.Tensor, allowance: torch.Tensor
    ) -> torch.Tensor:
        """Return the places of a result where its value is the expected one within an allowance.

        Args:
            got: The result.
            expected: The reference's.
            values: The values, float64.
            allowance: Largest rounding of each.
        """
        places, right = (each.long().unsqueeze(self.axis) if self.squeezed else each.long() for each in (got, expected))
        others = [list(tensor.shape) for tensor in (places, values)]
        for shape in others:
            del shape[self.axis]
        if others[0] != others[1]:
            return torch.zeros_like(got, dtype=torch.bool)
        inside = (places >= 0) & (places < values.shape[self.axis])
        near = places.clamp(0, values.shape[self.axis] - 1)
        one, other = values.gather(self.axis, near), values.gather(self.axis, right)
        allowed = allowance.gather(self.axis, near) + allowance.gather(self.axis, right)
        found = inside & (((one - other).abs() <= allowed) | (one == other) | (one.isnan() & other.isnan()))
        twice = near.sort(dim=self.axis).values.diff(dim=self.axis) == 0
        found &= ~twice.any(dim=self.axis, keepdim=True)
        return found.squeeze(self.axis) if self.squeezed else found
