"""Matching and building syntax trees: match on nodes, build from text."""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TypeGuard, TypeVar

from service.operators.sources import dotted, walk

Node = TypeVar("Node", bound=ast.AST)


def text(node: ast.AST) -> str:
    """Return the code of a node, in canonical formatting; equal trees have equal texts."""
    return ast.unparse(node)


def expression(code: str) -> ast.expr:
    """Return the tree of an expression's code."""
    return ast.parse(code, mode="eval").body


def statements(code: str) -> list[ast.stmt]:
    """Return the trees of some lines of code."""
    return ast.parse(code).body


def is_call(node: ast.AST | None, *functions: str) -> TypeGuard[ast.Call]:
    """Return True if a node calls one of these functions by dotted name; `.to` matches any method `to`."""
    if not isinstance(node, ast.Call):
        return False
    method = f".{node.func.attr}" if isinstance(node.func, ast.Attribute) else ""
    return dotted(node.func) in functions or method in functions


def calls(root: ast.AST, *functions: str) -> list[ast.Call]:
    """Return every call of one of these functions below a node."""
    return [node for node in walk(root) if is_call(node, *functions)]


def operand(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """Return an argument that may be passed by position or by keyword; None if it is not passed."""
    if position < len(call.args):
        return call.args[position]
    return next((item.value for item in call.keywords if item.arg == name), None)


def set_operand(call: ast.Call, position: int, name: str, code: str) -> None:
    """Pass or replace an argument, by keyword where it was not passed by position."""
    if position < len(call.args):
        call.args[position] = expression(code)
    else:
        set_keyword(call, name, code)


def set_keyword(call: ast.Call, name: str, code: str) -> None:
    """Pass or replace an argument by keyword, as the last one."""
    call.keywords = [item for item in call.keywords if item.arg != name]
    call.keywords.append(ast.keyword(name, expression(code)))


def reads(*nodes: ast.AST) -> set[str]:
    """Return names whose value is read below some nodes."""
    found = [node for root in nodes for node in walk(root)]
    updated = {text(node.target) for node in found if isinstance(node, ast.AugAssign)}
    return updated | {node.id for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def writes(*nodes: ast.AST) -> set[str]:
    """Return names that are assigned below some nodes."""
    found = (node for root in nodes for node in walk(root))
    return {node.id for node in found if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}


def feeding(lines: Sequence[ast.stmt], node: ast.AST) -> set[str]:
    """Return names that a value may depend on, through any number of some lines; its own included."""
    steps, found = [(reads(line), writes(line)) for line in lines], reads(node)
    while more := {name for read, written in steps if written & found for name in read - found}:
        found |= more
    return found


def fed(lines: Sequence[ast.stmt], code: str) -> set[str]:
    """Return names that may depend on an expression with this code, through any number of some lines."""
    steps = [(reads(line), writes(line)) for line in lines]
    found = {name for line, (_, written) in zip(lines, steps, strict=True) if code in text(line) for name in written}
    while more := {name for read, written in steps if read & found for name in written - found}:
        found |= more
    return found


def identifiers(root: ast.AST) -> set[str]:
    """Return every name that a tree reads or binds: variables, parameters, functions."""
    nodes = (node for node in walk(root) if not isinstance(node, ast.keyword))
    names = (getattr(node, field, None) for node in nodes for field in ("id", "arg", "name"))
    return {name for name in names if isinstance(name, str)}


def only_inside(name: str, lines: Collection[ast.AST], *functions: str) -> bool:
    """Return True if every mention of a name in some lines is inside a call of one of these functions."""
    inside = {id(node) for line in lines for call in calls(line, *functions) for node in walk(call)}
    nodes = (node for line in lines for node in walk(line))
    return all(id(node) in inside for node in nodes if isinstance(node, ast.Name) and node.id == name)


def unused(wish: str, *roots: ast.AST) -> str:
    """Return the wished name, numbered if some tree already uses it."""
    return untaken(wish, set().union(*(identifiers(root) for root in roots)))


def untaken(wish: str, taken: Collection[str]) -> str:
    """Return the wished name, numbered if it is taken."""
    names = (wish if count == 0 else f"{wish}_{count}" for count in range(len(taken) + 1))
    return next(name for name in names if name not in taken)


def receiver(call: ast.Call) -> ast.expr:
    """Return the object that a method is called on."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield every statement of some lines, nested ones included, in the order of the text."""
    for statement in body:
        yield statement
        for field in ("body", "orelse"):
            yield from flat(getattr(statement, field, []))


def heads(statement: ast.stmt) -> list[ast.expr]:
    """Return the expressions of a statement itself, without those of the statements inside it."""
    return [node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.expr)]


def bodies(root: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements below a node, outermost first."""
    for node in walk(root):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield block


class _Replacement(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def replace(root: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another, in a tree that holds the old one below its root."""
    _Replacement(old, new).generic_visit(root)


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return deepcopy(self._values[node.id]) if node.id in self._values else node


def substitute(node: Node, values: Mapping[str, ast.expr]) -> Node:
    """Return a copy of a tree in which names are replaced by expressions."""
    result: Node = _Substitution(values).visit(deepcopy(node))
    return result


def replace_name(root: ast.AST, old: str, new: str) -> None:
    """Rename a variable below a node."""
    for node in walk(root):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
