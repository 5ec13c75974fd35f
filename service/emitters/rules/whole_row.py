"""A row in one tile, in place of a row in chunks."""

import ast
import random
from collections.abc import Iterable
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.facts import HINTS, TILES, facts_of, infer
from service.emitters.rules.kernels import RewritableKernel, is_private, kernels, writes_apart
from service.emitters.rules.loops import Sweep, exposed, fold_of, starts_empty, sweep
from service.emitters.rules.patterns import only_inside, substitute, text, writes
from service.emitters.rules.rows import fixed_lines, work_of
from service.emitters.rules.straight import assign, straight_lines, without_dead, without_repeats
from service.operators.sources import launches


@dataclass(frozen=True)
class SweptKernel:
    """A kernel whose sweeps all go over the same row. `lines` is what remains of them if the row fits one tile."""

    kernel: RewritableKernel
    body: list[ast.stmt]
    lines: list[ast.stmt]
    extent: str
    block: str


class WholeRow(Rule[SweptKernel]):
    """Reads each element once, and needs registers for all of them."""

    name = "whole_row"
    meaning = "hold a row in one tile"

    def sites(self, module: ast.Module) -> Iterable[SweptKernel]:
        """Find kernels whose sweeps only sum up, or take the largest or the smallest, between them."""
        found = launches(module)
        return (
            site
            for kernel in kernels(module)
            if writes_apart(kernel) and (site := _swept(kernel))
            if all(is_private(item, kernel.argument(item, site.block), found) for item in kernel.launches)
        )

    def change(self, site: SweptKernel, rng: random.Random) -> None:
        """Replace each sweep by its only iteration."""
        site.body[:] = [*fixed_lines(site.body), *site.lines]
        for launch in site.kernel.launches:
            extent = text(site.kernel.argument(launch, site.extent))
            site.kernel.set_argument(launch, site.block, f"triton.next_power_of_2({extent})")


def _swept(kernel: RewritableKernel) -> SweptKernel | None:
    body = work_of(kernel)
    own = [line for line in body if line not in fixed_lines(body)]
    sweeps = [found for line in own if (found := sweep(line))]
    axes = {(found.extent, found.step) for found in sweeps}
    if len(axes) != 1:
        return None
    ((extent, block),) = axes
    inner = [line for item in own for line in (item.body if isinstance(item, ast.For) else [item])]
    if not {extent, block} <= set(kernel.parameters) or not only_inside(block, inner, *TILES, *HINTS):
        return None
    unrolled = _unrolled(own, kernel)
    lines = None if unrolled is None else straight_lines(unrolled, kernel.function)
    if lines is None:
        return None
    return SweptKernel(kernel, body, without_dead(without_repeats(lines)), extent, block)


def _unrolled(lines: list[ast.stmt], kernel: RewritableKernel) -> list[ast.stmt] | None:
    """Replace each sweep by its only iteration; None if an iteration passes on more than folds."""
    result: list[ast.stmt] = []
    for index, line in enumerate(lines):
        found = sweep(line)
        if found is None:
            result.append(line)
            continue
        folds = {name for item in found.loop.body if (name := _folded(item, lines[:index], kernel))}
        carried = exposed(found.loop.body) & writes(*found.loop.body)
        handed_on = writes(found.loop) & exposed(lines[index + 1 :])
        if (carried | handed_on) - folds:
            return None
        result += [_only_turn(item, found, folds) for item in found.loop.body]
    return result


def _folded(line: ast.stmt, before: list[ast.stmt], kernel: RewritableKernel) -> str:
    """Return the name that a line folds a value of the same shape into, starting empty; else an empty string."""
    fold = fold_of(line)
    if fold is None or not starts_empty(fold, before):
        return ""
    known = facts_of(kernel.function)
    found = infer(fold.value, known)
    return fold.name if found and found == known.get(fold.name) else ""


def _only_turn(line: ast.stmt, found: Sweep, folds: set[str]) -> ast.stmt:
    """Copy a sweep's line for its first iteration."""
    fold = fold_of(line)
    if fold and fold.name in folds:
        line = assign(fold.name, fold.value)
    turn: ast.stmt = _Zeroed().visit(substitute(line, {found.variable: ast.Constant(0)}))
    return turn


class _Zeroed(ast.NodeTransformer):
    """Drops `0 +`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        zero = isinstance(node.left, ast.Constant) and node.left.value == 0
        return node.right if zero and isinstance(node.op, ast.Add) else node
