"""Attention, which TorchInductor leaves to a library or writes as two products around a softmax.

Both products and the softmax between them become one operation of ours, which `attention_kernel` computes.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import Any, TypeGuard

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from workers.inductor_seeds.graph_nodes import given_to, insert_call, is_call, value_of
from workers.inductor_seeds.operations import NAMESPACE

ATTENTION = f"torch.ops.{NAMESPACE}.attention.default"
"""Name of the operation in Inductor's host code."""
WIDEST = 128
"""Maximum elements of a query or value: a program has those of all its rows in registers."""
_ATEN = torch.ops.aten
_SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor? bias, float scale, bool masks, bool outer, bool empty_is_zero) -> Tensor"
)
_MOVES = frozenset(
    {
        _ATEN.view.default,
        _ATEN._unsafe_view.default,
        _ATEN.expand.default,
        _ATEN.clone.default,
        _ATEN.alias.default,
        torch.ops.prims.convert_element_type.default,
    }
)
"""Operations that leave a matrix of scores or weights as it is, but for the axes before it and its dtype."""


def _made(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *others: torch.Tensor | float | None) -> torch.Tensor:
    """Return the result (matrices, rows, channels)."""
    return v.new_empty((q.shape[0], q.shape[1], v.shape[2]))


torch.library.define(f"{NAMESPACE}::attention", _SCHEMA, tags=(torch.Tag.needs_contiguous_strides,))
torch.library.register_fake(f"{NAMESPACE}::attention", _made)


@dataclass(frozen=True)
class _Scores:
    """Origin of scores: two tensors, the factor of their product, and what is added before the softmax."""

    factors: tuple[Any, ...] = ()
    scale: float = 1.0
    added: tuple[fx.Node, ...] = ()
    masks: tuple[tuple[fx.Node, bool], ...] = ()
    """Conditions, and True where one says which scores are left out."""
    sizes: tuple[str, ...] = ()
    """Sizes of the scores where something is added or left out."""


def join_attention(traced: fx.GraphModule, mode: FakeTensorMode) -> None:
    """Replace each product with a softmax of a product by one operation, in place.

    Args:
        traced: A graph of decomposed operations, with a fake tensor of each node as its `val`.
        mode: The mode of these tensors.
    """
    traced.graph.eliminate_dead_code()
    for node in [*traced.graph.nodes]:
        if is_call(node, _ATEN.bmm.default) and (found := _softmax(_behind(given_to(node)[0]))) is not None:
            source, empty_is_zero = found
            scores = _scores(source, _Scores())
            weights, values = given_to(node)
            if scores is not None and _fits(scores, source, weights, values):
                with mode, traced.graph.inserting_before(node):
                    made = _joined(traced.graph, scores, values, empty_is_zero=empty_is_zero)
                node.replace_all_uses_with(made)
    traced.graph.eliminate_dead_code()


def _moves(node: object) -> TypeGuard[fx.Node]:
    return isinstance(node, fx.Node) and node.target in _MOVES and value_of(node).is_floating_point()


def _behind(value: object) -> object:
    """Return what is only moved before it is used; None if something else uses it, too."""
    while _moves(value) and len(value.users) == 1:
        value = value.args[0]
    return value if isinstance(value, fx.Node) and len(value.users) == 1 else None


def _softmax(node: object) -> tuple[fx.Node, bool] | None:
    """Return what a node is the softmax of along its last axis, and True if rows without a score are zero."""
    if is_call(node, _ATEN.where.self):
        condition, zero, weights = given_to(node)
        found = _softmax(weights) if _number(zero) == 0 else None
        return (found[0], True) if found is not None and _is_empty(condition, found[0]) else None
    if not is_call(node, _ATEN.div.Tensor):
        return None
    powers, total = given_to(node)
    if not is_call(powers, _ATEN.exp.default) or not is_call(apart := given_to(powers)[0], _ATEN.sub.Tensor):
        return None
    source, peak = given_to(apart)
    if not isinstance(source, fx.Node):
        return None
    if is_call(peak, _ATEN.amax.default, source) and is_call(total, _ATEN.sum.dim_IntList, powers):
        reduced = [(_is_last(source, given_to(each)[1]), given_to(each)[2:]) for each in (peak, total)]
        return (source, False) if reduced == [(True, (True,))] * 2 else None
    return (source, False) if _are_online(peak, total, source) else None


