"""Taking over: of a candidate's module only imports, plain constants and functions, from its text.

Host code has said all it had to say: it is in the plan. What is taken over is compiled again and held against the plan,
and then interpreted. It can do nothing but calculate, so that it is the same for the compiler and the interpreter.
"""

import ast
import linecache
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITCallable, JITFunction

from workers.interpreter.allowed_syntax import is_constant, is_plain_default, require_plain, resolve
from workers.interpreter.faults import NotInterpretable

IMPORTS = {"torch", "triton", "math", "typing", "__future__"}
"""Packages whose imports are taken over; a candidate may use no others."""
MODULE_NAME = "candidate"
"""What the module is called, as while it was traced: the names of its functions are in the machine code."""

_CALLS = (
    tl.constexpr, triton.cdiv, tl.cdiv, triton.next_power_of_2, torch.finfo, torch.iinfo,
    float, int, bool, min, max, abs, len, tuple, round, sum, pow, divmod,
    *(value for name, value in vars(math).items() if not name.startswith("_") and callable(value)),
)  # fmt: skip
# What the value of a constant may call.
_PURE = (
    ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.BinOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Tuple,
    ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.keyword, ast.expr_context, ast.operator, ast.unaryop,
    ast.cmpop, ast.boolop,
)  # fmt: skip
_UNDEFINED = (ArithmeticError, AttributeError, ImportError, LookupError, NameError, TypeError, ValueError, OSError)
_DECORATORS = (triton.jit, triton.constexpr_function)
_WRAPPERS = ("jit", "autotune", "heuristics")


@dataclass(frozen=True)
class ExtractedModule:
    """What is taken over of a candidate.

    Attributes:
        namespace: The module's globals, with functions as Triton's compiler sees them.
        definitions: How each of its functions is defined, without what host code decorates it with.
        left_out: Names that are bound by what is not taken over, with the first such line.
    """

    namespace: dict[str, object]
    definitions: dict[FunctionType, ast.FunctionDef] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


def take_over(source: str) -> ExtractedModule:
    """The candidate's module without its host code.

    Raises:
        NotInterpretable: If a kernel could mean something else to the compiler than to the interpreter.
    """
    module = ModuleType(MODULE_NAME)
    sys.modules[MODULE_NAME] = module
    taken = ExtractedModule(vars(module))
    for index, statement in enumerate(ast.parse(source).body):
        bound = _take(statement, f"<statement {index}>", taken)
        for name in _names(statement) - bound:
            taken.namespace.pop(name, None)
            taken.left_out.setdefault(name, statement.lineno)
    known: dict[str, JITCallable] = {}
    for value in list(taken.namespace.values()):
        if isinstance(value, JITCallable) and value.fn in taken.definitions:
            require_plain(taken.definitions[value.fn], taken.namespace, isinstance(value, JITFunction))
            _require_single(known.setdefault(value.fn.__name__, value), value)
            _require_plain_defaults(value, taken)
    return taken


def _require_single(known: JITCallable, value: JITCallable) -> None:
    """Triton's compiler knows functions by their names alone. One may be made a kernel of several times."""
    if known.fn is not value.fn:
        raise NotInterpretable(
            f"two functions that the compiler reads are called '{value.fn.__name__}', and it knows them by their names "
            "alone: give each a name of its own"
        )


def _require_plain_defaults(value: JITCallable, taken: ExtractedModule) -> None:
    """What a default holds is the same in every call, and no function that has lost its name."""
    for default in (*(value.fn.__defaults__ or ()), *(value.fn.__kwdefaults__ or {}).values()):
        is_lost = isinstance(default, JITCallable) and default.fn in taken.definitions
        is_lost = is_lost and not any(default is known for known in taken.namespace.values())
        if is_lost or not is_plain_default(default):
            raise NotInterpretable(
                f"a parameter of '{value.fn.__name__}' has a default that may change: make it a plain constant"
            )


def _take(statement: ast.stmt, filename: str, taken: ExtractedModule) -> set[str]:
    """Execute a statement if it is one to take over; returns the names that it bound."""
    prepared = _prepare(statement, taken.namespace)
    if prepared is None:
        return set()
    bound: dict[str, object] = {}
    try:
        exec(_compile(prepared, filename), taken.namespace, bound)
    except _UNDEFINED:  # it needs what host code made; a kernel that uses it will say so
        return set()
    for name, value in list(bound.items()):
        if name.startswith("__") or not is_constant(value):
            del bound[name]
        elif isinstance(prepared, ast.FunctionDef):
            function = value.fn if isinstance(value, JITCallable) else value
            assert isinstance(function, FunctionType)
            taken.definitions[function] = prepared
    taken.namespace.update(bound)
    return set(bound)


def _compile(statement: ast.stmt, filename: str) -> CodeType:
    """Code of a statement whose text Triton can find, and is the same syntax tree that is interpreted."""
    text = ast.unparse(ast.fix_missing_locations(statement)) + "\n"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return compile(text, filename, "exec", dont_inherit=True)


