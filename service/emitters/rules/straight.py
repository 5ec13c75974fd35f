"""Straight-line code: lines that assign each name once, read it later, and may end in stores."""

import ast
from collections.abc import Iterable
from copy import deepcopy

from service.emitters.rules.facts import REDUCTIONS
from service.emitters.rules.patterns import calls, expression, identifiers, is_call, reads, replace, text, untaken
from service.operators.sources import walk

FOLDS = {"tl.sum": "total", "tl.max": "peak", "tl.min": "lowest"}
"""Names for results of reductions that had none."""


def assign(name: str, value: ast.expr) -> ast.Assign:
    """Return the statement `name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)


def target(line: ast.stmt) -> str:
    """Return the name that a line assigns; empty for a store."""
    return text(line.targets[0]) if isinstance(line, ast.Assign) else ""


def straight_lines(lines: Iterable[ast.stmt], function: ast.FunctionDef) -> list[ast.stmt] | None:
    """Return a copy of the lines in which every name is assigned once and every reduction has a line of its own.

    Returns None if there is anything except assignments to names and stores. Names outside the lines stay.
    """
    names: dict[str, str] = {}
    result: list[ast.stmt] = []
    taken = identifiers(function)
    for line in lines:
        plain = _plain(line)
        if plain is None:
            return None
        _rename_reads(plain, names)
        for call in _nested_reductions(plain):
            name = untaken(FOLDS[text(call.func)], taken)
            result.append(assign(name, deepcopy(call)))
            replace(plain, call, expression(name))
            taken.add(name)
        if isinstance(plain, ast.Assign):
            old = target(plain)
            names[old] = untaken(old, taken) if old in names else old
            plain.targets = [ast.Name(names[old], ast.Store())]
            taken.add(names[old])
        result.append(plain)
    return result


def needed(lines: list[ast.stmt], roots: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Return the assignments that some lines depend on, in order, without the lines themselves."""
    wanted = reads(*roots)
    found: list[ast.stmt] = []
    for line in reversed(lines):
        if target(line) in wanted:
            found.insert(0, line)
            wanted |= reads(line)
    return found


def without_repeats(lines: list[ast.stmt]) -> list[ast.stmt]:
    """Remove repeated computations and loads from straight lines; no store may alias a load."""
    names: dict[str, str] = {}
    seen: dict[str, str] = {}
    result = []
    for line in lines:
        _rename_reads(line, names)
        if isinstance(line, ast.Assign):
            own, code = target(line), text(line.value)
            first = code if isinstance(line.value, ast.Name) else seen.setdefault(code, own)
            if first != own:
                names[own] = first
                continue
        result.append(line)
    return result


def without_dead(lines: list[ast.stmt]) -> list[ast.stmt]:
    """Remove assignments that no store depends on from straight lines."""
    stores = [line for line in lines if not target(line)]
    used = needed(lines, stores)
    return [line for line in lines if line in stores or line in used]


def is_reduction(line: ast.stmt) -> bool:
    """Return True if a line only folds a tile."""
    return isinstance(line, ast.Assign) and is_call(line.value, *REDUCTIONS)


def _plain(line: ast.stmt) -> ast.stmt | None:
    """Return a copy of an assignment or a store, with `a += b` written out; None for any other statement."""
    match deepcopy(line):
        case ast.Assign(targets=[ast.Name()]) as found:
            return found
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return assign(name, ast.BinOp(ast.Name(name, ast.Load()), op, value))
        case ast.Expr(value=ast.Call() as call) as found if is_call(call, "tl.store"):
            return found
    return None


def _rename_reads(line: ast.stmt, names: dict[str, str]) -> None:
    for node in walk(line):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            node.id = names.get(node.id, node.id)


def _nested_reductions(line: ast.stmt) -> list[ast.Call]:
    """Return the reductions inside a line's expressions, inner ones first."""
    own = line.value if isinstance(line, ast.Assign) and is_reduction(line) else None
    return [call for call in reversed(calls(line, *REDUCTIONS)) if call is not own]
