"""Simplification of a kernel: no repeated or unused computation, no needless casts, formulas instead of `tmp17`.

Lines of Inductor's kernels bind a name to an expression without side effects, in the kernel's body and in its loops;
only stores have effects. So a line with an unused name can be dropped, and one that is read once can move to its
reader.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy

from workers.inductor_seeds.runtime import dotted

FORMULA_CHARS = 88
"""Maximum length of a line into which an expression is inlined."""

FLOAT = "tl.float32"
_KEEPS_FLOAT = {"tl.sum", "tl.where", "tl.exp", "tl.log", "tl.sqrt", "tl.rsqrt", "larger", "smaller", "tl.reduce"}
_KEEPS_FLOAT |= {"tl.broadcast_to", "libdevice.tanh", "tl.sigmoid", "tl.dot", "tl.exp2", "tl.log2", "tl.abs"}

_KEPT = {"tl.load", "tl.arange", "tl.sum", "tl.reduce", "tl.dot", "tl.full", "tl.zeros", "tl.associative_scan"}
"""Calls that keep their lines."""


def simplify(function: ast.FunctionDef) -> None:
    """Simplify a kernel in place until nothing changes."""
    before = ""
    while before != (before := ast.unparse(function)):
        _drop_casts(function)
        _inline_constants(function)
        _inline_copies(function)
        _inline_single_uses(function)
        _drop_unread(function)


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the body of a function, then the bodies of its loops."""
    for item in ast.walk(node):
        if isinstance(item, ast.FunctionDef | ast.For):
            yield item.body


def bound(line: ast.stmt) -> str:
    """Return the name that a line binds; empty if it binds none."""
    match line:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _names(node: ast.AST, context: type[ast.expr_context]) -> Counter[str]:
    return Counter(item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, context))