def _names(statement: ast.stmt) -> set[str]:
    """Names that a statement may bind in the module."""
    if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
        return set()
    binder = _Binder()
    binder.visit(statement)
    return binder.names


class _Binder(ast.NodeVisitor):
    """Collects what is bound in the scope of what it visits."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_alias(self, node: ast.alias) -> None:
        self.names.add(node.asname or node.name.partition(".")[0])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.names.add(node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.names.add(node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.add(node.name)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """What it binds is its own."""
        self.visit(node.iter)


def _prepare(statement: ast.stmt, namespace: Mapping[str, object]) -> ast.stmt | None:
    """A statement without what only host code needs; None if it is not to be taken over."""
    match statement:
        case ast.Import(names=names):
            return statement if all(name.name.partition(".")[0] in IMPORTS for name in names) else None
        case ast.ImportFrom(module=module, level=0):
            return statement if (module or "").partition(".")[0] in IMPORTS else None
        case ast.Try(orelse=[], finalbody=[]):
            inner = [*statement.body, *(item for handler in statement.handlers for item in handler.body)]
            types = [handler.type for handler in statement.handlers if handler.type is not None]
            simple = all(_is_simple(item, namespace) for item in inner)
            return statement if simple and all(is_pure(kind, namespace) for kind in types) else None
        case ast.Assign(targets=targets, value=value):
            plain = _unwrapped(value, namespace) or (value if is_pure(value, namespace) else None)
            return ast.Assign(targets, plain) if plain is not None and all(map(_is_name, targets)) else None
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
            return ast.Assign([target], value) if is_pure(value, namespace) else None
        case ast.FunctionDef():
            return _bare(statement, namespace)
    return None


def _is_simple(statement: ast.stmt, namespace: Mapping[str, object]) -> bool:
    """Whether a statement may stand within `try`, where imports do."""
    match statement:
        case ast.Import() | ast.ImportFrom():
            return _prepare(statement, namespace) is not None
        case ast.Assign(targets=targets, value=value):
            return is_pure(value, namespace) and all(map(_is_name, targets))
    return isinstance(statement, ast.Pass)


def _is_name(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) or (isinstance(target, ast.Tuple) and all(map(_is_name, target.elts)))


def is_pure(expression: ast.expr, namespace: Mapping[str, object]) -> bool:
    """Whether an expression only names, calculates and calls what cannot surprise."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            if not any(resolve(node.func, namespace) is known for known in _CALLS):
                return False
        elif not isinstance(node, _PURE) or (isinstance(node, ast.Attribute) and node.attr.startswith("_")):
            return False
    return True


def _bare(function: ast.FunctionDef, namespace: Mapping[str, object]) -> ast.FunctionDef:
    """A function with no other decorators than those that make it a kernel, and without what host code computes.

    A launch brings all its arguments along, so defaults that are not plain are not missed.
    """
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for argument in every:
        if argument is not None and argument.annotation and not is_pure(argument.annotation, namespace):
            argument.annotation = None
    arguments.defaults = [_default(value, namespace) for value in arguments.defaults]
    arguments.kw_defaults = [value and _default(value, namespace) for value in arguments.kw_defaults]
    decorators = [decorator for each in function.decorator_list for decorator in _decorator(each, namespace)]
    bare = ast.FunctionDef(function.name, arguments, function.body, decorators)
    return ast.copy_location(bare, function)


def _default(value: ast.expr, namespace: Mapping[str, object]) -> ast.expr:
    return value if is_pure(value, namespace) else ast.copy_location(ast.Constant(None), value)


def _decorator(expression: ast.expr, namespace: Mapping[str, object]) -> Iterator[ast.expr]:
    """What is left of a decorator: `triton.jit` with its plain options, `triton.constexpr_function`, or nothing."""
    called = expression if isinstance(expression, ast.Call) else None
    function = called.func if called else expression
    if any(resolve(function, namespace) is known for known in _DECORATORS):
        options = [item for item in called.keywords if is_pure(item.value, namespace)] if called else []
        yield ast.Call(function, [], options) if options else function


def _unwrapped(value: ast.expr, namespace: Mapping[str, object]) -> ast.expr | None:
    """`triton.jit(function)` of that and of `triton.autotune(...)(triton.jit(function))`."""
    if not isinstance(value, ast.Call) or _last_name(value.func) not in _WRAPPERS or len(value.args) != 1:
        return None
    (inner,) = value.args
    plain = inner if isinstance(inner, ast.Name) else _unwrapped(inner, namespace)
    decorators = list(_decorator(value.func, namespace))
    return ast.Call(decorators[0], [plain], []) if plain is not None and decorators else plain


def _last_name(expression: ast.expr) -> str:
    """`jit` for `jit`, `triton.jit` and `triton.jit(...)`."""
    function = expression.func if isinstance(expression, ast.Call) else expression
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
