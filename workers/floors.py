"""Lower bounds on the bytes and operations of any kernel, from the reference's graph: a faster time is impossible.

An input counts if the result needs all of its elements, whatever the values are. A reference may pick elements by
index, mask some, or multiply by values that may be exactly zero. Then an honest kernel may read less, such as one that
walks through a page table, and such inputs do not count at all.

Products count in full or not at all. They do if every element of each is needed, for instance as a result or under a
curved function. If products are multiplied, summed, masked, indexed or computed twice, another order of the same
algebra may need fewer operations, as in linear attention.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod

import torch

from workers.protocol import DTYPE_BYTES, Graph, InputRef, Node, NodeRef, Operator, Reference
from workers.targets import Target

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
"""Operations that use every element of every argument, whatever its values are."""
_PRODUCTS = "mul pow addcmul addcdiv mm bmm addmm baddbmm mv dot lerp"
_TIMES = frozenset(_PRODUCTS.split())
"""Operations that use every element unless a factor is zero."""
_HARDLY_ZERO = """
neg reciprocal sqrt rsqrt square sigmoid softplus mish silu gelu log log2 log1p tanh erf add sub rsub mul div
sum mean var std var_mean logsumexp norm linalg_vector_norm _log_softmax native_layer_norm _fused_rms_norm cumsum
amax amin max min mm bmm addmm baddbmm
"""
_NEVER_ZERO = frozenset("".join((_MOVES, _HARDLY_ZERO)).split())
"""Operations whose result is zero by coincidence only, if that holds for their arguments."""
_TINY = frozenset(("_softmax", "_safe_softmax", "exp", "exp2"))
"""Operations whose result may underflow to zero, which is unknown before it is computed."""
_MATRIX = frozenset(("mm", "bmm", "addmm", "baddbmm"))
_CONVOLUTIONS = frozenset(("convolution", "convolution_backward"))
_SUMS = frozenset(("add", "sub", "rsub"))
_REDUCED = frozenset(("sum", "mean", "cumsum"))
_SCALES = frozenset((*_MOVES.split(), "mul", "neg"))
_BENT = """
reciprocal sqrt rsqrt abs exp exp2 expm1 log log2 log1p log10 sin cos tanh erf erfc sigmoid relu silu gelu elu
leaky_relu softplus mish log_sigmoid_forward _softmax _safe_softmax _log_softmax logsumexp amax amin
"""
_CURVED = frozenset(_BENT.split())
"""Operations that need every element of their arguments as it is, and do not commute with a sum."""


def floor_us(operator: Operator, graph: Graph, target: Target) -> float:
    """Return the least microseconds of any kernel: for its required reads or products at the card's peak rate.

    Values of 8 bits are multiplied at twice the rate of those with 16.
    """
    rate = target.matrix_flops * (2 if operator.has_narrow_values else 1)
    reading_s = floor_bytes(operator, graph) / target.dram_bytes_per_s
    return max(reading_s, floor_flops(operator, graph) / rate) * 1e6


def floor_bytes(operator: Operator, graph: Graph) -> int:
    """Return the bytes of the inputs that every kernel has to read in full at the graph's shape."""
    items = tuple(operator.given)
    needed = (items[number] for number in _whole(graph, _floats(operator)))
    return sum(prod(operator.input_shape(item, graph.shape.dims)) * DTYPE_BYTES[item.dtype] for item in needed)


def floor_flops(operator: Operator, graph: Graph) -> float:
    """Return the operations of matrix products that every kernel has to do at the graph's shape: all, or 0.

    It is also 0 if an input has elements of a byte or less, because matrix units multiply such numbers faster.
    """
    if any(DTYPE_BYTES[item.dtype] == 1 for item in operator.given) or any(map(_is_in_place, graph.nodes)):
        return 0.0
    products = {index for index, node in enumerate(graph.nodes) if node.name in _MATRIX | _CONVOLUTIONS}
    kinds = _kinds(graph)
    are_different = len({kinds[index] for index in products}) == len(products)
    needed = _needed(graph, _dense(graph, _floats(operator), _NEVER_ZERO | _TINY))
    return (graph.matrix_flops or 0.0) if are_different and products <= needed else 0.0


def _floats(operator: Operator) -> frozenset[int]:
    """Return the numbers of the inputs that hold floats, which are hardly ever zero."""
    dtypes = (getattr(torch, item.dtype) for item in operator.given)
    return frozenset(number for number, dtype in enumerate(dtypes) if dtype.is_floating_point)


