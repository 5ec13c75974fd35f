"""Translation of jit functions to Python functions, from source text.

Host code has said all it had to say: it is in the plan. So of a candidate only imports, functions and plain constants
are taken over, decorators and annotations are dropped, and nothing but kernels is ever called.
"""

import ast
import builtins
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import CodeType, FunctionType, ModuleType

from workers.interpreter.faults import NotInterpretable

IMPORTS = {"torch", "triton", "math", "__future__"}
"""Packages whose imports are taken over; a candidate may use no others."""

CALLS = {"tl", "triton", "math", "constexpr", "float", "int", "bool", "min", "max", "abs", "len", "tuple"}
"""First names of what the value of a constant may call."""

_PURE = (
    ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.BinOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Tuple,
    ast.List, ast.Dict, ast.Subscript, ast.Slice, ast.keyword, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop,
    ast.boolop,
)  # fmt: skip

_UNDEFINED = (ArithmeticError, AttributeError, ImportError, LookupError, NameError, TypeError, ValueError)

_WRAPPERS = ("jit", "autotune", "heuristics")

Functions = dict[str, FunctionType]
"""Python functions by the global names of the jit functions they stand for."""


def translate_candidate(source: str, filename: str, provided: Mapping[str, object]) -> Functions:
    """The functions of a candidate's module, ready to be called as kernels.

    Args:
        source: The candidate.
        filename: Name its lines carry in tracebacks.
        provided: Names that its functions see in place of Python's own.
    """
    host: dict[str, object] = {"__name__": "candidate", "__builtins__": builtins}
    device = {**host, **provided}
    for statement in ast.parse(source, filename).body:
        if not _is_kept(statement):
            continue
        on_device = isinstance(statement, ast.FunctionDef) and not _decorated(statement, "constexpr_function")
        try:
            exec(_compile(_rewrite(statement), filename), device if on_device else host)
        except _UNDEFINED:  # it needs what host code made; a kernel that uses it will say so
            continue
        if on_device and isinstance(statement, ast.FunctionDef):
            host[statement.name] = device[statement.name]
        device |= {name: value for name, value in host.items() if device.get(name) is not value}
    return {name: value for name, value in device.items() if isinstance(value, FunctionType)}


def translate_library(library: ModuleType, provided: Mapping[str, object]) -> Functions:
    """The jit functions of one of Triton's own modules.

    Its builtins must be bound already; names that the module defines itself win over `provided`.
    """
    namespace = {**provided, **vars(library)}
    codes = library_codes(library)
    for code in codes.values():
        exec(code, namespace)
    return {name: value for name in codes if isinstance(value := namespace[name], FunctionType)}


@cache
def library_codes(library: ModuleType) -> dict[str, CodeType]:
    """Code that defines a library's jit functions, by name. Kept, so that a warm parent compiles it only once."""
    filename = inspect.getsourcefile(library) or library.__name__
    return {
        statement.name: _compile(_rewrite(statement), filename)
        for statement in ast.parse(inspect.getsource(library), filename).body
        if isinstance(statement, ast.FunctionDef) and _decorated(statement, "jit")
    }


def launchable(functions: Functions, name: str) -> Callable[..., object]:
    """The function that a launch names.

    Raises:
        NotInterpretable: If the candidate defines no such function at module level.
    """
    plain = name.rpartition(".")[2]
    if plain not in functions:
        raise NotInterpretable(
            f"the launched kernel '{name}' is no function at the top level of the module; define it there to have it "
            "interpreted"
        )
    return functions[plain]


def may_wait(functions: Functions, name: str) -> bool:
    """Whether a candidate has a `while` loop, which may wait for another program's store."""
    return name not in functions or any("__continue__" in function.__code__.co_names for function in functions.values())


def _compile(statement: ast.stmt, filename: str) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module([statement], [])), filename, "exec", dont_inherit=True)


def _is_kept(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return all(name.name.partition(".")[0] in IMPORTS for name in names)
        case ast.ImportFrom(module=module):
            return (module or "").partition(".")[0] in IMPORTS
        case ast.Try(body=body, handlers=handlers):
            inner = [*body, *(item for handler in handlers for item in handler.body)]
            return all(isinstance(item, (ast.Import, ast.ImportFrom)) and _is_kept(item) for item in inner)
        case ast.Assign(value=value):
            return _wrapped(value) is not None or _is_pure(value)
        case ast.AnnAssign(value=ast.expr() as value):
            return _is_pure(value)
    return isinstance(statement, ast.FunctionDef)


def _is_pure(expression: ast.expr) -> bool:
    """Whether an expression only names, calculates and calls what cannot surprise."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call):
            if _root(node.func) not in CALLS:
                return False
        elif not isinstance(node, _PURE):
            return False
    return True


def _root(expression: ast.expr) -> str:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _last_name(expression: ast.expr) -> str:
    """`jit` for `jit`, `triton.jit` and `triton.jit(...)`."""
    function = expression.func if isinstance(expression, ast.Call) else expression
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _decorated(function: ast.FunctionDef, name: str) -> bool:
    return any(_last_name(decorator) == name for decorator in function.decorator_list)


def _wrapped(value: ast.expr) -> ast.Name | None:
    """The function in `triton.jit(function)` and `triton.autotune(...)(triton.jit(function))`."""
    if not isinstance(value, ast.Call) or _last_name(value.func) not in _WRAPPERS or len(value.args) != 1:
        return None
    (inner,) = value.args
    return inner if isinstance(inner, ast.Name) else _wrapped(inner)


def _rewrite(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, ast.Assign):
        statement.value = _wrapped(statement.value) or statement.value
    if isinstance(statement, ast.FunctionDef):
        if not _decorated(statement, "constexpr_function"):
            _DeviceCode().visit(statement)
        statement.decorator_list = []
        _drop_host_values(statement)
    return statement


def _drop_host_values(function: ast.FunctionDef) -> None:
    """Annotations, and defaults that host code would compute: a launch brings all its arguments along."""
    arguments = function.args
    function.returns = None
    every: Iterable[ast.arg | None] = (
        *arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg
    )  # fmt: skip
    for argument in every:
        if argument is not None:
            argument.annotation = None
    arguments.defaults = [value if _is_pure(value) else ast.Constant(None) for value in arguments.defaults]


class _DeviceCode(ast.NodeTransformer):
    """Rewrites what means something else on the device than in Python.

    Assignments turn numbers into scalars, conditions are decided for all lanes at once, `and`, `or` and `not` work
    element by element, and assertions are gone.
    """

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _call("__carry__", node.value)
        return node

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        node.test = _call("__decide__", node.test)
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        node.test = _call("__continue__", node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        self.generic_visit(node)
        node.test = _call("__decide__", node.test)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        name = "__both__" if isinstance(node.op, ast.And) else "__either__"
        return _call(name, *(ast.Lambda(_NO_ARGUMENTS, value) for value in node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("__not__", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Assert(self, node: ast.Assert) -> ast.Pass:
        return ast.Pass()


_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
