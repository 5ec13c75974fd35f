"""The least that any kernel must read, by the reference's graph: what a time is held against that is too good.

An input counts if the result cannot be worked out without all of its elements, whatever the values are. Where a
reference picks elements by index, leaves some to a mask, or multiplies by what may be exactly zero, an honest kernel
may read less, as one that walks through a page table does; such inputs do not count at all.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod

import torch

from workers.protocol import DTYPE_BYTES, Graph, InputRef, Node, NodeRef, Operator, Reference

_MOVES = """
view _unsafe_view expand permute transpose t squeeze unsqueeze repeat flip roll cat stack _to_copy clone copy contiguous
alias detach lift_fresh lift_fresh_copy
"""
_ELEMENTWISE = """
abs neg sign sgn reciprocal sqrt rsqrt square exp exp2 expm1 log log2 log1p log10 sin cos tan sinh cosh tanh asin acos
atan erf erfc sigmoid relu silu gelu elu leaky_relu hardtanh hardswish hardsigmoid softplus mish floor ceil round trunc
frac isnan isinf isfinite logical_not bitwise_not add sub rsub maximum minimum fmax fmin atan2 hypot clamp clamp_min
clamp_max eq ne lt le gt ge __lshift__ __rshift__ log_sigmoid_forward
"""
_REDUCTIONS = """
sum mean amax amin max min argmax argmin var std var_mean logsumexp cumsum norm linalg_vector_norm sort topk _softmax
_safe_softmax _log_softmax native_layer_norm native_group_norm native_batch_norm _fused_rms_norm
"""
_WHOLE = frozenset("".join((_MOVES, _ELEMENTWISE, _REDUCTIONS)).split())
"""Operations that use every element of every tensor that they are given, whatever it holds."""
_PRODUCTS = "mul pow addcmul addcdiv mm bmm addmm baddbmm mv dot lerp"
_TIMES = frozenset(_PRODUCTS.split())
"""Operations that do so unless a factor is zero."""
_HARDLY_ZERO = """
neg reciprocal sqrt rsqrt square sigmoid softplus mish silu gelu log log2 log1p tanh erf add sub rsub mul div
sum mean var std var_mean logsumexp norm linalg_vector_norm _log_softmax native_layer_norm _fused_rms_norm cumsum
amax amin max min mm bmm addmm baddbmm
"""
_NEVER_ZERO = frozenset("".join((_MOVES, _HARDLY_ZERO)).split())
"""Operations whose result is zero by coincidence only, if that holds of the tensors that they are given."""


def floor_bytes(operator: Operator, graph: Graph) -> int:
    """Bytes of the inputs of which every kernel has to read every element at the graph's shape."""
    items = tuple(operator.given)
    floats = frozenset(number for number, item in enumerate(items) if getattr(torch, item.dtype).is_floating_point)
    needed = (items[number] for number in _whole(graph, floats))
    return sum(prod(operator.input_shape(item, graph.shape.dims)) * DTYPE_BYTES[item.dtype] for item in needed)


def _whole(graph: Graph, floats: frozenset[int]) -> frozenset[int]:
    """Numbers of the inputs that are read in full; none where something is written over that may not have been read.

    Args:
        graph: The reference.
        floats: Numbers of the inputs that hold floats, which are hardly ever zero.
    """
    if any(_is_in_place(node) for node in graph.nodes):
        return frozenset()
    dense = _dense(graph, floats)
    nodes, inputs = _split(graph.outputs)
    for index in reversed(range(len(graph.nodes))):
        if index in nodes:
            more_nodes, more_inputs = _split(_read(graph.nodes[index], dense))
            nodes |= more_nodes
            inputs |= more_inputs
    return frozenset(inputs)


def _split(values: Iterable[Reference]) -> tuple[set[int], set[int]]:
    """Numbers of the nodes and of the inputs among values."""
    nodes = {value.node for value in values if isinstance(value, NodeRef)}
    return nodes, {value.input for value in values if isinstance(value, InputRef)}


def _dense(graph: Graph, floats: frozenset[int]) -> Callable[[Reference], bool]:
    """Tells whether a value is zero by coincidence only."""
    nodes: list[bool] = []

    def is_dense(value: Reference) -> bool:
        return value.input in floats if isinstance(value, InputRef) else nodes[value.node]

    for node in graph.nodes:
        nodes.append(_name(node) in _NEVER_ZERO and bool(node.uses) and all(map(is_dense, node.uses)))
    return is_dense


def _read(node: Node, is_dense: Callable[[Reference], bool]) -> Sequence[Reference]:
    """What must be read in full if all of a node's result is needed."""
    if _name(node) in _WHOLE:
        return node.uses
    if _name(node) == "div":
        over, *under = node.uses
        return (over, *under) if is_dense(over) else (over,)
    if _name(node) not in _TIMES:
        return ()
    sparse = [each for each in node.uses if not is_dense(each)]
    return () if len(sparse) > 1 else sparse or node.uses


def _name(node: Node) -> str:
    return node.op.split(".")[1]


def _is_in_place(node: Node) -> bool:
    return _name(node).endswith("_") and not _name(node).endswith("__")
