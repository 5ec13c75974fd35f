"""Plainness: what kernels may say, so that it is the same to Triton's compiler and to the interpreter.

Kernels are no host code. Whatever tells by whom it is read, or changes what others read, is refused, with the reason.
"""

import ast
import builtins
from collections.abc import Mapping
from types import ModuleType

import torch
from triton import language as tl
from triton.language import core
from triton.runtime.jit import JITCallable

from workers.interpreter.faults import NotInterpretable

_BUILTINS = {
    "range", "min", "max", "abs", "len", "float", "int", "bool", "tuple", "list", "print", "round", "sum", "slice",
}  # fmt: skip
# Python's own functions that mean the same wherever they are called.
_FORBIDDEN = (
    ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.ClassDef, ast.AsyncFunctionDef, ast.Delete, ast.Try,
    ast.With, ast.Yield, ast.YieldFrom, ast.Await,
)  # fmt: skip
_ASKED = (core.tensor_descriptor, core.tensor_descriptor_base)
# Kinds that a kernel may ask for: descriptors come from one function, and are nothing else to either. Whether something
# is a tensor or a constant the two see differently.
_NUMBERS = (bool, int, float, str, type(None), tl.dtype, torch.dtype)
_MISSING = object()


def is_constant(value: object) -> bool:
    """Whether a global is one that assignments may make: numbers, dtypes, tables of them, modules and functions."""
    if isinstance(value, tl.constexpr):
        return _is_number(value.value)
    if isinstance(value, list | dict):
        return all(is_constant(item) for item in (value.values() if isinstance(value, dict) else value))
    return _is_number(value) or isinstance(value, ModuleType | JITCallable | type) or callable(value)


def resolve(expression: ast.expr, namespace: Mapping[str, object]) -> object:
    """What a name or a dotted name stands for, in a module or in Python; an object of no use if it is anything else.

    Of what is neither a module nor known, no member is looked at: it stands for all of them.
    """
    match expression:
        case ast.Name(id=name):
            return namespace.get(name, getattr(builtins, name, _MISSING))
        case ast.Attribute(value=owner, attr=name) if not name.startswith("__"):
            value = resolve(owner, namespace)
            return getattr(value, name, _MISSING) if isinstance(value, ModuleType) or _is_known(value) else value
    return _MISSING


def require_plain(function: ast.FunctionDef, namespace: Mapping[str, object]) -> None:
    """Hold a function that is compiled or interpreted against what kernels may say.

    Raises:
        NotInterpretable: At the first thing that they may not.
    """
    local = _bound_in(function)
    inner = {node.value for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    asking = {node.func for node in nodes if isinstance(node, ast.Call) and _asks_for_kind(node, local, namespace)}
    for node in (node for node in nodes if node not in asking):
        said = _objection(node, local, namespace, node in inner)
        if said:
            stopped = NotInterpretable(
                f"'{function.name}' {said}: a kernel may only calculate, for what is interpreted to be what is compiled"
            )
            stopped.line = getattr(node, "lineno", function.lineno)
            raise stopped


def _asks_for_kind(call: ast.Call, local: set[str], namespace: Mapping[str, object]) -> bool:
    """Whether a call is Python's `isinstance` of something and a kind that a kernel may ask for."""
    match call:
        case ast.Call(func=ast.Name("isinstance"), args=[_, kind], keywords=[]):
            is_own = "isinstance" in local or "isinstance" in namespace or _root(kind) in local
            return not is_own and any(resolve(kind, namespace) is asked for asked in _ASKED)
    return False


def _objection(node: ast.AST, local: set[str], namespace: Mapping[str, object], is_owner: bool) -> str:
    """What is not plain about a part of a function; empty if nothing is."""
    if isinstance(node, _FORBIDDEN):
        return f"has a statement '{type(node).__name__.lower()}'"
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return "assigns to a part of something"
    if not isinstance(node, ast.Attribute | ast.Name):
        return ""
    root, name = _root(node), node.attr if isinstance(node, ast.Attribute) else node.id
    is_member = isinstance(node, ast.Attribute) and (root in local or root not in namespace)
    if name.startswith("__") or (is_member and name.startswith(("_", "handle"))):
        return f"uses '{name}'"
    if is_owner or root in local or not isinstance(node.ctx, ast.Load):
        return ""
    return _unplain(ast.unparse(node), resolve(node, namespace), isinstance(node, ast.Name) and name not in namespace)


def _unplain(said: str, value: object, is_builtin: bool) -> str:
    if value is _MISSING:
        return ""
    if is_builtin:
        return "" if said in _BUILTINS else f"uses Python's '{said}'"
    return "" if _is_known(value) else f"uses '{said}', which is host code"


def _is_known(value: object) -> bool:
    """Whether something is part of the language that kernels are written in."""
    origin, kind = getattr(value, "__module__", None) or "", type(value)
    if isinstance(value, type):
        return origin.startswith(("triton.language", "triton._C"))
    own = origin == "math" or origin.startswith("triton.language.extra") or kind.__module__.startswith("triton._C")
    return own or isinstance(value, JITCallable | tl.constexpr) or core.is_builtin(value) or _is_number(value)


def _root(expression: ast.AST) -> str:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _bound_in(function: ast.FunctionDef) -> set[str]:
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return arguments | stored


def _is_number(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_number(item) for item in value)
    return isinstance(value, _NUMBERS)
