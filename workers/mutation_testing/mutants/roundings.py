"""Mutations that only round: sums held in a half-precision dtype, operands cut to TF32, float8 with a digit fewer.

In exact arithmetic they equal the reference. So a mutant that the contract's dtypes cannot tell from it is no fault of
the checks.
"""

import torch

from workers.float8 import mantissa_bits
from workers.mutation_testing.builder import GraphBuilder, TensorForm, TypedGraph, named, rewrite
from workers.mutation_testing.mutants.base import Mutation, Spoil
from workers.mutation_testing.mutants.boundaries import before_rounding
from workers.mutation_testing.mutants.reductions import PRODUCTS, SUMS, ReducedAxes
from workers.protocol import Graph, Node, NodeRef
from workers.protocol.graph import Value

STEPS = 32
"""Maximum number of steps of a sum, each of which rounds. Kernels take one step per tile, hence more."""
SPLIT = 2.0**13 + 1
"""Veltkamp's constant: keeps the 11 leading bits of a float32, as TF32 does."""
SINGLE_DIGITS = torch.finfo(torch.float32).bits - 8
"""Binary digits of a float32."""
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def _sum_in(dtype: torch.dtype) -> Spoil:
    def spoil(draft: GraphBuilder, node: Node) -> Value | None:
        reduction, form = ReducedAxes.read(draft, node), draft.form(node.args[0])
        if reduction is None or form is None or not _is_wider(form, dtype):
            return None
        axis = reduction.axes[-1]
        over = (node.args[0], reduction.axes, bool(node.args[2]) if len(node.args) > 2 else False)
        parts = [
            draft.cast(draft.call("sum.dim_IntList", draft.cut(over[0], axis, *part), *over[1:]), dtype)
            for part in steps(reduction.shape[axis])
        ]
        total = draft.cast(_added(draft, parts), form.dtype)
        return draft.call("div.Tensor", total, reduction.count) if node.name == "mean" else total

    return spoil


def _product_in(dtype: torch.dtype) -> Spoil:
    def spoil(draft: GraphBuilder, node: Node) -> Value | None:
        left, right = (draft.form(value) for value in node.args[:2])
        if left is None or right is None or not _is_wider(left, dtype):
            return None
        parts = [draft.cast(part, dtype) for part in partial_products(draft, node, left, right)]
        return draft.cast(_added(draft, parts), left.dtype)

    return spoil


def partial_products(draft: GraphBuilder, node: Node, left: TensorForm, right: TensorForm) -> list[NodeRef]:
    """Compute a matrix product in steps along the inner axis."""
    axes = len(left.shape) - 1, max(0, len(right.shape) - 2)
    return [
        draft.call(
            node.op.removeprefix("aten."),
            *(draft.cut(value, axis, *part) for value, axis in zip(node.args[:2], axes, strict=True)),
        )
        for part in steps(left.shape[-1])
    ]


def steps(size: int) -> list[tuple[int, int]]:
    """Return starts and stops of at most `STEPS` parts of an axis."""
    length = -(-size // STEPS)
    return [(start, min(start + length, size)) for start in range(0, size, length)]


def _added(draft: GraphBuilder, parts: list[NodeRef]) -> NodeRef:
    total = parts[0]
    for part in parts[1:]:
        total = draft.call("add.Tensor", total, part)
    return total


def _is_wider(form: TensorForm, dtype: torch.dtype) -> bool:
    return form.is_float and form.dtype.itemsize > dtype.itemsize


def _operands_in_tf32(draft: GraphBuilder, node: Node) -> Value | None:
    form = draft.form(node.args[0])
    if form is None or form.dtype != torch.float32:
        return None
    return draft.call(node.op.removeprefix("aten."), *(_cut(draft, value, SPLIT) for value in node.args))


def _cut(draft: GraphBuilder, value: Value, constant: float) -> NodeRef:
    """Keep the leading digits of a float32, by Veltkamp's constant."""
    large = draft.call("mul.Tensor", value, constant)
    return draft.call("sub.Tensor", large, draft.call("sub.Tensor", large, value))


def all_in(sketch: TypedGraph, dtype: torch.dtype) -> Graph:
    """Return a graph that rounds every computed float to a narrower dtype."""

    def change(draft: GraphBuilder, node: Node, index: int) -> Value | None:
        form = sketch.form_of(index)
        if form is None or not _is_wider(form, dtype):
            return None
        return draft.rounded(draft.copy(node), dtype, form.dtype)

    return rewrite(sketch, change)


def with_fewer_digits(sketch: TypedGraph, number: int) -> Graph | None:
    """Return a graph whose float8 output lost its last mantissa digit; None if it is not rounded from float32."""
    digits = mantissa_bits(sketch.forms[sketch.graph.outputs[number]].dtype)
    return before_rounding(sketch, number, lambda draft, value: _cut(draft, value, 2.0 ** (SINGLE_DIGITS - digits) + 1))


def mutations(*, allow_tf32: bool) -> tuple[Mutation, ...]:
    """Return the roundings that a contract does not allow."""
    halves = [
        mutation
        for name, dtype in HALVES.items()
        for mutation in (
            Mutation(f"added up in {name}", SUMS, _sum_in(dtype), rounds=True),
            Mutation(f"added up in {name}", PRODUCTS, _product_in(dtype), rounds=True),
        )
    ]
    tf32 = Mutation("operands cut to TF32", named("mm bmm mv dot"), _operands_in_tf32, rounds=True)
    return (*halves, *(() if allow_tf32 else (tf32,)))
