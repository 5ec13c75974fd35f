"""Answers for trials, honest and trivial.

Honest implementations are right, but round in other places than the reference. Trivial answers are results of kernels
that do not do the work.
"""

from collections.abc import Callable, Iterator

import torch

from workers.float8 import readable
from workers.inputs import draw
from workers.mutation_testing.builder import GraphBuilder, TypedGraph, rewrite
from workers.mutation_testing.cases import MutationCase, Tensors
from workers.mutation_testing.mutants.reductions import PRODUCTS, ReducedAxes
from workers.mutation_testing.mutants.roundings import partial_products, steps
from workers.protocol import Graph, Node, NodeRef
from workers.protocol.graph import Value
from workers.reference import evaluate


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
    if node.name in PRODUCTS:
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
    if node.name in PRODUCTS:
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
    return draft.call("div.Tensor", total, reduction.count) if node.name == "mean" else total


def _sum(draft: GraphBuilder, node: Node) -> ReducedAxes | None:
    """Return the reduction of a node that is a sum or mean of floats; None for others."""
    form = draft.form(node.args[0]) if node.name in ("sum", "mean") else None
    return ReducedAxes.read(draft, node) if form is not None and form.is_float else None


def _added(draft: GraphBuilder, parts: list[NodeRef]) -> NodeRef:
    """Add parts as a tree: neighbours first, then their sums."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [draft.call("add.Tensor", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


UNINITIALISED = 0xFF
"""Byte that fills memory before a kernel runs: NaN as a float, -1 as an integer."""

DEPENDENT = ("copy of", "first row")
"""Prefixes of answers made from the inputs or results of one case; an operator may compute exactly that."""


def trivial_answers(case: MutationCase) -> Iterator[tuple[str, Tensors]]:
    """Yield wrong answers to a case, by name; each replaces one output, and the others are right."""
    right = case.reference.native
    other = evaluate(case.graph, draw(case.operator, case.graph.shape, case.draw, b"another seed"), double=False)
    for number, output in enumerate(case.operator.results):
        of = f" as '{output.name}'" if len(right) > 1 else ""
        for name, answer in _instead_of(case, number):
            yield name + of, (*right[:number], answer, *right[number + 1 :])
        yield "right answer to other inputs" + of, (*right[:number], other[number], *right[number + 1 :])


def _instead_of(case: MutationCase, number: int) -> Iterator[tuple[str, torch.Tensor]]:
    right, expected = case.reference.native[number], case.reference.expected[number]
    yield "zeros", torch.zeros_like(right)
    yield "ones", torch.ones_like(right)
    yield "uninitialised memory", _uninitialised(right)
    for item, tensor in zip(case.operator.given, case.inputs, strict=True):
        if not tensor.numel():
            continue
        yield f"copy of '{item.name}'", _copied(tensor, right)
    if right.dim() and right.shape[0] > 1:
        yield "first row for all", right[:1].expand_as(right).contiguous()
    values = expected.double()[expected.isfinite()]
    if values.numel() > 1 and bool(values.std() > 0):
        yield "mean everywhere", values.mean().expand(right.shape).to(right.dtype)
        yield "noise of equal mean and spread", _noise(right, values)


def _copied(tensor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Cast and broadcast an input; if that is impossible, take its elements in order, repeated as needed."""
    lined_up = zip(reversed(tensor.shape), reversed(right.shape), strict=False)
    if tensor.dim() <= right.dim() and all(size in (1, wanted) for size, wanted in lined_up):
        return tensor.to(right.dtype).expand_as(right).contiguous()
    times = -(-right.numel() // max(1, tensor.numel()))
    return tensor.flatten().repeat(times)[: right.numel()].reshape(right.shape).to(right.dtype)


def _uninitialised(right: torch.Tensor) -> torch.Tensor:
    memory = torch.full((max(1, right.numel() * right.element_size()),), UNINITIALISED, dtype=torch.uint8)
    if right.dtype == torch.bool:
        return memory[: right.numel()].bool().reshape(right.shape)
    return memory[: right.numel() * right.element_size()].view(right.dtype).reshape(right.shape)


def _noise(right: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(right.shape, generator=generator, dtype=torch.float64)
    return (values.mean() + values.std() * noise).to(right.dtype)
