"""Honest implementations: right answers that round in other places than the reference."""

from collections.abc import Callable

import torch

from workers.float8 import readable
from workers.mutation_testing.builder import GraphBuilder, TypedGraph, name_of, rewrite
from workers.mutation_testing.cases import MutationCase, Tensors
from workers.mutation_testing.mutants.reductions import PRODUCTS, ReducedAxes
from workers.mutation_testing.mutants.roundings import partial_products, steps
from workers.protocol import Graph, Node, NodeRef
from workers.protocol.graph import Value


def honest_graphs(sketch: TypedGraph, formulas: TypedGraph) -> dict[str, Graph]:
    """Return graphs that compute the same as the reference, by name, without those equal to the reference itself.

    Args:
        sketch: The reference.
        formulas: The reference, written out.
    """
    graphs = {
        "composite operations by their formulas": formulas.graph,
        "sums from the last element to the first": rewrite(formulas, _backwards),
        "sums in parts": rewrite(formulas, _in_parts),
    }
    different = {name: graph for name, graph in graphs.items() if graph.nodes != sketch.graph.nodes}
    return {name: graph for name, graph in different.items() if graph is formulas.graph or graph != formulas.graph}


def _rounded_once(case: MutationCase) -> Tensors:
    """Round float64 to the outputs' dtypes; where only the reference is finite, take the reference."""
    return tuple(
        torch.where(expected.isfinite() | ~readable(native).isfinite(), expected.to(native.dtype), native)
        for expected, native in zip(case.reference.expected, case.reference.native, strict=True)
    )


HONEST_ANSWERS: dict[str, Callable[[MutationCase], Tensors]] = {
    "the reference in its own dtypes": lambda case: case.reference.native,
    "float64, rounded once": _rounded_once,
}
"""Answers from values that the expectation already has."""


def _backwards(draft: GraphBuilder, node: Node, index: int) -> Value | None:
    if name_of(node) in PRODUCTS:
        left, right = (draft.form(value) for value in node.args[:2])
        if left is None or right is None:
            return None
        turned = (
            draft.call("flip.default", node.args[0], (len(left.shape) - 1,)),
            draft.call("flip.default", node.args[1], (max(0, len(right.shape) - 2),)),
        )
        return draft.call(node.op.removeprefix("aten."), *turned)
    reduction = _sum(draft, node)
    return reduction.of(draft, draft.call("flip.default", node.args[0], reduction.axes)) if reduction else None


def _in_parts(draft: GraphBuilder, node: Node, index: int) -> Value | None:
    if name_of(node) in PRODUCTS:
        left, right = (draft.form(value) for value in node.args[:2])
        return None if left is None or right is None else _added(draft, partial_products(draft, node, left, right))
    reduction = _sum(draft, node)
    if reduction is None:
        return None
    axis = reduction.axes[-1]
    keeps = bool(node.args[2]) if len(node.args) > 2 else False
    parts = [
        draft.call("sum.dim_IntList", draft.cut(node.args[0], axis, *part), reduction.axes, keeps)
        for part in steps(reduction.shape[axis])
    ]
    total = _added(draft, parts)
    return draft.call("div.Tensor", total, reduction.count) if name_of(node) == "mean" else total


def _sum(draft: GraphBuilder, node: Node) -> ReducedAxes | None:
    """Return the reduction of a node that is a sum or mean of floats; None for others."""
    form = draft.form(node.args[0]) if name_of(node) in ("sum", "mean") else None
    return ReducedAxes.read(draft, node) if form is not None and form.is_float else None


def _added(draft: GraphBuilder, parts: list[NodeRef]) -> NodeRef:
    """Add parts as a tree: neighbours first, then their sums."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [draft.call("add.Tensor", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]
