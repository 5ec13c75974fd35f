"""Scopes: names and parameters of kernels, where Triton's compiler binds them in another way than Python.

The compiler looks a name up where it stands: bound before in this function, or else in the module. Python decides for
the whole function. And the compiler counts parameters that only Python tells apart as if they were all alike.
"""

import ast
import builtins
from collections.abc import Collection

_COMPILERS_OWN = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max"}
# Names that Triton's compiler knows without a module.


def objection_to_parameters(function: ast.FunctionDef) -> str:
    """What is not plain about the parameters of a kernel; empty if nothing is."""
    arguments = function.args
    if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return "has parameters that are more than a name, an annotation and a default"
    return ""


def shadowed(function: ast.FunctionDef, module: Collection[str], is_kernel: bool) -> ast.AST | None:
    """Where a function may or may not bind a name that means something else outside of it.

    Parameters may have any name, and so may what is assigned in the function's outermost block, since from there on the
    name is bound for both.

    Args:
        function: The function.
        module: Names of the module's globals.
        is_kernel: Whether Triton's compiler reads it, and Python does not run it.
    """
    outside = {*module, *(_COMPILERS_OWN if is_kernel else dir(builtins))}
    bound = {argument.arg for argument in _parameters(function.args)}
    for statement in function.body:
        direct = _assigned(statement)
        for node in ast.walk(statement):
            name = binds(node)
            if name in outside and name not in bound and node not in direct:
                return node
        bound |= {node.id for node in direct}
    return None


def _assigned(statement: ast.stmt) -> set[ast.Name]:
    """What a statement assigns whenever it is reached."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        return {part for part in parts if isinstance(part, ast.Name)}
    return set()


def binds(node: ast.AST) -> str:
    """The name that a node binds; empty if it binds none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
            return name
    return ""


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    more = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
