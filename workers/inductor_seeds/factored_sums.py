"""Sums over rows of a matrix product, rewritten: one factor is summed first, so that no product of matrices is left.

`(a @ b).sum(1)` is `a @ b.sum(1)`: as many multiplications as `a` has elements. Numbers that scale the product, and a
bias, are carried along.
"""

from collections.abc import Callable

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

aten = torch.ops.aten
_SCALES = (aten.mul.Tensor, aten.div.Tensor)
_PRODUCTS = {aten.mm.default: 0, aten.addmm.default: 1}
"""Products by their operation, with the place of the left factor among the arguments."""


def sum_factors_first(traced: fx.GraphModule) -> None:
    """Rewrite float32 sums over rows of products that nothing else reads, in place."""
    for node in list(traced.graph.nodes):
        scales, product = _summed_product(node)
        if product is not None:
            with traced.graph.inserting_before(node):
                node.replace_all_uses_with(_rewritten(traced.graph, node, scales, product))
    traced.graph.eliminate_dead_code()
    traced.recompile()


def _summed_product(node: fx.Node) -> tuple[list[fx.Node], fx.Node | None]:
    """Return the nodes that scale a product, last first, and the product; None if a node is no sum over its rows."""
    scales: list[fx.Node] = []
    if node.target != aten.sum.dim_IntList or node.kwargs or list(node.args[1]) not in ([1], [-1]):  # type: ignore[arg-type]
        return scales, None
    source = node.args[0]
    while isinstance(source, fx.Node) and len(source.users) == 1:
        value = source.meta.get("val")
        if not isinstance(value, FakeTensor) or value.dtype != torch.float32 or value.dim() != 2:
            break
        if source.target in _PRODUCTS and not source.kwargs:
            return scales, source
        if source.target not in _SCALES or not isinstance(source.args[1], int | float):
            break
        scales.append(source)
        source = source.args[0]
    return scales, None


def _rewritten(graph: fx.Graph, node: fx.Node, scales: list[fx.Node], product: fx.Node) -> fx.Node:
    at = _PRODUCTS[product.target]  # type: ignore[index]
    left, right = product.args[at : at + 2]
    sums = _called(graph, aten.sum.dim_IntList, right, [1])
    total = _called(graph, aten.sum.dim_IntList, _called(graph, aten.mul.Tensor, left, sums), [1], *node.args[2:])
    if at:
        # A bias has a number per column, of which a lone one stands for all.
        bias = _called(graph, aten.expand.default, product.args[0], list(product.meta["val"].shape))
        total = _called(graph, aten.add.Tensor, total, _called(graph, aten.sum.dim_IntList, bias, [1], *node.args[2:]))
    for scale in reversed(scales):
        total = _called(graph, scale.target, total, scale.args[1])
    return total


def _called(graph: fx.Graph, operation: Callable[..., object], *args: object) -> fx.Node:
    """Add a call to a graph, with its value at fake sizes."""
    node = graph.call_function(operation, args)  # type: ignore[arg-type]
    values = [each.meta["val"] if isinstance(each, fx.Node) else each for each in args]
    mode = next(value.fake_mode for value in values if isinstance(value, FakeTensor))
    with mode:
        node.meta["val"] = operation(*values)
    return node
