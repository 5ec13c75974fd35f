"""The largest element and the sum of exponentials in one sweep, in place of two."""

import ast
import random
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

from service.emitters.rules.base import Rule
from service.emitters.rules.loops import Sweep, exposed, fold_of, start_line, starts_empty, sweep
from service.emitters.rules.patterns import (
    bodies,
    expression,
    is_call,
    reads,
    replace,
    statements,
    substitute,
    text,
    unused,
    writes,
)
from service.operators.sources import jit_functions, walk

LOWEST = "-3.4028234663852886e+38"
"""The least finite float32: unlike minus infinity, it can be subtracted from minus infinity."""

MAX_WRITTEN = 300
"""Maximum number of nodes in an expression with names written out; a typical one has some thirty."""

HOLE = "_hole_"
"""Placeholder in templates."""


@dataclass(frozen=True)
class SweepFold:
    """A line of a sweep that folds an expression of each element into a name.

    Attributes:
        line: The line.
        start: The line before the sweep that starts the fold.
        name: Name that it folds into.
        element: Expression that is folded, per element.
        around: Template around that expression: a fold of one tile, or nothing.
    """

    line: ast.stmt
    start: ast.Assign
    name: str
    element: ast.expr
    around: ast.expr

    @property
    def is_lanes(self) -> bool:
        """True if each lane of the tile folds by itself."""
        return isinstance(self.around, ast.Name)


@dataclass(frozen=True)
class TwoSweeps:
    """A sweep for a peak, then one for a sum of exponentials of the distance from it.

    Attributes:
        function: The kernel.
        body: The statements that hold both sweeps.
        loops: The two sweeps.
        peak: The first sweep's fold.
        total: The second sweep's fold.
        reference: The name of the peak of all elements.
        power: The exponential, a template of the distance.
    """

    function: ast.FunctionDef
    body: list[ast.stmt]
    loops: tuple[ast.For, ast.For]
    peak: SweepFold
    total: SweepFold
    reference: str
    power: ast.expr


class OnlineSum(Rule[TwoSweeps]):
    """Keeps a sum relative to the largest element so far, and corrects it when that grows. Saves reading the row."""

    name = "online_sum"
    meaning = "take the peak and the sum of exponentials in one sweep"

    def sites(self, module: ast.Module) -> Iterable[TwoSweeps]:
        """Find pairs of neighbouring sweeps over the same elements, the first of which takes the largest."""
        for function in jit_functions(module).values():
            for body in bodies(function):
                sweeps = [found for line in body if (found := sweep(line))]
                yield from (site for pair in pairwise(sweeps) if (site := _matched(function, body, *pair)))

    def change(self, site: TwoSweeps, rng: random.Random) -> None:
        """Sum in the first sweep, drop the second, and correct the sum for the peak of all."""
        (first, second), peak, total = site.loops, site.peak.name, site.total.name
        new, element = unused("new_peak", site.function), text(site.peak.element)
        summand = filled(site.total.around, filled(site.power, f"{element} - {new}"))
        place = first.body.index(site.peak.line)
        first.body[place : place + 1] = statements(
            f"{new} = tl.maximum({peak}, {filled(site.peak.around, element)})\n"
            f"{total} = {total} * {filled(site.power, f'{peak} - {new}')} + {summand}\n"
            f"{peak} = {new}"
        )
        _make_finite(site.peak.start)
        site.body.remove(site.total.start)
        site.body.insert(site.body.index(first), site.total.start)
        correction = f"{total} = {total} * {filled(site.power, f'{peak} - {site.reference}')}"
        place = site.body.index(second)
        site.body[place : place + 1] = statements(correction) if site.reference != peak else []


def filled(template: ast.expr, code: str) -> str:
    """Return a template's code with something in its hole."""
    return text(substitute(template, {HOLE: expression(code)}))


