"""Inductor's runtime in plain Triton: replacements for the functions that its kernels call."""

import ast
from collections.abc import Mapping

from workers.protocol import Outcome
from workers.tracer.refusal import TraceRefused

PLAIN = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil", "abs", "sigmoid"}
"""Functions of Triton itself; others stay calls of libdevice."""

COMBINE = {
    "larger": "@triton.jit\ndef larger(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n",
    "smaller": "@triton.jit\ndef smaller(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n",
    "larger_at": """@triton.jit
def larger_at(a, a_place, b, b_place):
    equal = (a == b) | (a != a) & (b != b)
    wins = (a > b) | (a != a) & (b == b) | equal & (a_place < b_place)
    return tl.where(wins, a, b), tl.where(wins, a_place, b_place)
""",
    "smaller_at": """@triton.jit
def smaller_at(a, a_place, b, b_place):
    equal = (a == b) | (a != a) & (b != b)
    wins = (a < b) | (a != a) & (b == b) | equal & (a_place < b_place)
    return tl.where(wins, a, b), tl.where(wins, a_place, b_place)
""",
    "times": "@triton.jit\ndef times(a, b):\n    return a * b\n",
    "quotient": """@triton.jit
def quotient(a, b):
    return a // b - ((a % b != 0) & ((a < 0) != (b < 0))).to(tl.int32)
""",
    "remainder": """@triton.jit
def remainder(a, b):
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), a % b + b, a % b)
""",
    "softmax_step": """@triton.jit
def softmax_step(peak, total, value):
    top = larger(peak, value)
    nothing = top == float('-inf')
    kept, added = tl.where(nothing, 1.0, tl.exp(peak - top)), tl.where(nothing, 1.0, tl.exp(value - top))
    return top, total * kept + added
""",
    "softmax_fold": """@triton.jit
def softmax_fold(peaks, totals, axis: tl.constexpr):
    top = tl.reduce(peaks, axis, larger)
    tops = tl.expand_dims(top, axis)
    return top, tl.sum(totals * tl.exp(tl.where(tops == float('-inf'), 0.0, peaks - tops)), axis)
""",
    "moments_step": """@triton.jit
def moments_step(value, mean, spread, count):
    shift = value - mean
    nearer = mean + shift / (count + 1.0)
    return nearer, spread + shift * (value - nearer), count + 1.0
""",
    "moments_join": """@triton.jit
def moments_join(mean, spread, count, other_mean, other_spread, other_count):
    shift, total = other_mean - mean, count + other_count
    share = tl.where(total == 0.0, 0.0, other_count / total)
    return mean + shift * share, spread + other_spread + shift * shift * count * share, total
""",
}
"""Device functions for candidates. torch's maximum and minimum propagate NaN, `tl.max` does not; those with a place
take the first of equals. `quotient` and `remainder` round down, where Triton rounds to zero. `softmax` keeps the
largest value so far and the sum of exponentials relative to it, `moments` a mean and the sum of squared deviations."""

ELEMENTWISE = {"larger", "smaller", "quotient", "remainder", *(f"tl.{name}" for name in PLAIN)}
ELEMENTWISE |= {"tl.where", "tl.cast", "tl.sqrt_rn", "tl.div_rn", "tl.fma"}
"""Elementwise functions, apart from those of libdevice."""

_CALLS: Mapping[str, str] = {
    "triton_helpers.maximum": "larger({0}, {1})",
    "triton_helpers.minimum": "smaller({0}, {1})",
    "triton_helpers.max2": "tl.reduce({0}, {1}, larger)",
    "triton_helpers.min2": "tl.reduce({0}, {1}, smaller)",
    "triton_helpers.maximum_with_index": "larger_at({0}, {1}, {2}, {3})",
    "triton_helpers.minimum_with_index": "smaller_at({0}, {1}, {2}, {3})",
    "triton_helpers.max_with_index": "tl.reduce(({0}, {1}), {2}, larger_at)",
    "triton_helpers.min_with_index": "tl.reduce(({0}, {1}), {2}, smaller_at)",
    "triton_helpers.prod": "tl.reduce({0}, {1}, times)",
    "triton_helpers.any": "tl.max(({0}).to(tl.int32), {1}) != 0",
    "triton_helpers.select_one": "tl.sum(tl.where({1}, {0}, 0), {dim}, keep_dims={keep_dims})",
    "triton_helpers.online_softmax_combine": "softmax_step({0}, {1}, {2})",
    "triton_helpers.online_softmax_reduce": "softmax_fold({0}, {1}, {2})",
    "triton_helpers.welford_reduce": "moments_step({0}, {1}, {2}, {3})",
    "triton_helpers.welford_combine": "moments_join({0}, {1}, {2}, {3}, {4}, {5})",
    "triton_helpers.welford": "tl.reduce(({0}, {1}, {2}), {3}, moments_join)",
    "triton_helpers.promote_to_tensor": "({0})",
}
_DIVISIONS = {
    "triton_helpers.div_floor_integer": ("({0}) // ({1})", "quotient({0}, {1})"),
    "triton_helpers.remainder_integer": ("({0}) % ({1})", "remainder({0}, {1})"),
}
"""Replacements of divisions that round down: for sizes, which are never negative, and for other numbers."""

