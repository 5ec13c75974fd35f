"""Count of a reference's floating-point operations, used to tell what bounds a kernel.

Runs inside the sandbox, with the export. The count follows the reference's own formula. A kernel that skips needless
work, such as the masked half of causal attention, takes fewer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry

MOVES = frozenset(
    {"_to_copy", "_unsafe_view", "arange", "cat", "clone", "copy", "full", "gather", "index", "index_select", "ones"}
    | {"scalar_tensor", "stack", "zeros"}
)
"""Operations that only move, convert or write values."""


@dataclass(frozen=True)
class Flops:
    """Floating-point operations: of matrix products and convolutions, and of all others, one per element."""

    matrix: float = 0.0
    other: float = 0.0


def count(nodes: Iterable[fx.Node]) -> Flops:
    """Count operations of a traced graph whose nodes know the shapes of their results."""
    matrix = other = 0.0
    for node in nodes:
        if not isinstance(node.target, OpOverload):
            continue
        formula = flop_registry.get(node.target.overloadpacket)
        if formula is not None:
            args, kwargs = tree_map_only(fx.Node, _value, (node.args, dict(node.kwargs)))
            matrix += float(formula(*args, **kwargs, out_val=_value(node)))
        elif not node.target.is_view and node.target._schema.name.partition("::")[2] not in MOVES:
            other += _elements(node)
    return Flops(matrix, other)


def _value(node: fx.Node) -> object:
    return node.meta["val"]


def _elements(node: fx.Node) -> float:
    """Return the size of the largest floating-point argument or result of an operation."""
    values = [node.meta.get("val"), *(each.meta.get("val") for each in node.all_input_nodes)]
    sizes = [prod(value.shape) for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]
    return float(max(sizes, default=0))