def _matched(function: ast.FunctionDef, body: list[ast.stmt], first: Sweep, second: Sweep) -> TwoSweeps | None:
    start, end = body.index(first.loop), body.index(second.loop)
    between, after = body[start + 1 : end], body[end + 1 :]
    peak, total = _folded(first, "tl.max", body[:start]), _folded(second, "tl.sum", between)
    same = (first.extent, first.step) == (second.extent, second.step)
    if not (same and peak and total and _is_quiet([*between, *first.loop.body, *second.loop.body])):
        return None
    reference = _reference(peak, between)
    element = _written_out(peak.element, first.loop.body, {first.variable: second.variable})
    power = _power(_written_out(total.element, second.loop.body, {}), element, reference)
    left_over = writes(second.loop) & exposed(after) - {total.name}
    if power is None or left_over or (peak.is_lanes and not total.is_lanes) or _is_disturbed(peak, first, between):
        return None
    return TwoSweeps(function, body, (first.loop, second.loop), peak, total, reference, power)


def _folded(found: Sweep, function: str, before: list[ast.stmt]) -> SweepFold | None:
    """Return the fold of this kind in a sweep, if there is exactly one and it starts from nothing."""
    folds = [(line, fold) for line in found.loop.body if (fold := fold_of(line)) and fold.function == function]
    if len(folds) != 1 or not starts_empty(folds[0][1], before):
        return None
    ((line, fold),) = folds
    start, element, around = start_line(fold.name, before), fold.value, expression(HOLE)
    if is_call(fold.value, function):
        element, around = fold.value.args[0], deepcopy(fold.value)
        replace(around, around.args[0], expression(HOLE))
    return SweepFold(line, start, fold.name, element, around) if start else None


def _is_quiet(lines: list[ast.stmt]) -> bool:
    return all(isinstance(line, ast.Assign | ast.AugAssign) for line in lines)


def _is_disturbed(peak: SweepFold, first: Sweep, between: list[ast.stmt]) -> bool:
    """Return True if anything but its own line writes the peak, or reads it before it is folded."""
    others = [line for line in [*first.loop.body, *between] if line is not peak.line]
    earlier = first.loop.body[: first.loop.body.index(peak.line)]
    return peak.name in writes(*others) | reads(*earlier)


def _reference(peak: SweepFold, between: list[ast.stmt]) -> str:
    """Return the name of the peak of all elements: the fold's own, or that of its lanes folded after the sweep."""
    if not peak.is_lanes:
        return peak.name
    folded = [(line, line.value) for line in between if isinstance(line, ast.Assign)]
    names = [text(line.targets[0]) for line, value in folded if is_call(value, "tl.max") and _is_of(value, peak.name)]
    return names[0] if names else ""


def _is_of(call: ast.Call, name: str) -> bool:
    return text(call.args[0]) == name


def _written_out(node: ast.expr, lines: list[ast.stmt], names: dict[str, str]) -> ast.expr | None:
    """Write an expression at the end of some lines in terms of names before them; None if it gets too long."""
    values: dict[str, ast.expr] = {old: expression(new) for old, new in names.items()}
    for line in lines:
        if isinstance(line, ast.Assign):
            value = values[text(line.targets[0])] = substitute(line.value, values)
            if sum(1 for _ in walk(value)) > MAX_WRITTEN:
                return None
    return substitute(node, values)


def _power(summand: ast.expr | None, element: ast.expr | None, reference: str) -> ast.expr | None:
    """Write a summand as a template of the distance from the reference; None if it is no exponential of just that."""
    if summand is None or element is None:
        return None
    holder = ast.Tuple([summand], ast.Load())
    distance = f"{text(element)} - {reference}"
    for node in [node for node in walk(holder) if text(node) == distance]:
        replace(holder, node, expression(HOLE))
    found = holder.elts[0]
    if not is_call(found, "tl.exp", "tl.exp2") or len(found.args) != 1:
        return None
    match found.args[0]:
        case ast.Name(id=name) | ast.BinOp(left=ast.Name(id=name), op=ast.Mult(), right=ast.Constant()):
            return found if name == HOLE else None
    return None


def _make_finite(start: ast.Assign) -> None:
    """Let a peak start from the least finite number."""
    if is_call(start.value, "tl.full"):
        start.value.args[1] = expression(LOWEST)
    else:
        start.value = expression(LOWEST)
