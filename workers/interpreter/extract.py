"""Extraction of imports, plain constants and functions from a candidate's text, without its host code.

The plan contains all effects of host code. The extracted module is recompiled, compared with the plan and interpreted.
It can only calculate, so it means the same to the compiler and the interpreter.
"""

import ast
import linecache
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import CodeType, FunctionType, ModuleType
from typing import cast

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.runtime.jit import JITCallable, JITFunction

from workers.interpreter.allowed_syntax import is_constant, is_plain_default, require_plain, resolve
from workers.interpreter.faults import NotInterpretable
from workers.tracer.needed import needed_part

IMPORTS = {"torch", "triton", "triton.language", "math", "typing", "__future__"}
"""Modules whose imports are extracted, for `triton.language` with its submodules. Candidates may import more (see
`workers.tracer.source`); kernels may not use it."""
MODULE_NAME = "candidate"
"""Name of the module, as during tracing: machine code contains the names of its functions."""

_CALLS = (
    tl.constexpr, triton.cdiv, tl.cdiv, triton.next_power_of_2, torch.finfo, torch.iinfo,
    float, int, bool, min, max, abs, len, tuple, round, sum, pow, divmod,
    *(value for name, value in vars(math).items() if not name.startswith("_") and callable(value)),
)  # fmt: skip
# Functions that the value of a constant may call.
_PURE = (
    ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.BinOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Tuple,
    ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.keyword, ast.expr_context, ast.operator, ast.unaryop,
    ast.cmpop, ast.boolop,
)  # fmt: skip
_UNDEFINED = (ArithmeticError, AttributeError, ImportError, LookupError, NameError, TypeError, ValueError, OSError)
_DECORATORS = (triton.jit, triton.constexpr_function)
_WRAPPERS = ("jit", "autotune", "heuristics")
_TELLING = ("launch_metadata", "repr")
# Options of `triton.jit` that only describe launches, by functions of host code.


@dataclass(frozen=True)
class ExtractedModule:
    """The extracted part of a candidate's module.

    Attributes:
        namespace: The module's globals, with functions as Triton's compiler sees them.
        definitions: Definitions of its functions, without host code's decorators.
        left_out: Names bound by statements that were not extracted, with the first such line.
    """

    namespace: dict[str, object]
    definitions: dict[FunctionType, ast.FunctionDef] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


def extract_module(source: str, launched: Collection[str] = ()) -> ExtractedModule:
    """Extract the candidate's module without its host code, and without what the launched kernels do not need.

    Args:
        source: The candidate.
        launched: Names of the functions that its plans launch.

    Raises:
        NotInterpretable: If one of these is in Gluon, or if a kernel could mean something else to the compiler than to
            the interpreter.
    """
    module = ModuleType(MODULE_NAME)
    sys.modules[MODULE_NAME] = module
    taken = ExtractedModule(vars(module))
    in_gluon, gluons = set[str](), dict[str, object]()
    for index, statement in enumerate(_flat(needed_part(ast.parse(source), launched).body, taken.namespace)):
        gluons.update(_gluons(statement))
        in_gluon |= _names(statement) if _makes_gluon(statement, {**taken.namespace, **gluons}) else set()
        bound = _take(statement, f"<statement {index}>", taken)
        for name in _names(statement) - bound - _kept(statement, taken.namespace):
            taken.namespace.pop(name, None)
            taken.left_out.setdefault(name, statement.lineno)
    for name in launched:
        if name in in_gluon:
            raise NotInterpretable(f"'{name}' is written in Gluon, which is not interpreted: judge it on a card")
    known: dict[str, JITCallable] = {}
    for value in list(taken.namespace.values()):
        if isinstance(value, JITCallable) and value.fn in taken.definitions:
            require_plain(taken.definitions[value.fn], taken.namespace, isinstance(value, JITFunction))
            _require_single(known.setdefault(value.fn.__name__, value), value)
            _require_plain_defaults(value, taken)
    return taken


def _flat(statements: Sequence[ast.stmt], namespace: Mapping[str, object]) -> Iterator[ast.stmt]:
    """Yield statements, in place of an `if` whose condition is plain those that it chooses.

    Conditions are computed when their turn comes, from what was extracted before. Where host code decides, as in `if
    compare_version("triton", ge, "3.0.0"):`, functions and imports are guessed: kernels must compile to the plan's.
    """
    for statement in statements:
        chosen = _is_true(statement.test, namespace) if isinstance(statement, ast.If) else None
        if isinstance(statement, ast.If) and chosen is not None:
            yield from _flat(statement.body if chosen else statement.orelse, namespace)
        else:
            yield statement
            yield from _guessed(statement, namespace)
            yield from (kernel for kernel in _kernels_of(statement) if kernel.name not in namespace)


