"""A load moved earlier, so that it overlaps computation, or later, so that it holds registers for less time."""

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.patterns import bodies, calls, reads, writes
from service.operators.sources import dotted, jit_functions, walk

FARTHEST = 32
"""Maximum number of lines that a load is moved by."""

BUILTINS = ("range", "float", "int", "min", "max")


@dataclass(frozen=True)
class MovableLine:
    """Line of a body that may move to another place in it."""

    body: list[ast.stmt]
    line: ast.stmt
    place: int


class LoadOrder(Rule[MovableLine]):
    """The compiler keeps loads where they are written."""

    name = "load_order"
    meaning = "do a load as early or as late as can be"

    def sites(self, module: ast.Module) -> Iterable[MovableLine]:
        """Find lines that load, each with the earliest and the latest place that it may go to."""
        for function in jit_functions(module).values():
            for body in bodies(function):
                yield from (site for line in body if _is_load(line) for site in _moves(body, line))

    def change(self, site: MovableLine, rng: random.Random) -> None:
        """Move the line."""
        site.body.remove(site.line)
        site.body.insert(site.place, site.line)


def _is_load(line: ast.stmt) -> bool:
    return isinstance(line, ast.Assign) and len(calls(line, "tl.load")) == 1


def _moves(body: list[ast.stmt], line: ast.stmt) -> Iterator[MovableLine]:
    here = first = last = body.index(line)
    while first > max(0, here - FARTHEST) and _commute(line, body[first - 1]):
        first -= 1
    while last < min(len(body) - 1, here + FARTHEST) and _commute(line, body[last + 1]):
        last += 1
    return (MovableLine(body, line, place) for place in (first, last) if place != here)


def _commute(load: ast.stmt, other: ast.stmt) -> bool:
    """Return True if a load may change places with its neighbour, which must assign and store nothing."""
    apart = not writes(load) & (reads(other) | writes(other)) and not writes(other) & reads(load)
    return apart and isinstance(other, ast.Assign | ast.AugAssign | ast.For) and all(map(_is_quiet, walk(other)))


def _is_quiet(node: ast.AST) -> bool:
    """Return True if a node cannot write memory: no bare call, nothing atomic, no function of the candidate's own."""
    if not isinstance(node, ast.Call):
        return not isinstance(node, ast.Expr)
    name = dotted(node.func)
    return "atomic" not in name and (isinstance(node.func, ast.Attribute) or name in BUILTINS)
