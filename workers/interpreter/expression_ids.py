"""Sites: a kernel's expressions, numbered alike in the tree that is compiled and in the one that is interpreted."""

import ast
from collections.abc import Collection, Iterator, Mapping

from workers.interpreter.allowed_syntax import texts_in

SITE = "site"
"""The attribute of an expression that says which one it is, or of a name that `+=` binds."""
READ = "read"
"""The same of an assignment such as `+=`, for the name as it was before."""
LOOP = "loop"
"""The same of a loop, or a list's comprehension."""

_COMPUTING = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.UnaryOp)


def number(function: ast.FunctionDef, namespace: Mapping[str, object]) -> None:
    """Number what a function's body computes, and its loops.

    Left out is what cannot differ, such as literals, and what nobody asks for. A name counts if it is bound anywhere
    but in the outermost block, where its value has been looked at already.

    Args:
        function: The function.
        namespace: The module's globals.
    """
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    left_out = texts_in(function, namespace) | {part for node in nodes for part in _silent(node)}
    bound = {*map(_stored, nodes), *(argument.arg for argument in function.args.args)}
    unsteady = {name for statement in function.body for name in _unsteady(statement)}
    for place, node in enumerate(nodes):
        if isinstance(node, ast.For | ast.While | ast.ListComp):
            setattr(node, LOOP, place)
        elif isinstance(node, ast.AugAssign):
            setattr(node.target, SITE, place)
            setattr(node, READ, ~place)
        elif node not in left_out and _counts(node, bound, unsteady):
            setattr(node, SITE, place)


def bound_in(loop: ast.For | ast.While) -> list[str]:
    """Names that a loop's body binds."""
    return sorted({_stored(node) for part in loop.body for node in ast.walk(part)} - {""})


def _silent(node: ast.AST) -> Iterator[ast.AST]:
    """Parts of which no value is asked for."""
    match node:
        case ast.Call(func=callee):
            yield callee
        case ast.AnnAssign(annotation=annotation):
            yield from ast.walk(annotation)
        case ast.Expr(value=value) | ast.For(iter=value):
            yield value


def _stored(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""


def _unsteady(statement: ast.stmt) -> Iterator[str]:
    """Names that may stand for something else than what was looked at where they were bound."""
    if not isinstance(statement, ast.Assign):
        yield from map(_stored, ast.walk(statement))


def _counts(node: ast.AST, bound: Collection[str], unsteady: Collection[str]) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant()):
            return False
        case ast.Name(id=name, ctx=ast.Load()):
            return name in unsteady
        case ast.Attribute(value=owner):
            while isinstance(owner, ast.Attribute):
                owner = owner.value
            return not isinstance(owner, ast.Name) or owner.id in bound
        case ast.Subscript():
            return True
    return isinstance(node, _COMPUTING)