def _kernels_of(statement: ast.stmt) -> Iterator[ast.FunctionDef]:
    """Yield the kernels that a class holds or a function makes.

    Names in them are those of the module. A kernel that reads its function's own names is refused later, as these are
    missing.
    """
    for item in statement.body if isinstance(statement, ast.ClassDef | ast.FunctionDef) else ():
        if isinstance(item, ast.FunctionDef) and any(_last_name(each) == "jit" for each in item.decorator_list):
            yield item


def _guessed(statement: ast.stmt, namespace: Mapping[str, object]) -> Sequence[ast.stmt]:
    """Return functions and imports of the language in the first branch of an `if` that has any; empty if none has."""
    branches = (statement.body, statement.orelse) if isinstance(statement, ast.If) else ()
    kinds = (ast.Import, ast.ImportFrom, ast.Try, ast.FunctionDef)
    guesses = ([item for item in branch if isinstance(_prepare(item, namespace), kinds)] for branch in branches)
    return next(filter(None, guesses), [])


def _is_true(condition: ast.expr, namespace: Mapping[str, object]) -> bool | None:
    """Return the truth of a condition; None if host code decides it."""
    if not is_pure(condition, namespace):
        return None
    try:
        value = eval(compile(ast.Expression(condition), "<condition>", "eval"), dict(namespace))
    except _UNDEFINED:
        return None
    return bool(value) if is_constant(value) else None


def _gluons(statement: ast.stmt) -> Iterator[tuple[str, object]]:
    """Yield what an import takes from Gluon, by name; it is known, although it is not extracted."""
    match statement:
        case ast.Import(names=names):
            yield from ((alias.asname, gluon) for alias in names if alias.asname and alias.name == gluon.__name__)
        case ast.ImportFrom(module="triton.experimental", names=names):
            yield from ((alias.asname or alias.name, gluon) for alias in names if alias.name == "gluon")
        case ast.ImportFrom(module=gluon.__name__, names=names):
            yield from ((alias.asname or alias.name, getattr(gluon, alias.name, None)) for alias in names)


def _makes_gluon(statement: ast.stmt, namespace: Mapping[str, object]) -> bool:
    """True if a statement makes a kernel in Gluon, by a decorator or as in `kernel = gluon.jit(function)`."""
    match statement:
        case ast.FunctionDef(decorator_list=makers):
            pass
        case ast.Assign(value=value):
            makers = [value]
        case _:
            return False
    named = (node for maker in makers for node in ast.walk(maker) if isinstance(node, ast.Name | ast.Attribute))
    return any(resolve(node, namespace) is gluon.jit for node in named)


def _require_single(known: JITCallable, value: JITCallable) -> None:
    """Require unique names, by which Triton's compiler knows functions. One function may become several kernels."""
    if known.fn is not value.fn:
        raise NotInterpretable(
            f"two functions that the compiler reads are called '{value.fn.__name__}', and it knows them by their names "
            "alone: give each a name of its own"
        )


def _require_plain_defaults(value: JITCallable, taken: ExtractedModule) -> None:
    """Require defaults that are the same in every call and no function without a name in the module."""
    for default in (*(value.fn.__defaults__ or ()), *(value.fn.__kwdefaults__ or {}).values()):
        is_lost = isinstance(default, JITCallable) and default.fn in taken.definitions
        is_lost = is_lost and not any(default is known for known in taken.namespace.values())
        if is_lost or not is_plain_default(default):
            raise NotInterpretable(
                f"a parameter of '{value.fn.__name__}' has a default that may change: make it a plain constant"
            )


def _take(statement: ast.stmt, filename: str, taken: ExtractedModule) -> set[str]:
    """Execute a statement if it is to be extracted. Returns the names that it bound."""
    prepared = _prepare(statement, taken.namespace)
    if prepared is None:
        return set()
    bound: dict[str, object] = {}
    try:
        exec(_compile(prepared, filename), taken.namespace, bound)
    except _UNDEFINED:  # It needs host code's values; a kernel that uses the name is refused later.
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
    """Compile a statement from a text that Triton can find and that has the interpreted syntax tree."""
    text = ast.unparse(ast.fix_missing_locations(statement)) + "\n"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return compile(text, filename, "exec", dont_inherit=True)


