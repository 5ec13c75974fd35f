"""Inductor's own runtime in Triton's words: what its kernels call, as a candidate may write it."""

import ast
from collections.abc import Mapping

from workers.protocol import Outcome
from workers.tracer.refusal import Refused

PLAIN = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil", "abs", "sigmoid"}
"""Functions that Triton has itself; all else stays a call of libdevice."""

COMBINE = {
    "larger": "@triton.jit\ndef larger(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n",
    "smaller": "@triton.jit\ndef smaller(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n",
}
"""Device functions that candidates bring along: torch's maximum and minimum pass NaN on, `tl.max` does not."""

ELEMENTWISE = {*COMBINE, *(f"tl.{name}" for name in PLAIN), "tl.where", "tl.cast", "tl.sqrt_rn", "tl.div_rn", "tl.fma"}
"""Functions, beside those of libdevice, that give each element from the same elements of their arguments."""

_CALLS: Mapping[str, str] = {
    "triton_helpers.maximum": "larger({0}, {1})",
    "triton_helpers.minimum": "smaller({0}, {1})",
    "triton_helpers.max2": "tl.reduce({0}, {1}, larger)",
    "triton_helpers.min2": "tl.reduce({0}, {1}, smaller)",
    "triton_helpers.div_floor_integer": "({0}) // ({1})",
    "triton_helpers.any": "tl.max(({0}).to(tl.int32), {1}) != 0",
}
_NAMESPACES = ("triton_helpers.", "tl_math.", "libdevice.")


def respell(function: ast.FunctionDef) -> ast.FunctionDef:
    """A kernel without Inductor's runtime, in place.

    Raises:
        Refused: If it calls what has no counterpart here.
    """
    respelled = _Spelling().visit(function)
    assert isinstance(respelled, ast.FunctionDef)
    return respelled


def dotted(node: ast.AST) -> str:
    """A name with its attributes, such as `tl.load`; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


class _Spelling(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Assertions on the device are for those who debug."""
        if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.device_assert":
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = dotted(node.func)
        if not name.startswith(_NAMESPACES):
            node.func = self.visit(node.func)
        node.args = [self.visit(item) for item in node.args]
        if name in _CALLS:
            return _expression(_CALLS[name].format(*map(ast.unparse, node.args)))
        if name.startswith(_NAMESPACES):
            return self._function(node, name)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1:
            return _cast(node.func.value, node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if dotted(node).startswith("triton_helpers."):
            raise Refused(Outcome.FORBIDDEN_OP, f"TorchInductor's kernel needs {dotted(node)} of its own runtime")
        return node

    def _function(self, node: ast.Call, name: str) -> ast.expr:
        room, _, function = name.partition(".")
        if room == "triton_helpers":
            raise Refused(Outcome.FORBIDDEN_OP, f"TorchInductor's kernel calls {name}, a function of its own runtime")
        node.func = _expression(f"tl.{function}" if function in PLAIN else f"libdevice.{function}")
        return node


def _cast(value: ast.expr, node: ast.Call) -> ast.expr:
    """Sizes may be constants of the compilation, which have no `to`."""
    names = [item.id for item in ast.walk(value) if isinstance(item, ast.Name)]
    calls = any(isinstance(item, ast.Call) for item in ast.walk(value))
    if names and not calls and all(name.startswith("ks") for name in names):
        return _expression(f"tl.cast({ast.unparse(value)}, {ast.unparse(node.args[0])})")
    return node


def _expression(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body
