"""Translation of jit functions to Python functions, from their syntax trees.

Decorators and annotations are dropped, and what means something else on the device than in Python is rewritten.
"""

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from types import CodeType, FunctionType, ModuleType

from triton.runtime.jit import ConstexprFunction, JITCallable

from workers.interpreter.faults import NotInterpretable
from workers.interpreter.taking import MODULE_NAME, Taken

Functions = dict[str, FunctionType]
"""Python functions by the global names of the jit functions they stand for."""


def translate_candidate(
    taken: Taken, filename: str, provided: Mapping[str, object], replaced: Mapping[int, object]
) -> Functions:
    """The functions of a candidate's module, ready to be called as kernels.

    Args:
        taken: The candidate.
        filename: Name its lines carry in tracebacks.
        provided: Names that its functions see in place of Python's own.
        replaced: What they see in place of objects of Triton's, by identity of those.
    """
    constants = {name: replaced.get(id(value), value) for name, value in taken.namespace.items() if name[:2] != "__"}
    device: dict[str, object] = {"__name__": MODULE_NAME, "__builtins__": builtins, **provided, **constants}
    functions: dict[object, FunctionType] = {}
    for original, definition in taken.definitions.items():
        made: dict[str, FunctionType] = {}
        exec(_compile(_rewrite(deepcopy(definition)), filename), device, made)
        functions[original] = made[definition.name]
    for name, value in taken.namespace.items():
        function: object = value.fn if isinstance(value, JITCallable) else value
        if isinstance(function, FunctionType) and function in functions:
            device[name] = function if isinstance(value, ConstexprFunction) else functions[function]
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


def _decorated(function: ast.FunctionDef, name: str) -> bool:
    return any(ast.unparse(decorator).rpartition(".")[2] == name for decorator in function.decorator_list)


def _rewrite(function: ast.FunctionDef) -> ast.FunctionDef:
    _DeviceCode().visit(function)
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    function.decorator_list, function.returns = [], None
    return function


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
