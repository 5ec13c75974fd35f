"""A global name of a module, renamed in the module's text.

A name is renamed only if the syntax tree shows all places that mean it. A name that some function, class or
comprehension binds, too, may mean something else there, so it is left alone; so is every name of a file that looks
names up by their text.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence

Replacement = tuple[int, int, int, str]
"""Line from 1, first and last byte in it, and the text that goes there."""

_BY_TEXT = frozenset({"globals", "locals", "vars", "eval", "exec", "compile", "setattr", "delattr"})
_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def rename_global(
    tree: ast.Module, lines: Sequence[str], old: str, new: str, left: Collection[ast.stmt] = ()
) -> list[Replacement] | None:
    """Return the replacements that rename a global in a module; None if it is not sure that these are all.

    Args:
        tree: The module.
        lines: Its lines.
        old: The name.
        new: The name to give; nothing in the module may have it.
        left: Imports that the caller replaces.
    """
    if _is_ambiguous(tree, old):
        return None
    skipped = {id(alias) for statement in left for alias in getattr(statement, "names", ())}
    found = []
    for node in ast.walk(tree):
        if id(node) not in skipped and (place := _place(node, lines, old, new)):
            found.append(place)
    if any(lines[line - 1].encode()[start:end] != _expected(text, old, new) for line, start, end, text in found):
        return None  # Such as within an f-string, whose parts Python 3.11 places wrongly.
    return found


def _expected(text: str, old: str, new: str) -> bytes:
    """Return the text before a replacement: the name, or `name as old` and `name` of an import."""
    if text == new:
        return old.encode()
    imported = text.removesuffix(f" as {new}")
    return (imported if imported == old else f"{imported} as {old}").encode()


def _place(node: ast.AST, lines: Sequence[str], old: str, new: str) -> Replacement | None:
    match node:
        case ast.Name(id=name) if name == old:
            return node.lineno, node.col_offset, node.end_col_offset or 0, new
        case ast.alias() if bound(node) == old:
            return node.lineno, node.col_offset, node.end_col_offset or 0, f"{node.name} as {new}"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == old:
            head = lines[node.lineno - 1].encode()
            said = re.compile(rb"(async\s+)?(def|class)\s+").match(head, node.col_offset)
            start = said.end() if said else 0
            return node.lineno, start, start + len(old.encode()), new
    return None


def _is_ambiguous(tree: ast.Module, name: str) -> bool:
    """True if a name may mean something else than the global, or may be looked up by its text."""
    return any(_hides(node, name) for node in ast.walk(tree)) or any(
        _binds(inner, name)
        for scope in ast.walk(tree)
        if isinstance(scope, _SCOPES)
        for child in ast.iter_child_nodes(scope)
        for inner in ast.walk(child)
    )


def _hides(node: ast.AST, name: str) -> bool:
    """True if a node anywhere in a module makes a name's meaning unsure."""
    match node:
        case ast.Name(id=read):
            return read in _BY_TEXT
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return name in names
        case ast.ExceptHandler(name=caught) | ast.MatchAs(name=caught) | ast.MatchStar(name=caught):
            return caught == name
        case ast.MatchMapping(rest=rest):
            return rest == name
        case ast.alias(asname=None):  # `import a.b` binds `a`, and no other name reaches `a.b`.
            return "." in node.name and bound(node) == name
    return False


def _binds(node: ast.AST, name: str) -> bool:
    """True if a node within a scope binds a name there."""
    match node:
        case ast.Name(id=stored, ctx=ast.Store() | ast.Del()):
            return stored == name
        case ast.arg(arg=parameter):
            return parameter == name
        case ast.alias():
            return bound(node) == name
    return isinstance(node, _DEFINITIONS) and node.name == name


def bound(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def within_scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes within functions and classes of a module."""
    for scope in ast.walk(tree):
        if isinstance(scope, _DEFINITIONS):
            for child in ast.iter_child_nodes(scope):
                yield from ast.walk(child)