def _names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement may bind in the module."""
    if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
        return set()
    binder = _Binder()
    binder.visit(statement)
    return binder.names


class _Binder(ast.NodeVisitor):
    """Collector of the names that are bound in the visited scope."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        """Collect the name of a definition, without its body."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.names.add(node.name)
        else:
            super().visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_alias(self, node: ast.alias) -> None:
        self.names.add(node.asname or node.name.partition(".")[0])

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Skip the counter, which is local to the comprehension."""
        self.visit(node.iter)


def _prepare(statement: ast.stmt, namespace: Mapping[str, object]) -> ast.stmt | None:
    """Return a statement without its host code; None if it is not to be extracted."""
    match statement:
        case ast.Import(names=names):
            known = [alias for alias in map(_known_import, names) if alias is not None]
            return ast.Import(known) if known else None
        case ast.ImportFrom(module=module, level=0):
            return statement if _is_known_module(module or "") else None
        case ast.Try(orelse=[], finalbody=[]):
            inner = [*statement.body, *(item for handler in statement.handlers for item in handler.body)]
            types = [handler.type for handler in statement.handlers if handler.type is not None]
            simple = all(_is_simple(item, namespace) for item in inner)
            if simple and all(is_pure(kind, namespace) for kind in types):
                return statement
            start = takewhile(lambda item: _is_import(item) or _is_simple(item, namespace), statement.body)
            first = [item for item in start if _prepare(item, namespace) is not None]
            return ast.If(ast.Constant(True), first, []) if first else None
        case ast.Assign(targets=targets, value=value):
            plain = _unwrapped(value, namespace) or (value if is_pure(value, namespace) else None)
            return ast.Assign(targets, plain) if plain is not None and all(map(_is_name, targets)) else None
        case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
            return ast.Assign([target], value) if is_pure(value, namespace) else None
        case ast.FunctionDef():
            return _bare(statement, namespace)
    return None


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _kept(statement: ast.stmt, namespace: Mapping[str, object]) -> set[str]:
    """Return the names of the language's modules that a statement may bind anew, as `triton = None` without Triton.

    The plan has kernels, so they are there; and what is extracted with them must compile to the plan's kernels.
    """
    if not isinstance(statement, ast.If | ast.Try):
        return set()
    modules = {name: value.__name__ for name, value in namespace.items() if isinstance(value, ModuleType)}
    return {name for name, module in modules.items() if _is_known_module(module)}


def _known_import(alias: ast.alias) -> ast.alias | None:
    """Return what an import binds of a known module: `import torch.nn` binds `torch`."""
    package = alias.name.partition(".")[0]
    if _is_known_module(alias.name):
        return alias
    return ast.alias(package) if alias.asname is None and package in IMPORTS else None


def _is_known_module(name: str) -> bool:
    return name in IMPORTS or name.startswith("triton.language.")


def _is_simple(statement: ast.stmt, namespace: Mapping[str, object]) -> bool:
    """True if a statement may stand within `try`, as imports do."""
    match statement:
        case ast.Import() | ast.ImportFrom():
            return _prepare(statement, namespace) is not None
        case ast.Assign(targets=targets, value=value):
            return is_pure(value, namespace) and all(map(_is_name, targets))
    return isinstance(statement, ast.Pass)


def _is_name(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) or (isinstance(target, ast.Tuple) and all(map(_is_name, target.elts)))


def is_pure(expression: ast.expr, namespace: Mapping[str, object]) -> bool:
    """True if an expression has only names, arithmetic and calls without side effects."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            if not any(resolve(node.func, namespace) is known for known in _CALLS):
                return False
        elif not isinstance(node, _PURE) or (isinstance(node, ast.Attribute) and node.attr.startswith("_")):
            return False
    return True


def _bare(function: ast.FunctionDef, namespace: Mapping[str, object]) -> ast.FunctionDef:
    """Strip a function of all decorators except those that make it a kernel, and of expressions of host code.

    A launch contains all arguments, so defaults that are not plain are not needed.
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
    return ast.copy_location(cast(ast.FunctionDef, _WithoutTexts().visit(bare)), function)


class _WithoutTexts(ast.NodeTransformer):
    """Removal of texts that stand alone: Triton reads those of several lines with other blanks than Python does."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """Replace a text."""
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.copy_location(ast.Pass(), node) if is_text else node


def _default(value: ast.expr, namespace: Mapping[str, object]) -> ast.expr:
    return value if is_pure(value, namespace) else ast.copy_location(ast.Constant(None), value)


def _decorator(expression: ast.expr, namespace: Mapping[str, object]) -> Iterator[ast.expr]:
    """Yield the extracted decorator: `triton.jit` with its plain options, `triton.constexpr_function`, or nothing."""
    called = expression if isinstance(expression, ast.Call) else None
    function = called.func if called else expression
    if any(resolve(function, namespace) is known for known in _DECORATORS):
        given = [item for item in called.keywords if item.arg not in _TELLING] if called else []
        options = [item for item in given if is_pure(item.value, namespace)]
        yield ast.Call(function, [], options) if options else function


def _unwrapped(value: ast.expr, namespace: Mapping[str, object]) -> ast.expr | None:
    """Reduce `triton.autotune(...)(triton.jit(function))` to `triton.jit(function)`."""
    if not isinstance(value, ast.Call) or _last_name(value.func) not in _WRAPPERS or len(value.args) != 1:
        return None
    (inner,) = value.args
    plain = inner if isinstance(inner, ast.Name) else _unwrapped(inner, namespace)
    decorators = list(_decorator(value.func, namespace))
    return ast.Call(decorators[0], [plain], []) if plain is not None and decorators else plain


def _last_name(expression: ast.expr) -> str:
    """Return `jit` for `jit`, `triton.jit` and `triton.jit(...)`."""
    function = expression.func if isinstance(expression, ast.Call) else expression
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