def _are_online(peak: object, total: object, source: fx.Node) -> bool:
    """Return True if two nodes are maximum and sum of one pass over rows, as drafts of long rows take them."""
    if not is_call(peak, operator.getitem) or not is_call(total, operator.getitem):
        return False
    (both, first), (other, second) = peak.args, total.args
    if both is not other or (first, second) != (0, 1) or not isinstance(both, fx.Node):
        return False
    return (
        "prepare_softmax_online" in str(both.target) and both.args[0] is source and _is_last(source, given_to(both)[1:])
    )


def _is_empty(condition: object, source: fx.Node) -> bool:
    """Return True if a condition says that all scores of a row are minus infinity, as `_safe_softmax` has it."""
    for target in (_ATEN.logical_not.default, _ATEN.any.dim, _ATEN.logical_not.default):
        if not is_call(condition, target):
            return False
        condition = condition.args[0]
    return is_call(condition, _ATEN.eq.Scalar, source) and _number(condition.args[1]) == -inf


def _is_last(node: fx.Node, axes: Sequence[int]) -> bool:
    dims = value_of(node).dim()
    return [axis % dims for axis in axes] == [dims - 1]


def _number(value: object) -> float | None:
    """Return the number that all elements of a node are; None for others."""
    if is_call(value, _ATEN.scalar_tensor.default):
        value = given_to(value)[0]
    elif is_call(value, _ATEN.full.default):
        value = given_to(value)[1]
    return float(value) if isinstance(value, int | float) else None


def _scores(node: object, found: _Scores) -> _Scores | None:
    """Follow scores back to their product. Returns None if something else happens to them."""
    if is_call(node, _ATEN.bmm.default):
        return replace(found, factors=given_to(node))
    if _moves(node):
        return _scores(node.args[0], found)
    if is_call(node, _ATEN.mul.Tensor) or is_call(node, _ATEN.div.Tensor):
        source, number = node.args
        factor = _number(number)
        if not factor:
            return None
        factor = factor if node.target is _ATEN.mul.Tensor else 1 / factor
        return _scores(source, replace(found, scale=found.scale * factor))
    # What is added before a factor is multiplied, too.
    return _offset(node, found) if isinstance(node, fx.Node) and found.scale == 1.0 and not node.kwargs else None


def _offset(node: fx.Node, found: _Scores) -> _Scores | None:
    """Follow scores back before something that is added to them, or takes the place of some."""
    sizes = tuple(map(str, value_of(node).shape))
    if found.sizes not in ((), sizes):
        return None
    found = replace(found, sizes=sizes)
    if is_call(node, _ATEN.baddbmm.default):
        return replace(found, factors=given_to(node)[1:], added=(*found.added, given_to(node)[0]))
    if is_call(node, _ATEN.add.Tensor):
        source, other = given_to(node)
        return _scores(source, replace(found, added=(*found.added, other))) if isinstance(other, fx.Node) else None
    if not is_call(node, _ATEN.where.self):
        return None
    condition, left, right = given_to(node)
    leaves_out = _number(left) == -inf
    if not leaves_out and _number(right) != -inf:
        return None
    return _scores(right if leaves_out else left, replace(found, masks=(*found.masks, (condition, leaves_out))))


