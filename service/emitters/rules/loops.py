"""Loops that sweep an axis in steps of a tile: `for start in range(0, n_cols, BLOCK)`."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from service.emitters.rules.patterns import is_call, reads, text, writes

NOTHING = {
    "tl.sum": ("0.0", "0", "-0.0"),
    "tl.max": ("-float('inf')", "float('-inf')"),
    "tl.min": ("float('inf')",),
}
"""Code for the result of an empty fold, by function."""

_JOINS = {"tl.maximum": "tl.max", "tl.minimum": "tl.min"}


@dataclass(frozen=True)
class Sweep:
    """A loop over an axis. `extent` and `step` are code: the axis' length and the tile's."""

    loop: ast.For
    variable: str
    extent: str
    step: str


def sweep(statement: ast.stmt) -> Sweep | None:
    """Read a statement as a sweep; None if it is anything else."""
    if not isinstance(statement, ast.For) or not isinstance(statement.target, ast.Name) or statement.orelse:
        return None
    head = statement.iter
    if not is_call(head, "range", "tl.range") or len(head.args) != 3 or text(head.args[0]) != "0":
        return None
    return Sweep(statement, statement.target.id, text(head.args[1]), text(head.args[2]))


@dataclass(frozen=True)
class Fold:
    """A line such as `name = name + value` that folds a value into a name, as `function` folds an axis."""

    name: str
    function: str
    value: ast.expr


def fold_of(line: ast.stmt) -> Fold | None:
    """Read a line as a fold; None if it is anything else."""
    match line:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value):
            found = Fold(name, "tl.sum", value)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=first, op=ast.Add(), right=value)):
            found = Fold(name, "tl.sum", value)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=join, args=[first, value], keywords=[])):
            found = Fold(name, _JOINS.get(text(join), ""), value)
        case _:
            return None
    own = isinstance(line, ast.AugAssign) or text(first) == name
    return found if own and found.function and name not in reads(value) else None


def start_line(name: str, before: Sequence[ast.stmt]) -> ast.Assign | None:
    """Return the last of some lines that assigns a name."""
    lines = [line for line in before if isinstance(line, ast.Assign) and text(line.targets[0]) == name]
    return lines[-1] if lines else None


def starts_empty(fold: Fold, before: Sequence[ast.stmt]) -> bool:
    """Return True if the lines before a sweep make a fold start from nothing."""
    line = start_line(fold.name, before)
    if line is None or is_call(line.value, "tl.zeros"):
        return line is not None and fold.function == "tl.sum"
    number = line.value.args[1] if is_call(line.value, "tl.full") and len(line.value.args) > 1 else line.value
    return text(number) in NOTHING[fold.function]


def exposed(lines: list[ast.stmt]) -> set[str]:
    """Return names that some lines read before they write them; in a loop, an earlier iteration may have written."""
    found: set[str] = set()
    written: set[str] = set()
    for line in lines:
        match line:
            case ast.For(target=target, iter=head, body=body):
                found |= (reads(head) | exposed(body) - writes(target)) - written
            case ast.If(test=test, body=body, orelse=orelse):
                found |= (reads(test) | exposed(body) | exposed(orelse)) - written
                continue
            case _:
                found |= reads(line) - written
        written |= writes(line)
    return found