_NAMESPACES = ("triton_helpers.", "tl_math.", "libdevice.")


def replace_runtime(function: ast.FunctionDef) -> ast.FunctionDef:
    """Replace Inductor's runtime in a kernel, in place.

    Raises:
        TraceRefused: If it calls a function without a counterpart here.
    """
    replaced = _RuntimeCalls().visit(function)
    assert isinstance(replaced, ast.FunctionDef)
    return replaced


def dotted(node: ast.AST) -> str:
    """Return a name with its attributes, such as `tl.load`; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def count_blocks(extent: str, block: int) -> str:
    """Return the number of blocks of an extent as host code, with the block as a number equal to the launch's."""
    return extent if block == 1 else f"triton.cdiv({extent}, {block})"


class _RuntimeCalls(ast.NodeTransformer):
    def __init__(self) -> None:
        self._sizes: set[str] = set()
        # Locals computed from sizes: a mean divides by one. Inductor assigns each of its locals once.

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Drop assertions on the device, which are for debugging."""
        if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.device_assert":
            return None
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Unwrap the tuples of a scan of one tensor."""
        self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Name() as name]) if self._is_made_of_sizes(node.value):
                self._sizes.add(name.id)
            case ast.Assign(
                targets=[ast.Tuple(elts=[name])], value=ast.Call(args=[ast.Tuple(elts=[value]), *_]) as scan
            ):
                node.targets, scan.args[0] = [name], value
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = dotted(node.func)
        if not name.startswith(_NAMESPACES):
            node.func = self.visit(node.func)
        node.args = [self.visit(item) for item in node.args]
        if name in _CALLS or name in _DIVISIONS:
            code = _DIVISIONS[name][not all(map(_is_size, node.args))] if name in _DIVISIONS else _CALLS[name]
            named = {item.arg: ast.unparse(item.value) for item in node.keywords if item.arg}
            return _expression(code.format(*map(ast.unparse, node.args), **named))
        if name.startswith(_NAMESPACES):
            return self._function(node, name)
        if name == "tl.broadcast_to" and self._is_made_of_sizes(node.args[0]):
            node.args[0] = _expression(f"tl.cast({ast.unparse(node.args[0])}, tl.int64)")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1:
            return self._cast(node.func.value, node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if dotted(node).startswith("triton_helpers."):
            raise TraceRefused(Outcome.FORBIDDEN_OP, f"TorchInductor's kernel needs {dotted(node)} from its runtime")
        return node

    def _cast(self, value: ast.expr, node: ast.Call) -> ast.expr:
        """Write `tl.cast` for sizes: they may be compile-time constants, which have no `to`."""
        if self._is_made_of_sizes(value):
            return _expression(f"tl.cast({ast.unparse(value)}, {ast.unparse(node.args[0])})")
        return node

    def _is_made_of_sizes(self, value: ast.expr) -> bool:
        names = [item.id for item in ast.walk(value) if isinstance(item, ast.Name)]
        calls = any(isinstance(item, ast.Call) for item in ast.walk(value))
        return bool(names) and not calls and all(name.startswith("ks") or name in self._sizes for name in names)

    def _function(self, node: ast.Call, name: str) -> ast.expr:
        room, _, function = name.partition(".")
        if room == "triton_helpers":
            raise TraceRefused(Outcome.FORBIDDEN_OP, f"TorchInductor's kernel calls {name}, a function of its runtime")
        node.func = _expression(f"tl.{function}" if function in PLAIN else f"libdevice.{function}")
        return node


def _is_size(value: ast.expr) -> bool:
    return all(item.id.startswith("ks") for item in ast.walk(value) if isinstance(item, ast.Name))


def _expression(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body
