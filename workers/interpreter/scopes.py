"""Scopes: names and parameters of kernels that Triton's compiler binds differently from Python.

The compiler looks a name up at its position: in the function if bound before, otherwise in the module. Python decides
for the whole function. The compiler also ignores Python's kinds of parameters.
"""

import ast
import builtins
from collections.abc import Collection, Generator, Iterator, Sequence, Set

_COMPILERS_OWN = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max"}
# Names that Triton's compiler knows without a module.


def objection_to_parameters(function: ast.FunctionDef) -> str:
    """Return the objection to the parameters of a kernel; empty if there is none."""
    arguments = function.args
    if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return "has parameters that are more than a name, an annotation and a default"
    return ""


def shadowed(function: ast.FunctionDef, module: Collection[str], is_kernel: bool) -> ast.AST | None:
    """Return a node that may read a name before the function binds it, though the name exists outside.

    There the compiler takes the outer value, and Python does not. Parameters may have any name. Other names must be
    read only after they are bound: in the same block, in a nested one, or after a condition that binds it both ways.

    Args:
        function: The function.
        module: Names of the module's globals.
        is_kernel: True if Triton's compiler reads it; False if Python runs it.
    """
    outside = {*module, *(_COMPILERS_OWN if is_kernel else dir(builtins))}
    bound = {argument.arg for argument in _parameters(function.args)}
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    names = outside.intersection(map(_binds, nodes)) - bound
    return next(_unbound(function.body, names, bound), None) if names else None


def _unbound(block: Sequence[ast.stmt], names: Set[str], before: Set[str]) -> Generator[ast.AST, None, Set[str]]:
    """Yield nodes of a block that read one of the names, or bind it in an inner scope, while it is unbound.

    Args:
        block: The statements.
        names: The names.
        before: Names that are bound before the block.

    Returns:
        Names that are bound after the block, without compile-time values, which the compiler forgets if the device
        decides.
    """
    here, after = {*before}, {*before}
    for statement in block:
        made = _assigned(statement)
        for node in _own_parts(statement):
            if node not in made and named(node) in names - here:
                yield node
        stays: Set[str] = {node.id for node in made} if isinstance(statement, ast.Assign) else set()
        here |= {node.id for node in made}
        if isinstance(statement, ast.If):
            yes = yield from _unbound(statement.body, names, here)
            no = yield from _unbound(statement.orelse, names, here)
            stays = (yes & no) - here
            here |= stays
        elif isinstance(statement, ast.For | ast.While):
            counter = {_binds(node) for node in _target(statement)}
            yield from _unbound([*statement.body, *statement.orelse], names, here | counter)
        elif isinstance(statement, ast.Return):
            break  # Later statements are unreachable.
        after |= stays
    return after


def _own_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without its blocks and its loop variable."""
    if isinstance(statement, ast.If | ast.While):
        return ast.walk(statement.test)
    return ast.walk(statement.iter if isinstance(statement, ast.For) else statement)


def _target(loop: ast.For | ast.While) -> Iterator[ast.AST]:
    return ast.walk(loop.target) if isinstance(loop, ast.For) else iter(())


def _assigned(statement: ast.stmt) -> set[ast.Name]:
    """Return the names that a statement always assigns."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        return {part for part in parts if isinstance(part, ast.Name)}
    return set()


def leaked(function: ast.FunctionDef) -> ast.AST | None:
    """Return a node outside list comprehensions that uses the name of their counter, or a nested comprehension.

    The compiler binds the counter for all later statements, Python for the comprehension only.
    """
    nodes = list(ast.walk(function))
    lists = [node for node in nodes if isinstance(node, ast.ListComp)]
    for made in lists:
        inner = (part for part in ast.walk(made.elt) if isinstance(part, ast.ListComp))
        counter = made.generators[0].target
        own = {part for each in lists for part in _counted(each, named(counter))}
        used = (node for node in nodes if named(node) == named(counter) and node not in own)
        if (found := next(inner, None) or next(used, None)) is not None:
            return found
    return None


def _counted(made: ast.ListComp, name: str) -> set[ast.AST]:
    """Return the nodes in the scope of a comprehension's counter, if it has this name."""
    counter = made.generators[0].target
    return {counter, *ast.walk(made.elt)} if named(counter) == name else set()


def named(node: ast.AST) -> str:
    """Return the name that a node reads or binds; empty if it does neither."""
    return node.id if isinstance(node, ast.Name) else _binds(node)


def _binds(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
            return name
    return ""


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    more = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
