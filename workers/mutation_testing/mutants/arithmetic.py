"""Mutations of elementwise arithmetic: operands, constants and operations left out or replaced by cheaper ones."""

from collections.abc import Callable

from workers.mutation_testing.builder import GraphBuilder, named
from workers.mutation_testing.mutants.base import Mutation, number
from workers.protocol import Node, NodeRef
from workers.protocol.graph import Value

EPSILON = 1e-2
"""Upper bound of added constants that only serve stability."""
PERCENT = 1.01

TERMS = named("add sub")
FACTORS = named("mul div")
LEFT_OUT = named(
    """
    neg abs sign reciprocal sqrt rsqrt square exp exp2 log log2 log1p expm1 sin cos tanh erf sigmoid relu pow floor ceil
    round clamp clamp_min clamp_max bitwise_not logical_not bitwise_and __lshift__ __rshift__ flip roll transpose t
    permute
    """
)


def _without_right(draft: GraphBuilder, node: Node) -> Value | None:
    return node.args[0] if _stands_in(draft, node.args[0], node.args[1]) else None


def _without_left(draft: GraphBuilder, node: Node) -> Value | None:
    return node.args[1] if _stands_in(draft, node.args[1], node.args[0]) else None


def _stands_in(draft: GraphBuilder, kept: Value, dropped: Value) -> bool:
    """Return True if one tensor can replace a result of both: it has all of the result's axes."""
    one, other = draft.form(kept), draft.form(dropped)
    if one is None or other is None or len(one.shape) < len(other.shape):
        return False
    return all(a == b or b == 1 for a, b in zip(reversed(one.shape), reversed(other.shape), strict=False))


def _without_epsilon(draft: GraphBuilder, node: Node) -> Value | None:
    return node.args[0] if _is_epsilon(node) else None


def _larger_epsilon(draft: GraphBuilder, node: Node) -> Value | None:
    return _with_constant(draft, node, 10 * float(str(node.args[1]))) if _is_epsilon(node) else None


def _is_epsilon(node: Node) -> bool:
    constant = number(node.args[1]) if len(node.args) > 1 else None
    return constant is not None and 0 < abs(constant) < EPSILON


def _larger_constant(draft: GraphBuilder, node: Node) -> Value | None:
    constant = number(node.args[1]) if len(node.args) > 1 else None
    form = draft.form(node.args[0])
    if constant is None or form is None or not form.is_float or (node.name in TERMS and _is_epsilon(node)):
        return None
    return _with_constant(draft, node, PERCENT * constant)


def _with_constant(draft: GraphBuilder, node: Node, constant: float) -> NodeRef:
    return draft.call(node.op.removeprefix("aten."), node.args[0], constant, *node.args[2:], **node.kwargs)


def _nonstrict(draft: GraphBuilder, node: Node) -> Value | None:
    """Swap `<` and `<=` or `>` and `>=`: a border that is off by one."""
    other = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}[node.name]
    return draft.call(f"{other}.{node.op.split('.')[2]}", *node.args)


def _exp_by_a_short_constant(draft: GraphBuilder, node: Node) -> Value | None:
    """Compute 2^(1.44 x), with log2(e) cut after two digits."""
    return draft.call("exp2.default", draft.call("mul.Tensor", node.args[0], 1.44))


def _log_by_a_short_constant(draft: GraphBuilder, node: Node) -> Value | None:
    """Compute 0.69 log2(x), with log(2) cut after two digits."""
    return draft.call("mul.Tensor", draft.call("log2.default", node.args[0]), 0.69)


def _tanh_by_a_fraction(draft: GraphBuilder, node: Node) -> Value | None:
    """Compute the first terms of the continued fraction: x (27 + x^2) / (27 + 9 x^2), between -1 and 1."""
    square = draft.call("mul.Tensor", node.args[0], node.args[0])
    above = draft.call("mul.Tensor", node.args[0], draft.call("add.Tensor", square, 27.0))
    below = draft.call("add.Tensor", draft.call("mul.Tensor", square, 9.0), 27.0)
    return draft.call("clamp.default", draft.call("div.Tensor", above, below), -1.0, 1.0)


def _sigmoid_by_lines(draft: GraphBuilder, node: Node) -> Value | None:
    """Compute the hard sigmoid: x / 6 + 1/2 between 0 and 1."""
    line = draft.call("add.Tensor", draft.call("div.Tensor", node.args[0], 6.0), 0.5)
    return draft.call("clamp.default", line, 0.0, 1.0)


def _erf_by_tanh(draft: GraphBuilder, node: Node) -> Value | None:
    """Compute tanh(1.2 x), as in GELU by a plain sigmoid."""
    return draft.call("tanh.default", draft.call("mul.Tensor", node.args[0], 1.2))


CHEAPER: dict[str, Callable[[GraphBuilder, Node], Value | None]] = {
    "exp": _exp_by_a_short_constant,
    "log": _log_by_a_short_constant,
    "tanh": _tanh_by_a_fraction,
    "sigmoid": _sigmoid_by_lines,
    "erf": _erf_by_tanh,
}
"""Cheap approximations, by the operation that they replace."""

MUTATIONS = (
    Mutation("without its right operand", TERMS | FACTORS, _without_right),
    Mutation("without its left operand", TERMS | FACTORS, _without_left),
    Mutation("epsilon left out", named("add"), _without_epsilon),
    Mutation("epsilon ten times as large", named("add"), _larger_epsilon),
    Mutation("constant larger by 1%", TERMS | FACTORS | named("rsub"), _larger_constant),
    Mutation("left out", LEFT_OUT, lambda draft, node: node.args[0]),
    Mutation("border off by one", named("lt le gt ge"), _nonstrict),
    *(Mutation("by a cheap approximation", named(name), spoil) for name, spoil in CHEAPER.items()),
)
