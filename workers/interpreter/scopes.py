"""Scopes: names and parameters of kernels, where Triton's compiler binds them in another way than Python.

The compiler looks a name up where it stands: bound before in this function, or else in the module. Python decides for
the whole function. And the compiler counts parameters that only Python tells apart as if they were all alike.
"""

import ast
import builtins
from collections.abc import Collection, Generator, Iterator, Sequence, Set

_COMPILERS_OWN = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max"}
# Names that Triton's compiler knows without a module.


def objection_to_parameters(function: ast.FunctionDef) -> str:
    """What is not plain about the parameters of a kernel; empty if nothing is."""
    arguments = function.args
    if arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return "has parameters that are more than a name, an annotation and a default"
    return ""


def shadowed(function: ast.FunctionDef, module: Collection[str], is_kernel: bool) -> ast.AST | None:
    """Where a function may read a name before it binds it, that means something else outside of it.

    There the compiler takes what is outside, and Python does not. Parameters may have any name. So may whatever else is
    read only behind what binds it: in the same block, within it, or behind a condition of which both branches bind it.

    Args:
        function: The function.
        module: Names of the module's globals.
        is_kernel: Whether Triton's compiler reads it, and Python does not run it.
    """
    outside = {*module, *(_COMPILERS_OWN if is_kernel else dir(builtins))}
    bound = {argument.arg for argument in _parameters(function.args)}
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    names = outside.intersection(map(_binds, nodes)) - bound
    return next(_unbound(function.body, names, bound), None) if names else None


def _unbound(block: Sequence[ast.stmt], names: Set[str], before: Set[str]) -> Generator[ast.AST, None, Set[str]]:
    """Where a block reads one of the names, or binds it in a scope of its own, while it is not bound.

    Args:
        block: The statements, one after the other.
        names: Which names count.
        before: What is bound before.

    Returns:
        What is bound behind the block for whoever stands outside of it. Compile-time values are not: where the device
        decides, the compiler forgets them.
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
            break  # What stands behind it nobody reads.
        after |= stays
    return after


def _own_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """All of a statement but its blocks, and but what a loop counts with."""
    if isinstance(statement, ast.If | ast.While):
        return ast.walk(statement.test)
    return ast.walk(statement.iter if isinstance(statement, ast.For) else statement)


def _target(loop: ast.For | ast.While) -> Iterator[ast.AST]:
    return ast.walk(loop.target) if isinstance(loop, ast.For) else iter(())


def _assigned(statement: ast.stmt) -> set[ast.Name]:
    """What a statement assigns whenever it is reached."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
        return {part for part in parts if isinstance(part, ast.Name)}
    return set()


def leaked(function: ast.FunctionDef) -> ast.AST | None:
    """Where a name is used that a list's comprehension counts with, other than in what such lists are made of.

    The compiler binds it for all that follows, and Python for the comprehension alone.
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
    """All of a comprehension that is in its counter's scope, if that has this name."""
    counter = made.generators[0].target
    return {counter, *ast.walk(made.elt)} if named(counter) == name else set()


def named(node: ast.AST) -> str:
    """The name that a node reads or binds; empty if it does neither."""
    return node.id if isinstance(node, ast.Name) else _binds(node)


def _binds(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
            return name
    return ""


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    more = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]
