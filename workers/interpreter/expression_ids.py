"""Expression ids: the same number for an expression in the compiled and in the interpreted syntax tree."""

import ast
from collections.abc import Collection, Iterator, Mapping

from workers.interpreter.allowed_syntax import texts_in

SITE = "site"
"""Attribute with the id of an expression, or of a name that `+=` binds."""
READ = "read"
"""Attribute of an assignment such as `+=` with the id of the name's value before it."""
LOOP = "loop"
"""Attribute with the id of a loop or a list comprehension."""

_COMPUTING = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.UnaryOp)


def number(function: ast.FunctionDef, namespace: Mapping[str, object]) -> None:
    """Number the computed expressions and the loops of a function's body.

    Expressions that cannot differ, such as literals, and those whose value is not used get no number. A name gets one
    if it is bound inside a block; in the outermost block its value has been compared already.

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
    """Return the names that a loop's body binds."""
    return sorted({_stored(node) for part in loop.body for node in ast.walk(part)} - {""})


def _silent(node: ast.AST) -> Iterator[ast.AST]:
    """Yield parts whose value is not used."""
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
    """Yield names that may differ from the value that was compared where they were bound."""
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
