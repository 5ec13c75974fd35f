"""Hints that a tile's offsets are neighbours and start on a multiple of its width."""

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.facts import HINTS
from service.emitters.rules.loops import sweep
from service.emitters.rules.patterns import calls, expression, flat, is_call, replace, text
from service.operators.sources import jit_functions, walk


@dataclass(frozen=True)
class TileOffsets:
    """A sum `start + tl.arange(0, width)` of a kernel, whose start is a multiple of the width."""

    function: ast.FunctionDef
    sum: ast.BinOp
    width: str


class Contiguity(Rule[TileOffsets]):
    """The compiler loads in small pieces unless it can prove that offsets are contiguous and aligned."""

    name = "contiguity"
    meaning = "tell the compiler that a tile's offsets are aligned neighbours"

    def sites(self, module: ast.Module) -> Iterable[TileOffsets]:
        """Find sums of a range and the variable of a sweep, or a product with the range's width."""
        return (site for function in jit_functions(module).values() for site in _offsets(function))

    def change(self, site: TileOffsets, rng: random.Random) -> None:
        """Wrap the sum in the hints."""
        hint = f"tl.max_contiguous(tl.multiple_of({text(site.sum)}, {site.width}), {site.width})"
        replace(site.function, site.sum, expression(hint))


def _offsets(function: ast.FunctionDef) -> Iterator[TileOffsets]:
    starts = {(found.variable, found.step) for line in flat(function.body) if (found := sweep(line))}
    hinted = [call.args[0] for call in calls(function, *HINTS)]
    sums = (node for node in walk(function) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add))
    for node in sums:
        width = text(node.right.args[1]) if is_call(node.right, "tl.arange") else ""
        if width and node not in hinted and ((text(node.left), width) in starts or _is_multiple(node.left, width)):
            yield TileOffsets(function, node, width)


def _is_multiple(node: ast.expr, width: str) -> bool:
    return (
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and width in (text(node.left), text(node.right))
    )