def _settled(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return names that are bound once, with their values."""
    stored = _names(function, ast.Store)
    return {
        bound(line): line.value
        for body in blocks(function)
        for line in body
        if isinstance(line, ast.Assign) and bound(line) and stored[bound(line)] == 1
    }


def _drop_unread(function: ast.FunctionDef) -> None:
    read = _names(function, ast.Load)
    for body in blocks(function):
        body[:] = [line for line in body if not bound(line) or read[bound(line)]]


def _inline_copies(function: ast.FunctionDef) -> None:
    """Replace copies: after `x0 = xindex`, write `xindex` where `x0` is read.

    In a loop both are bound in every iteration, the copy right after its original, so they are always equal.
    """
    stored, copied = _names(function, ast.Store), dict[str, list[ast.expr]]()
    for body in blocks(function):
        for line in body:
            if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(line.value, ast.Name) and bound(line):
                copied.setdefault(bound(line), []).append(line.value)
    copies: dict[str, ast.expr] = {
        name: values[0]
        for name, values in copied.items()
        if stored[name] == len(values)
        and len({ast.unparse(value) for value in values}) == 1
        and stored[ast.unparse(values[0])] in (0, 1, len(values))
    }
    _substitute(function, {name: value for name, value in copies.items() if ast.unparse(value) not in copies})


def _inline_constants(function: ast.FunctionDef) -> None:
    """Replace `tl.full([1, 1], 1e-06, tl.float32)` by its number in arithmetic."""
    found: dict[str, ast.expr] = {}
    for name, value in _settled(function).items():
        match value:
            case ast.Call(args=[ast.List(elts=sizes), number, dtype]) if dotted(value.func) == "tl.full":
                single = all(isinstance(size, ast.Constant) and size.value == 1 for size in sizes)
                if single and sizes and ast.unparse(dtype) != "tl.float64" and _is_arithmetic(function, name):
                    found[name] = number
    _substitute(function, found)


def _is_arithmetic(function: ast.FunctionDef, name: str) -> bool:
    """True if a name is always an operand beside others, or a choice of `tl.where`."""
    good = 0
    for node in ast.walk(function):
        operands: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and dotted(node.func) == "tl.where":
            operands = node.args[1:]
        named = [isinstance(item, ast.Name) and item.id == name for item in operands]
        good += sum(named) if not all(named) else 0
    return good == _names(function, ast.Load)[name]


def _inline_single_uses(function: ast.FunctionDef) -> None:
    """Move an expression to its only reader, a later line of the same block. Loads keep their lines."""
    read, settled = _names(function, ast.Load), _settled(function)
    for body in blocks(function):
        for at, line in enumerate(body):
            value = settled.get(bound(line))
            if value is None or read[bound(line)] != 1 or _acts(value):
                continue
            reader = next((item for item in body[at + 1 :] if _names(item, ast.Load)[bound(line)]), None)
            short = reader is not None and len(ast.unparse(reader)) + len(ast.unparse(value)) < FORMULA_CHARS
            if reader is None or isinstance(reader, ast.For) or not short:
                continue
            if not _is_overwritten(value, body[at + 1 : body.index(reader)]):
                _Substitution({bound(line): value}).visit(reader)
                body.remove(line)
                return _inline_single_uses(function)
    return None


def _acts(value: ast.expr) -> bool:
    calls = [dotted(item.func) for item in ast.walk(value) if isinstance(item, ast.Call)]
    return any(name in _KEPT for name in calls)


def _is_overwritten(value: ast.expr, between: list[ast.stmt]) -> bool:
    """True if lines rebind a name that a value reads."""
    return any(_names(value, ast.Load).keys() & _names(line, ast.Store).keys() for line in between)


def _drop_casts(function: ast.FunctionDef) -> None:
    """Drop casts to float32 of values that are float32 already."""
    settled, known = _settled(function), set[str]()
    stored = _names(function, ast.Store)
    several = {name for name in stored if stored[name] > 1}
    values: dict[str, list[ast.expr]] = {name: [value] for name, value in settled.items()}
    for body in blocks(function):
        for line in body:
            if bound(line) in several and isinstance(line, ast.Assign):
                values.setdefault(bound(line), []).append(line.value)
    known = set(values)
    while wrong := {name for name in known if not all(_is_float(value, known) for value in values[name])}:
        known -= wrong
    _Casts(known).visit(function)


def _is_float(value: ast.expr, known: set[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in known
        case ast.Constant(value=float()):
            return True
        case ast.UnaryOp(operand=operand):
            return _is_float(operand, known)
        case ast.Subscript(value=inner):
            return _is_float(inner, known)
        case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            both = _is_float(left, known) and _is_float(right, known)
            return both and not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant))
    return isinstance(value, ast.Call) and _is_float_call(value, known)


def _is_float_call(call: ast.Call, known: set[str]) -> bool:
    name = dotted(call.func)
    if _is_cast(call) or name in ("tl.cast", "tl.full"):
        dtype = call.args[-1]
        like = isinstance(dtype, ast.Attribute) and dtype.attr == "dtype" and _is_float(dtype.value, known)
        return like or ast.unparse(dtype) == FLOAT
    if name not in _KEEPS_FLOAT:
        return False
    operands = (
        call.args[1:] if name == "tl.where" else call.args[:2] if name in ("larger", "smaller") else call.args[:1]
    )
    return all(_is_float(item, known) for item in operands)


def _is_cast(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "to"


class _Casts(ast.NodeTransformer):
    def __init__(self, known: set[str]) -> None:
        self._known = known

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "to":
            return node
        value, dtype = node.func.value, ast.unparse(node.args[0])
        cast = isinstance(value, ast.Call) and (dotted(value.func) == "tl.cast" or _is_cast(value))
        if cast and isinstance(value, ast.Call) and ast.unparse(value.args[-1]) == dtype:
            return value
        return value if dtype == FLOAT and _is_float(value, self._known) else node


def _substitute(function: ast.FunctionDef, values: dict[str, ast.expr]) -> None:
    if values:
        for body in blocks(function):
            body[:] = [line for line in body if bound(line) not in values]
        _Substitution(values).visit(function)


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self._values:
            return deepcopy(self._values[node.id])
        return node
