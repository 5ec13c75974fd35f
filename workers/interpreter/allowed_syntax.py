"""Syntax allowed in kernels: constructs with the same meaning for Triton's compiler and for the interpreter.

Refused, with a reason, is all that could tell the two apart or change code that either reads.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

import torch
from triton import language as tl
from triton.language import core
from triton.runtime.jit import JITCallable

from workers.interpreter.faults import NotInterpretable
from workers.interpreter.scopes import leaked, named, objection_to_parameters, shadowed

_BUILTINS = {
    "range", "min", "max", "abs", "len", "float", "int", "bool", "tuple", "list", "print", "round", "sum", "pow",
    "divmod", "slice",
}  # fmt: skip
_LISTING = {"range", "list"}
# Builtins that make lists in Python only: in the interpreter a list is a tuple, and `range` yields tensors.
_KERNEL = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.For, ast.While, ast.Return, ast.Expr, ast.Pass, ast.Assert,
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.Constant, ast.Attribute, ast.Subscript,
    ast.Starred, ast.Name, ast.List, ast.Tuple, ast.ListComp, ast.comprehension, ast.Slice, ast.keyword,
    ast.JoinedStr, ast.FormattedValue,
    ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip

_INSPECTABLE = (core.tensor, core.tensor_descriptor, core.tensor_descriptor_base)
# Classes that a kernel may pass to `isinstance`. Constants are not among them: the compiler unwraps them before the
# call, so its answer is always False.
_CALCULATION = (
    *_KERNEL, ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg, ast.Break, ast.Continue, ast.Raise, ast.Dict,
    ast.GeneratorExp, ast.DictComp, ast.NamedExpr,
)  # fmt: skip

_MESSENGERS = (core.static_assert, core.static_print, core.device_assert, core.device_print, print)

_TYPES = (core.tensor, core.dtype, core.block_type, core.pointer_type, core.tensor_descriptor)
_MEMBERS = {name for kind in _TYPES for name in dir(kind) if name[0] != "_" and not name.isupper()} | {
    "T", "name", "primitive_bitwidth", "itemsize", "int_signedness", "int_bitwidth", "fp_mantissa_width", "element_ty",
    "shape", "numel", "strides", "value", "dtype", "type", "scalar", "is_floating_point",
} - {"to_ir", "mangle", "cache_key_part"}  # fmt: skip
# Members of tensors, dtypes and constants that kernels may use.
_MODULES = ("torch", "triton", "math", "triton.language")
# Modules whose members kernels may use; of the last one, submodules too.
_ERRORS = {"AssertionError", "NotImplementedError", "RuntimeError", "TypeError", "ValueError"}
# Errors that a kernel may raise. The compiler refuses the statement, unless constants leave its branch out.
_NUMBERS = (bool, int, float, str, type(None), tl.dtype, torch.dtype)
_MISSING = object()


def is_constant(value: object) -> bool:
    """True if an assignment may create this global: numbers, dtypes, tables of them, modules and functions."""
    if isinstance(value, tl.constexpr):
        return _is_number(value.value)
    if isinstance(value, list | dict):
        return all(is_constant(item) for item in (value.values() if isinstance(value, dict) else value))
    return _is_number(value) or isinstance(value, ModuleType | JITCallable | type) or callable(value)


def resolve(expression: ast.expr, namespace: Mapping[str, object]) -> object:
    """Return the object of a name or a dotted name in a module or in Python; `_MISSING` for any other expression.

    An object that is neither a module nor known stands for all of its members; none is read.
    """
    match expression:
        case ast.Name(id=name):
            return namespace.get(name, getattr(builtins, name, _MISSING))
        case ast.Attribute(value=owner, attr=name) if not name.startswith("__"):
            value = resolve(owner, namespace)
            return getattr(value, name, _MISSING) if isinstance(value, ModuleType) or _is_known(value) else value
    return _MISSING


def is_plain_default(value: object) -> bool:
    """True if a parameter's default is the same in every call."""
    return _is_number(value) or _is_known(value)