def _needed(graph: Graph, is_dense: Callable[[Reference], bool]) -> set[int]:
    """Return the nodes of which every element is needed as it is."""
    whole, _ = _split(graph.outputs)
    merged = set[int]()  # A sum over them would suffice.
    found, made = set[int](), _made_of_products(graph)
    for index in reversed(range(len(graph.nodes))):
        node, name = graph.nodes[index], graph.nodes[index].name
        used, _ = _split(node.uses)
        if index not in whole | merged:
            continue
        if name in _CURVED:
            whole |= used
        elif name in _MATRIX | _REDUCED:
            merged |= used
        if name in _MATRIX and index in whole:
            left, right = (_root(graph, use) for use in node.uses[-2:])
            if left != right and all(map(is_dense, node.uses)):
                found.add(index)
        elif name in _SCALES | _SUMS | {"div"}:
            one = name not in _SUMS or sum(made[number] for number in used) < 2
            passed, _ = _split(_kept(node, is_dense))
            (whole if index in whole and one else merged).update(passed)
    return found


def _kept(node: Node, is_dense: Callable[[Reference], bool]) -> Sequence[Reference]:
    """Return the arguments of a node that it needs in full, because no factor beside them is zero."""
    if node.name == "div":
        return node.uses[:1]
    if node.name != "mul":
        return node.uses
    return [use for number, use in enumerate(node.uses) if all(map(is_dense, _without(node.uses, number)))]


def _without(uses: Sequence[Reference], number: int) -> Sequence[Reference]:
    return (*uses[:number], *uses[number + 1 :])


def _root(graph: Graph, value: Reference) -> Reference:
    """Return the value that this one is a view or a copy of."""
    while isinstance(value, NodeRef) and graph.nodes[value.node].name in _MOVES.split():
        uses = graph.nodes[value.node].uses
        if len(uses) != 1:
            break
        value = uses[0]
    return value


def _made_of_products(graph: Graph) -> list[bool]:
    """Tell for each node if a product reaches it without a curved function between."""
    made: list[bool] = []
    for node in graph.nodes:
        used, _ = _split(() if node.name in _CURVED else node.uses)
        made.append(node.name in _MATRIX or any(made[number] for number in used))
    return made


def _kinds(graph: Graph) -> list[int]:
    """Return a number per node, equal where equal operations apply to equal inputs; constants are ignored."""
    numbers: dict[object, int] = {}
    kinds: list[int] = []
    for node in graph.nodes:
        used = tuple(-1 - use.input if isinstance(use, InputRef) else kinds[use.node] for use in node.uses)
        kinds.append(numbers.setdefault((node.op, used), len(numbers)))
    return kinds


def _whole(graph: Graph, floats: frozenset[int]) -> frozenset[int]:
    """Return the numbers of the inputs that are read in full; none if a node overwrites memory that may be unread.

    Args:
        graph: The reference.
        floats: Numbers of the inputs that hold floats.
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
    """Return the numbers of the nodes and of the inputs among values."""
    nodes = {value.node for value in values if isinstance(value, NodeRef)}
    return nodes, {value.input for value in values if isinstance(value, InputRef)}


def _dense(graph: Graph, floats: frozenset[int], names: frozenset[str] = _NEVER_ZERO) -> Callable[[Reference], bool]:
    """Return a test if a value is zero by coincidence only, provided that operations `names` preserve that property."""
    nodes: list[bool] = []

    def is_dense(value: Reference) -> bool:
        return value.input in floats if isinstance(value, InputRef) else nodes[value.node]

    for node in graph.nodes:
        nodes.append(node.name in names and bool(node.uses) and all(map(is_dense, node.uses)))
    return is_dense


def _read(node: Node, is_dense: Callable[[Reference], bool]) -> Sequence[Reference]:
    """Return the arguments that must be read in full if all of a node's result is needed."""
    if node.name in _WHOLE:
        return node.uses
    if node.name == "div":
        over, *under = node.uses
        return (over, *under) if is_dense(over) else (over,)
    if node.name not in _TIMES:
        return ()
    sparse = [each for each in node.uses if not is_dense(each)]
    return () if len(sparse) > 1 else sparse or node.uses


def _is_in_place(node: Node) -> bool:
    return node.name.endswith("_") and not node.name.endswith("__")
