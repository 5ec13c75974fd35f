"""Mutations of masks, indices and the joining of parts."""

from workers.mutation_testing.builder import GraphBuilder, named
from workers.mutation_testing.mutants.base import Mutation
from workers.protocol import Node
from workers.protocol.graph import Value

TRIANGLES = named("tril triu")


def _diagonal(shift: int) -> "Mutation":
    def spoil(draft: GraphBuilder, node: Node) -> Value | None:
        diagonal = node.args[1] if len(node.args) > 1 else 0
        if not isinstance(diagonal, int):
            return None
        return draft.call(f"{node.name}.default", node.args[0], diagonal + shift)

    return Mutation(f"diagonal off by {shift}", TRIANGLES, spoil)


def _first_choice(draft: GraphBuilder, node: Node) -> Value | None:
    return node.args[1] if _forms_agree(draft, node.args[1], node.args[2]) else None


def _second_choice(draft: GraphBuilder, node: Node) -> Value | None:
    return node.args[2] if _forms_agree(draft, node.args[2], node.args[1]) else None


def _forms_agree(draft: GraphBuilder, one: Value, other: Value) -> bool:
    first, second = draft.form(one), draft.form(other)
    return first is not None and (second is None or first.shape == second.shape)


def _next_index(position: int) -> "Mutation":
    """Return the mutation to the index after the right one, modulo the size."""

    def spoil(draft: GraphBuilder, node: Node) -> Value | None:
        axis = node.args[1] if position == 2 else 0
        source = draft.form(node.args[0])
        if source is None or not isinstance(axis, int) or not source.shape:
            return None
        shifted = draft.call("add.Tensor", node.args[position], 1)
        index = draft.call("remainder.Scalar", shifted, source.shape[axis])
        args = (*node.args[:position], index, *node.args[position + 1 :])
        return draft.call(node.op.removeprefix("aten."), *args, **node.kwargs)

    operations = named("gather index_select" if position == 2 else "embedding")
    return Mutation("index off by one", operations, spoil)


def _swapped(draft: GraphBuilder, node: Node) -> Value | None:
    parts = node.args[0]
    if not isinstance(parts, tuple | list) or len(parts) < 2:
        return None
    return draft.call(node.op.removeprefix("aten."), tuple(reversed(parts)), *node.args[1:])


MUTATIONS = (
    _diagonal(-1),
    _diagonal(1),
    Mutation("mask left out", TRIANGLES | named("masked_fill"), lambda draft, node: node.args[0]),
    Mutation("only the first choice", named("where"), _first_choice),
    Mutation("only the second choice", named("where"), _second_choice),
    _next_index(1),
    _next_index(2),
    Mutation("parts in reverse", named("cat stack"), _swapped),
)
