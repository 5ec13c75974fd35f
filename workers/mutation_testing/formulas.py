"""Formulas: rewrites composite operations of a graph in plain ones, and narrow arithmetic in float32.

The result computes the same by other operations. It is an honest implementation itself, and mutants are made from it,
because an epsilon or a maximum inside a composite operation cannot be omitted.
"""

import math
from collections.abc import Callable, Sequence

import torch

from workers.mutation_testing.builder import GraphBuilder, TensorForm, TypedGraph, named, rewrite
from workers.mutation_testing.recurrences import written_by_positions
from workers.protocol import Graph, Node, NodeRef
from workers.protocol.graph import Value

MOVES = named(
    """
    view _unsafe_view expand permute transpose t squeeze unsqueeze slice select split split_with_sizes unbind cat stack
    repeat flip roll tril triu diagonal gather index index_select index_put scatter embedding constant_pad_nd
    as_strided unfold unsafe_split unsafe_split_with_sizes index_copy index_fill take diag_embed rot90 _to_copy clone
    copy contiguous alias detach lift_fresh lift_fresh_copy fill zero where masked_fill full_like zeros_like ones_like
    empty_like new_full new_zeros new_ones new_empty new_empty_strided relu neg abs sign maximum minimum fmax fmin amax
    amin max min clamp clamp_min clamp_max floor ceil round trunc sort topk max_pool2d_with_indices
    """
)
"""Operations that move, choose or create values without rounding."""


def written_out(sketch: TypedGraph) -> Graph:
    """Rewrite composite operations by their formulas, and half-precision ones in float32, rounded once."""

    def change(draft: GraphBuilder, node: Node, index: int) -> Value | None:
        form = sketch.form_of(index)
        formula = FORMULAS.get(node.name)
        if formula is not None:
            return formula(draft, node)
        return _widened(draft, node, form) if form is not None and form.is_half else None

    return rewrite(sketch, change)


def _widened(draft: GraphBuilder, node: Node, form: TensorForm) -> Value | None:
    """Write a half-precision operation as torch computes it: in float32, rounded once. None if it works in place."""
    if node.name.endswith("_") or node.name in MOVES or node.kwargs.get("dtype") is not None:
        return None
    args = [_wide(draft, value) for value in node.args]
    wide = draft.call(node.op.removeprefix("aten."), *args, **node.kwargs)
    return draft.cast(wide, form.dtype)


def _wide(draft: GraphBuilder, value: Value) -> Value:
    """Cast a narrow value to float32; keep other values."""
    form = draft.form(value)
    return draft.cast(value, torch.float32) if form is not None and form.is_half else value


def _narrow(draft: GraphBuilder, value: NodeRef, like: Value) -> NodeRef:
    form = draft.form(like)
    return draft.cast(value, form.dtype) if form is not None and form.is_half else value


def _softmax(draft: GraphBuilder, node: Node) -> Value | None:
    source, axis, to_float = node.args
    exponentials = draft.call("exp.default", _shifted(draft, _wide(draft, source), axis))
    result = draft.call("div.Tensor", exponentials, draft.call("sum.dim_IntList", exponentials, (axis,), True))
    return result if to_float else _narrow(draft, result, source)


def _log_softmax(draft: GraphBuilder, node: Node) -> Value | None:
    source, axis, to_float = node.args
    shifted = _shifted(draft, _wide(draft, source), axis)
    total = draft.call("sum.dim_IntList", draft.call("exp.default", shifted), (axis,), True)
    result = draft.call("sub.Tensor", shifted, draft.call("log.default", total))
    return result if to_float else _narrow(draft, result, source)


def _shifted(draft: GraphBuilder, wide: Value, axis: Value) -> NodeRef:
    """Subtract the maximum from values."""
    return draft.call("sub.Tensor", wide, draft.call("amax.default", wide, (axis,), True))


def _variance(draft: GraphBuilder, node: Node) -> Value | None:
    source, *axes = node.args
    form = draft.form(source)
    if form is None:
        return None
    chosen = tuple(_list(axes[0])) if axes and axes[0] is not None else tuple(range(len(form.shape)))
    correction, keeps = node.kwargs.get("correction", 1), bool(node.kwargs.get("keepdim", False))
    less = correction if isinstance(correction, int | float) else 0
    wide = _wide(draft, source)
    centred = draft.call("sub.Tensor", wide, draft.call("mean.dim", wide, chosen, True))
    squares = draft.call("sum.dim_IntList", draft.call("mul.Tensor", centred, centred), chosen, keeps)
    count = math.prod(form.shape[int(str(axis))] for axis in chosen)
    return _narrow(draft, draft.call("div.Tensor", squares, count - less), source)


def _layer_norm(draft: GraphBuilder, node: Node) -> Value | None:
    source, normalized, weight, bias, epsilon = node.args
    wide, axes = _wide(draft, source), tuple(range(-len(_list(normalized)), 0))
    mean = draft.call("mean.dim", wide, axes, True)
    centred = draft.call("sub.Tensor", wide, mean)
    variance = draft.call("mean.dim", draft.call("mul.Tensor", centred, centred), axes, True)
    scale = draft.call("rsqrt.default", draft.call("add.Tensor", variance, epsilon))
    result = draft.call("mul.Tensor", centred, scale)
    if weight is not None:
        result = draft.call("mul.Tensor", result, _wide(draft, weight))
    if bias is not None:
        result = draft.call("add.Tensor", result, _wide(draft, bias))
    return (_narrow(draft, result, source), mean, scale)


def _list(value: Value) -> Sequence[Value]:
    return value if isinstance(value, tuple | list) else (value,)


def _silu(draft: GraphBuilder, node: Node) -> Value | None:
    wide = _wide(draft, node.args[0])
    return _narrow(draft, draft.call("mul.Tensor", wide, draft.call("sigmoid.default", wide)), node.args[0])


def _gelu(draft: GraphBuilder, node: Node) -> Value | None:
    wide = _wide(draft, node.args[0])
    if node.kwargs.get("approximate") == "tanh":
        cube = draft.call("mul.Tensor", draft.call("pow.Tensor_Scalar", wide, 3), 0.044715)
        inner = draft.call("mul.Tensor", draft.call("add.Tensor", wide, cube), (2 / torch.pi) ** 0.5)
        bent = draft.call("tanh.default", inner)
    else:
        bent = draft.call("erf.default", draft.call("mul.Tensor", wide, 0.5**0.5))
    half = draft.call("mul.Tensor", wide, 0.5)
    result = draft.call("mul.Tensor", half, draft.call("add.Tensor", bent, 1.0))
    return _narrow(draft, result, node.args[0])


def _addmm(draft: GraphBuilder, node: Node) -> Value | None:
    if node.kwargs:
        return None
    addend, left, right = node.args
    product = draft.call("mm.default", _wide(draft, left), _wide(draft, right))
    return _narrow(draft, draft.call("add.Tensor", product, _wide(draft, addend)), left)


FORMULAS: dict[str, Callable[[GraphBuilder, Node], Value | None]] = {
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
    "var": _variance,
    "native_layer_norm": _layer_norm,
    "silu": _silu,
    "gelu": _gelu,
    "addmm": _addmm,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), written_by_positions),
}
"""Formulas of composite operations, by name."""
