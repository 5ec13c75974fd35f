"""Translation of jit functions to Python functions, from their syntax trees.

Decorators and annotations are dropped. `workers.interpreter.rewriting` changes constructs that differ on the device.
"""

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from types import CodeType, FunctionType, ModuleType

from triton import language as tl
from triton.runtime.jit import ConstexprFunction, JITCallable, JITFunction

from workers.interpreter.allowed_syntax import is_plain_default
from workers.interpreter.extract import MODULE_NAME, ExtractedModule
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.rewriting import DeviceCode, check_results, insert_trace

Functions = dict[str, FunctionType]
"""Python functions by the global names of the jit functions they stand for."""


def translate_candidate(
    taken: ExtractedModule,
    filename: str,
    provided: Mapping[str, object],
    replaced: Mapping[int, object],
    is_recorded: bool = False,
) -> Functions:
    """Translate the functions of a candidate's module, ready to be called as kernels.

    Args:
        taken: The candidate.
        filename: File name of its lines in tracebacks.
        provided: Names that its functions see in place of Python's own.
        replaced: Replacements of Triton's objects, by `id`.
        is_recorded: True if expressions are numbered, and compared with the compiler's record.
    """
    constants = {name: _plain(value, replaced) for name, value in taken.namespace.items() if name[:2] != "__"}
    device: dict[str, object] = {"__name__": MODULE_NAME, "__builtins__": builtins, **provided, **constants}
    functions: dict[FunctionType, FunctionType] = {}
    kernels = {value.fn for value in taken.namespace.values() if isinstance(value, JITFunction)}
    for original, definition in taken.definitions.items():
        if original not in kernels:
            continue
        made: dict[str, FunctionType] = {}
        exec(_compile(_rewrite_kernel(deepcopy(definition), is_recorded), filename), device, made)
        functions[original] = made[definition.name]
    for original, function in functions.items():
        function.__defaults__ = original.__defaults__ and tuple(
            _translated(value, functions, replaced) for value in original.__defaults__
        )
    for name, value in taken.namespace.items():
        if isinstance(value, JITCallable | FunctionType):
            device[name] = _translated(value, functions, replaced)
    return {name: value for name, value in device.items() if isinstance(value, FunctionType)}


def _plain(value: object, replaced: Mapping[int, object]) -> object:
    """Return the value of a global in kernels: the module's constants are unwrapped, as those of launches are."""
    return value.value if isinstance(value, tl.constexpr) else replaced.get(id(value), value)


def _translated(
    value: object, functions: Mapping[FunctionType, FunctionType], replaced: Mapping[int, object]
) -> object:
    """Return the value of a function or another global in kernels."""
    function: object = value.fn if isinstance(value, JITCallable) else value
    if isinstance(value, ConstexprFunction):
        return _at_compile_time(value) if value.__module__ == MODULE_NAME else _plain(value, replaced)
    made = functions.get(function) if isinstance(function, FunctionType) else None
    return made or _plain(value, replaced)


def _at_compile_time(function: ConstexprFunction) -> Callable[..., object]:
    """Wrap a function that Python runs at compile time: its arguments and result must be constants."""

    def call(*values: object, **options: object) -> object:
        result = function(*values, **options)
        if not all(map(is_plain_default, (*values, *options.values(), result))):
            raise NotInterpretable(f"'{function.fn.__name__}' takes or returns something else than a constant")
        return result

    return call


def translate_library(library: ModuleType, provided: Mapping[str, object]) -> Functions:
    """Translate the jit functions of one of Triton's own modules.

    Its builtins must be bound already; names that the module defines take precedence over `provided`.
    """
    namespace = {**provided, **vars(library)}
    codes = library_codes(library)
    for code in codes.values():
        exec(code, namespace)
    return {name: value for name in codes if isinstance(value := namespace[name], FunctionType)}


@cache
def library_codes(library: ModuleType) -> dict[str, CodeType]:
    """Compile the definitions of a library's jit functions, by name. Cached, so a warm parent compiles only once."""
    filename = inspect.getsourcefile(library) or library.__name__
    return {
        statement.name: _compile(_rewrite(statement), filename)
        for statement in ast.parse(inspect.getsource(library), filename).body
        if isinstance(statement, ast.FunctionDef) and _is_jitted(statement)
    }


def launchable(functions: Functions, name: str) -> Callable[..., object]:
    """Return the function that a launch names.

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


def _compile(statement: ast.stmt, filename: str) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module([statement], [])), filename, "exec", dont_inherit=True)


def _is_jitted(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).rpartition(".")[2] == "jit" for decorator in function.decorator_list)


def _rewrite(function: ast.FunctionDef) -> ast.FunctionDef:
    DeviceCode().visit(function)
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    function.decorator_list, function.returns = [], None
    return function


def _rewrite_kernel(function: ast.FunctionDef, is_recorded: bool) -> ast.FunctionDef:
    """Rewrite a candidate's function. Its defaults are set later, to their values at the definition."""
    check_results(function)
    function.args.defaults = [ast.Constant(None) for _ in function.args.defaults]
    _rewrite(function)
    if is_recorded:
        insert_trace(function)
    return function