def require_plain(function: ast.FunctionDef, namespace: Mapping[str, object], is_kernel: bool = True) -> None:
    """Check that a function that is compiled or interpreted uses allowed syntax only.

    Args:
        function: The function.
        namespace: The module's globals.
        is_kernel: True if Triton's compiler reads it; False if Python runs it.

    Raises:
        NotInterpretable: At the first construct that is not allowed.
    """
    if is_kernel and (said := objection_to_parameters(function)):
        raise _stopped(function, function, said)
    shadow = shadowed(function, namespace, is_kernel)
    if shadow is not None:
        said = (
            f"uses '{named(shadow)}' where it may not be bound yet, and the name has another meaning outside: bind it "
            "before in the same block, or rename it"
        )
        raise _stopped(function, shadow, said)
    if is_kernel:
        _require_plain_lists(function)
    local, messages = _bound_in(function), texts_in(function, namespace)
    inner = {node.value for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    admitted = {*_kinds_asked_for(nodes, local, namespace), *_annotations(nodes, local, namespace)}
    admitted |= {*_errors(nodes, local, namespace)}
    counting = {node.iter.func for node in nodes if isinstance(node, ast.For) and isinstance(node.iter, ast.Call)}
    for node in (node for node in nodes if node not in admitted):
        said = _misuse(node, _KERNEL if is_kernel else _CALCULATION, messages)
        said = said or _objection(node, local, namespace, node in inner)
        if is_kernel and node not in counting and _lists(node, local, namespace):
            said = said or f"uses Python's '{ast.unparse(node)}' outside a loop"
        if isinstance(node, ast.Name | ast.Attribute) and node not in called and _asserts(node, namespace):
            said = "uses 'static_assert' without calling it"
        if said:
            raise _stopped(function, node, said)


def _stopped(function: ast.FunctionDef, node: ast.AST, said: str) -> NotInterpretable:
    stopped = NotInterpretable(
        f"'{function.name}' {said}: a kernel may only calculate, so that the interpreter runs what Triton compiles"
    )
    stopped.line = getattr(node, "lineno", function.lineno)
    return stopped


def _require_plain_lists(function: ast.FunctionDef) -> None:
    """Refuse comprehensions that the compiler reads differently: it silently skips their conditions."""
    for node in ast.walk(function):
        match node:
            case ast.ListComp(generators=[ast.comprehension(target=ast.Name(), ifs=[], is_async=0)]):
                pass
            case ast.ListComp():
                raise _stopped(function, node, "makes a list of more than one 'for' with one name and no condition")
    if (leak := leaked(function)) is not None:
        said = "has a list in a list" if isinstance(leak, ast.ListComp) else f"uses '{named(leak)}', a list's counter"
        raise _stopped(function, leak, f"{said}: write the parts one by one, or rename the counter")


def texts_in(function: ast.FunctionDef, namespace: Mapping[str, object]) -> set[ast.AST]:
    """Return the parts of a function that only form texts for people."""
    found: list[ast.expr | None] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _messenger(node.func, namespace):
            found += [*node.args, *(item.value for item in node.keywords)]
        elif isinstance(node, ast.Assert):
            found.append(node.msg)
        elif isinstance(node, ast.Raise):
            found.append(node.exc)
    return {part for item in found if item is not None for part in ast.walk(item)}


def _messenger(callee: ast.expr, namespace: Mapping[str, object]) -> bool:
    value = resolve(callee, namespace)
    return any(value is known for known in _MESSENGERS)


def _misuse(node: ast.AST, known: tuple[type[ast.AST], ...], messages: set[ast.AST]) -> str:
    """Return the objection to a node that the compiler reads differently from Python; empty if there is none."""
    match node:
        case ast.JoinedStr() if node not in messages:
            return "makes a text of values"
        case ast.BinOp(op=ast.Mod(), left=left, right=right) if _is_text(left) or _is_text(right):
            return "makes a text of values"
        case ast.Compare(left=left, ops=ops, comparators=others):
            if any(isinstance(op, ast.Is | ast.IsNot) for op in ops) and not any(map(_is_single, [left, *others])):
                return "compares with 'is' to something else than None, True or False"
            if len(ops) > 1 and known is _KERNEL:  # Triton 3.9 compares elementwise, and Python only the last two.
                return "compares several values at once; write (a < b) & (b < c)"
        case ast.For(orelse=[_, *_]) | ast.While(orelse=[_, *_]):
            return "has an 'else' after a loop"
        case ast.AnnAssign(value=None):
            return "declares a name without a value"
    return "" if isinstance(node, known) else f"has a statement '{type(node).__name__.lower()}'"


def _is_text(expression: ast.expr) -> bool:
    return isinstance(expression, ast.JoinedStr) or (
        isinstance(expression, ast.Constant) and isinstance(expression.value, str | bytes)
    )


def _is_single(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and isinstance(expression.value, bool | None)


def _kinds_asked_for(nodes: Sequence[ast.AST], local: set[str], namespace: Mapping[str, object]) -> Iterator[ast.AST]:
    """Yield names of Python's `isinstance` in calls with a class that kernels may ask for."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name("isinstance") as asking, args=[_, kind], keywords=[]):
                is_own = "isinstance" in local or "isinstance" in namespace or _root(kind) in local
                if not is_own and any(resolve(kind, namespace) is asked for asked in _INSPECTABLE):
                    yield asking


def _annotations(nodes: Sequence[ast.AST], local: set[str], namespace: Mapping[str, object]) -> Iterator[ast.AST]:
    """Yield annotations `torch.Tensor`, which the compiler ignores."""
    for node in nodes:
        match node:
            case ast.AnnAssign(annotation=ast.Attribute(value=owner, attr="Tensor") as kind):
                if _root(owner) not in local and resolve(owner, namespace) is torch:
                    yield kind


def _errors(nodes: Sequence[ast.AST], local: set[str], namespace: Mapping[str, object]) -> Iterator[ast.AST]:
    """Yield statements that raise an error with a text, and the names of these errors."""
    allowed = _ERRORS - local - namespace.keys()
    for node in nodes:
        match node:
            case ast.Raise(exc=ast.Name(id=name) as kind, cause=None) if name in allowed:
                yield from (node, kind)
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name) as kind, args=said, keywords=[]), cause=None):
                if name in allowed and all(isinstance(text, ast.Constant) for text in said):
                    yield from (node, kind)


def _objection(node: ast.AST, local: set[str], namespace: Mapping[str, object], is_owner: bool) -> str:
    """Return the objection to a name in a function; empty if there is none."""
    if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return "assigns to a part of something"
    if isinstance(node, ast.Call) and _asserts(node.func, namespace):
        return "calls something in the text of an assertion" if any(map(_calls, node.args[1:])) else ""
    if not isinstance(node, ast.Attribute | ast.Name):
        return ""
    root, name = _root(node), node.attr if isinstance(node, ast.Attribute) else node.id
    is_member = isinstance(node, ast.Attribute) and (root in local or root not in namespace)
    if name.startswith("__"):
        return f"uses '{name}'"
    if is_member and name not in _MEMBERS:
        return f"uses '{name}', which is no member that kernels may use; write tuples in place of structures"
    if is_owner or root in local or not isinstance(node.ctx, ast.Load):
        return ""
    if not _is_near(node, namespace):
        return f"uses '{ast.unparse(node)}', which is host code"
    return _unplain(ast.unparse(node), resolve(node, namespace), isinstance(node, ast.Name) and name not in namespace)


def _lists(node: ast.AST, local: set[str], namespace: Mapping[str, object]) -> bool:
    return isinstance(node, ast.Name) and node.id in _LISTING - local - namespace.keys()


def _asserts(callee: ast.expr, namespace: Mapping[str, object]) -> bool:
    return resolve(callee, namespace) is core.static_assert


def _calls(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(expression))


def _is_near(expression: ast.AST, namespace: Mapping[str, object]) -> bool:
    """True if a dotted name passes only through the language's modules."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
        owner = resolve(expression, namespace)
        name = owner.__name__ if isinstance(owner, ModuleType) else ""
        if name and name not in _MODULES and not name.startswith(f"{_MODULES[-1]}."):
            return False
    return True


def _unplain(said: str, value: object, is_builtin: bool) -> str:
    if value is _MISSING:
        return ""
    if is_builtin:
        return "" if said in _BUILTINS else f"uses Python's '{said}'"
    return "" if _is_known(value) else f"uses '{said}', which is host code"


def _is_known(value: object) -> bool:
    """True if an object is part of the language of kernels."""
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
