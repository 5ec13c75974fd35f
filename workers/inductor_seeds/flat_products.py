"""Products of many matrices with one, as one product of all their rows.

`torch.matmul` makes a linear layer of an input that is not packed, such as one with its channels last, a product of as
many matrices as there are positions along its first axes. With few rows each, most of every tile would be empty.
"""

import torch
from torch import fx
from torch._prims_common import is_contiguous_or_false
from torch._subclasses.fake_tensor import FakeTensorMode

from workers.inductor_seeds.graph_nodes import given_to, insert_call, is_call, value_of

FEW_ROWS = 128
"""Rows of a matrix that fill the largest tile of Inductor's list: with as many, matrices may stay apart."""
_ATEN = torch.ops.aten


def flatten_products(traced: fx.GraphModule, mode: FakeTensorMode) -> None:
    """Replace products of matrices of few rows with the same matrix, in place.

    Args:
        traced: A graph of decomposed operations, with a fake tensor of each node as its `val`.
        mode: The mode of these tensors.
    """
    for node in [*traced.graph.nodes]:
        if is_call(node, _ATEN.bmm.default):
            left, right = given_to(node)
            shared = _shared(right)
            if shared is not None and is_call(left, _ATEN.view.default) and _has_few_rows(value_of(left)):
                with mode, traced.graph.inserting_before(node):
                    node.replace_all_uses_with(_flat(traced.graph, left, shared))
    traced.graph.eliminate_dead_code()


def _shared(right: object) -> fx.Node | None:
    """Return the matrix that is repeated for all; None if there is more than one."""
    if not is_call(right, _ATEN.view.default) or not is_call(repeated := right.args[0], _ATEN.expand.default):
        return None
    source = repeated.args[0]
    return source if isinstance(source, fx.Node) and value_of(source).dim() == 2 else None


def _has_few_rows(left: torch.Tensor) -> bool:
    rows: int | torch.SymInt = left.shape[1]
    hint = rows.node.hint if isinstance(rows, torch.SymInt) else rows
    return hint is not None and hint < FEW_ROWS


def _flat(graph: fx.Graph, left: fx.Node, shared: fx.Node) -> fx.Node:
    """Insert the product of all rows, and give its result the form of all products."""
    matrices, rows, summed = given_to(left)[1]
    if not is_contiguous_or_false(value_of(left)):
        left = insert_call(graph, _ATEN.clone.default, left, memory_format=torch.contiguous_format)
    product = insert_call(graph, _ATEN.mm.default, insert_call(graph, _ATEN.view.default, left, [-1, summed]), shared)
    return insert_call(graph, _ATEN.view.default, product, [matrices, rows, -1])