def _fits(scores: _Scores, source: fx.Node, weights: fx.Node, values: fx.Node) -> bool:
    """Return True if our kernel computes it: few channels, one dtype, and a mask or a bias of one kind.

    Matrices are the same from their first product to their last: a softmax may be of several rows at once, and what is
    added may have more matrices or rows.
    """
    if scores.added and scores.masks:
        return False
    q, k, v = map(value_of, (*scores.factors, values))
    if not all(isinstance(side, int) and side <= WIDEST for side in (q.shape[2], v.shape[2])):
        return False
    if {q.dtype, k.dtype, v.dtype} - {q.dtype} or q.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return False
    matrices = tuple(map(str, (q.shape[0], q.shape[1], k.shape[2])))
    within = [tuple(map(str, value_of(source).shape)), scores.sizes or matrices]
    if tuple(map(str, value_of(weights).shape)) != matrices or any(each[-2:] != matrices[1:] for each in within):
        return False
    kinds = _kinds(scores) - {_Kind.SHARED}
    return len(kinds) <= 1 and _Kind.OTHER not in kinds


class _Kind(Enum):
    """Matrices of scores that a bias or a mask has one of its own for.

    SHARED is for none; INNER for those along the last axis before rows and keys, such as heads; OUTER for those along
    the first, such as sequences with padding; OTHER for any others.
    """

    SHARED, INNER, OUTER, OTHER = range(4)


def _kinds(scores: _Scores) -> set[_Kind]:
    return {_kind(value_of(node), scores.sizes) for node in (*scores.added, *(mask for mask, _ in scores.masks))}


def _kind(value: torch.Tensor, sizes: Sequence[str]) -> _Kind:
    extents = [*["1"] * (len(sizes) - value.dim()), *map(str, value.shape)]
    before, own = extents[:-2], [axis for axis, extent in enumerate(extents[:-2]) if extent != "1"]
    fits = extents[-1] == sizes[-1] and extents[-2] in ("1", sizes[-2])
    if not fits or len(own) > 1 or any(before[axis] != sizes[axis] for axis in own):
        return _Kind.OTHER
    if not own:
        return _Kind.SHARED
    return _Kind.INNER if own[0] == len(before) - 1 else _Kind.OUTER if own[0] == 0 else _Kind.OTHER


def _joined(graph: fx.Graph, scores: _Scores, values: fx.Node, *, empty_is_zero: bool) -> fx.Node:
    """Insert the operation."""
    q, turned = scores.factors
    k = insert_call(graph, _ATEN.permute.default, turned, [0, 2, 1])
    is_outer = _Kind.OUTER in _kinds(scores)
    settings = (scores.scale, bool(scores.masks), is_outer, empty_is_zero)
    return insert_call(graph, torch.ops.kernelreef.attention.default, q, k, values, _bias(graph, scores), *settings)


def _bias(graph: fx.Graph, scores: _Scores) -> fx.Node | None:
    """Insert what is added to scores, or takes the place of some where it is minus infinity; None if it is nothing.

    It is float32 (matrices or 1, rows or 1, keys).
    """
    total: fx.Node | None = None
    for each in _parts(graph, scores):
        while value_of(each).dim() < len(scores.sizes):
            each = insert_call(graph, _ATEN.unsqueeze.default, each, 0)
        total = each if total is None else insert_call(graph, _ATEN.add.Tensor, total, each)
    if total is None:
        return None
    while value_of(total).dim() > 3:
        axis = next(axis for axis, size in enumerate(value_of(total).shape) if str(size) == "1")
        total = insert_call(graph, _ATEN.squeeze.dim, total, axis)
    return total if value_of(total).dim() == 3 else insert_call(graph, _ATEN.unsqueeze.default, total, 0)


def _parts(graph: fx.Graph, scores: _Scores) -> Iterator[fx.Node]:
    for each in scores.added:
        yield insert_call(graph, torch.ops.prims.convert_element_type.default, each, torch.float32)
    for mask, leaves_out in scores.masks:
        device = value_of(mask).device
        ends = [
            insert_call(graph, _ATEN.full.default, [], end, dtype=torch.float32, device=device) for end in (-inf, 0.0)
        ]
        yield insert_call(graph, _ATEN.where.self, mask, *(ends if leaves_out else ends[::-1]))
