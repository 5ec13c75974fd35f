"""Mutations of sums, means, extrema and matrix products: their elements, axes and divisors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from workers.mutation_testing.builder import GraphBuilder, named
from workers.mutation_testing.mutants.base import Mutation
from workers.protocol import Node, NodeRef
from workers.protocol.graph import Value

TILE = 16
"""Elements of a tile that is left out; the minimum of a matrix unit."""
SHARE = 0.1
"""Share of a reduction that is cut off."""

SUMS = named("sum mean")
EXTREMA = named("amax amin")
INDICES = named("argmax argmin")
PRODUCTS = named("mm bmm mv dot")


@dataclass(frozen=True)
class ReducedAxes:
    """A reduction of one tensor: over all axes, or over those that are named.

    Attributes:
        node: The call, which reduces `args[0]`.
        shape: Shape of the reduced tensor.
        axes: Reduced axes, each from 0.
    """

    node: Node
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @classmethod
    def read(cls, draft: GraphBuilder, node: Node) -> "ReducedAxes | None":
        """Read a node as a reduction. Returns None if there is nothing to reduce."""
        form = draft.form(node.args[0])
        if form is None or not form.shape:
            return None
        given = node.args[1] if len(node.args) > 1 else None
        axes = given if isinstance(given, tuple | list) else () if given is None else (given,)
        rank = len(form.shape)
        chosen = tuple(axis % rank for axis in axes if isinstance(axis, int)) or tuple(range(rank))
        return cls(node, form.shape, chosen)

    @property
    def count(self) -> int:
        """Elements per result."""
        return math.prod(self.shape[axis] for axis in self.axes)

    def of(self, draft: GraphBuilder, source: Value) -> NodeRef:
        """Append the same reduction of another value."""
        return draft.call(self.node.op.removeprefix("aten."), source, *self.node.args[1:], **self.node.kwargs)


def _without(left_out: Callable[[int], int]) -> Callable[[GraphBuilder, Node], Value | None]:
    """Omit the last elements of the last reduced axis; a mean is still divided by the full number."""

    def spoil(draft: GraphBuilder, node: Node) -> Value | None:
        reduction = ReducedAxes.read(draft, node)
        axis = reduction.axes[-1] if reduction else 0
        size = reduction.shape[axis] if reduction else 0
        kept = size - left_out(size)
        if reduction is None or not 0 < kept < size:
            return None
        result = reduction.of(draft, draft.cut(node.args[0], axis, 0, kept))
        return draft.call("mul.Tensor", result, kept / size) if node.name == "mean" else result

    return spoil


def _product_without(left_out: Callable[[int], int]) -> Callable[[GraphBuilder, Node], Value | None]:
    def spoil(draft: GraphBuilder, node: Node) -> Value | None:
        left, right = draft.form(node.args[0]), draft.form(node.args[1])
        if left is None or right is None:
            return None
        size = left.shape[-1]
        kept = size - left_out(size)
        if not 0 < kept < size:
            return None
        parts = (
            draft.cut(node.args[0], len(left.shape) - 1, 0, kept),
            draft.cut(node.args[1], max(0, len(right.shape) - 2), 0, kept),
        )
        return draft.call(node.op.removeprefix("aten."), *parts)

    return spoil


def _tail(size: int) -> int:
    """Return the size of the last tile; 0 if there is only one."""
    return (size - 1) % TILE + 1 if size > TILE else 0


def _share(size: int) -> int:
    return math.ceil(SHARE * size) if size > 1 / SHARE else 0


def _along_another_axis(draft: GraphBuilder, node: Node) -> Value | None:
    reduction = ReducedAxes.read(draft, node)
    if reduction is None or len(reduction.axes) != 1 or len(node.args) < 2 or len(reduction.shape) < 2:
        return None
    axis = reduction.axes[0]
    other = axis - 1 if axis else 1
    chosen = (other,) if isinstance(node.args[1], tuple | list) else other
    return draft.call(node.op.removeprefix("aten."), node.args[0], chosen, *node.args[2:], **node.kwargs)


def _one_divisor_less(draft: GraphBuilder, node: Node) -> Value | None:
    reduction = ReducedAxes.read(draft, node)
    if reduction is None or reduction.count < 2:
        return None
    return draft.call("mul.Tensor", draft.copy(node), reduction.count / (reduction.count - 1))


def _sum_for_mean(draft: GraphBuilder, node: Node) -> Value | None:
    reduction = ReducedAxes.read(draft, node)
    return draft.call("mul.Tensor", draft.copy(node), reduction.count) if reduction else None


def _other_extremum(draft: GraphBuilder, node: Node) -> Value | None:
    other = {"amax": "amin", "amin": "amax", "argmax": "argmin", "argmin": "argmax"}[node.name]
    return draft.call(f"{other}.default", *node.args, **node.kwargs)


def _last_of_a_tie(draft: GraphBuilder, node: Node) -> Value | None:
    form = draft.form(node.args[0])
    if form is None or len(node.args) < 2 or not isinstance(node.args[1], int):
        return None
    axis = node.args[1]
    flipped = draft.call("flip.default", node.args[0], (axis,))
    index = draft.call(node.op.removeprefix("aten."), flipped, *node.args[1:], **node.kwargs)
    return draft.call("rsub.Scalar", index, form.shape[axis] - 1)


def _other_end_of_a_tie(draft: GraphBuilder, node: Node) -> Value | None:
    """Take the last instead of the first index that a condition leaves, or the first instead of the last."""
    form, ref = draft.form(node.args[0]), node.args[0]
    choice = draft.nodes[ref.node] if isinstance(ref, NodeRef) else None
    if choice is None or choice.name != "where" or form is None or form.is_float or form.dtype is torch.bool:
        return None
    info = torch.iinfo(form.dtype)
    other, beyond = ("amax", info.min) if node.name == "amin" else ("amin", info.max)
    left = draft.call("where.ScalarOther", *choice.args[:2], beyond)
    return draft.call(f"{other}.default", left, *node.args[1:], **node.kwargs)


def _right_transposed(draft: GraphBuilder, node: Node) -> Value | None:
    form = draft.form(node.args[1])
    if form is None or len(form.shape) < 2 or form.shape[-1] != form.shape[-2]:
        return None
    turned = draft.call("transpose.int", node.args[1], -2, -1)
    return draft.call(node.op.removeprefix("aten."), node.args[0], turned)


MUTATIONS = (
    Mutation("last element left out", SUMS | EXTREMA | named("prod linalg_vector_norm"), _without(lambda size: 1)),
    Mutation("last tile left out", SUMS | EXTREMA | named("prod linalg_vector_norm"), _without(_tail)),
    Mutation("a tenth left out", SUMS | EXTREMA, _without(_share)),
    Mutation("last element left out", PRODUCTS, _product_without(lambda size: 1)),
    Mutation("last tile left out", PRODUCTS, _product_without(_tail)),
    Mutation("a tenth left out", PRODUCTS, _product_without(_share)),
    Mutation("along another axis", SUMS | EXTREMA | INDICES | named("cumsum"), _along_another_axis),
    Mutation("divided by one less", named("mean"), _one_divisor_less),
    Mutation("not divided by the number", named("mean"), _sum_for_mean),
    Mutation("smallest for largest", EXTREMA | INDICES, _other_extremum),
    Mutation("last of a tie", INDICES, _last_of_a_tie),
    Mutation("other end of a tie", EXTREMA, _other_end_of_a_tie),
    Mutation("right operand transposed", PRODUCTS, _right_transposed),
)
