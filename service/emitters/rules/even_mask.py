"""Removal of masks where a tile's extent divides the axis."""

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Self

from service.emitters.rules.base import Rule
from service.emitters.rules.facts import HINTS
from service.emitters.rules.kernels import RewritableKernel, is_settled, kernels
from service.emitters.rules.loops import sweep
from service.emitters.rules.patterns import expression, flat, is_call, receiver, replace, text
from service.emitters.rules.programs import BACKWARD, FORWARD, ProgramMapping, programs
from service.emitters.rules.tiles import tie_tiles
from service.operators.sources import LaunchSite, walk


@dataclass(frozen=True)
class BoundedMask:
    """Comparisons `position < extent` of a kernel that all hold if the parameter `block` divides the extent."""

    kernel: RewritableKernel
    comparisons: tuple[ast.Compare, ...]
    extent: str
    block: str


class EvenMask(Rule[BoundedMask]):
    """A mask costs a comparison per element. Each launch decides if it may go, as a compile-time flag."""

    name = "even_mask"
    meaning = "compile masks away where the tile divides the axis"

    def sites(self, module: ast.Module) -> Iterable[BoundedMask]:
        """Find bounds on positions that start at multiples of the tile and end with the axis."""
        return (site for kernel in kernels(module) for site in _bounded(kernel))

    def change(self, site: BoundedMask, rng: random.Random) -> None:
        """Add a flag to the kernel, and let it satisfy the comparisons."""
        tie_tiles(site.kernel)
        names = {launch: site.kernel.name_argument(launch, site.block) for launch in site.kernel.launches}
        flag = site.kernel.add_parameter(
            "EVEN",
            lambda launch: f"({text(site.kernel.argument(launch, site.extent))}) % {names[launch]} == 0",
            constexpr=True,
        )
        for comparison in site.comparisons:
            replace(site.kernel.function, comparison, expression(f"({text(comparison)}) | {flag}"))


def _bounded(kernel: RewritableKernel) -> Iterator[BoundedMask]:
    view, found = _View.of(kernel), defaultdict(list)
    unions = [node for node in walk(kernel.function) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)]
    flagged = {id(node.left) for node in unions}
    for node in walk(kernel.function):
        match node:
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Name(id=extent)]) if id(node) not in flagged:
                block = _block(left, extent, view) if extent in kernel.parameters else ""
                if block:
                    found[extent, block].append(node)
    return (BoundedMask(kernel, tuple(nodes), *key) for key, nodes in found.items())


@dataclass(frozen=True)
class _View:
    """Facts for looking up positions: names with one value only, sweeps, and the program mapping."""

    kernel: RewritableKernel
    values: Mapping[str, ast.expr]
    sweeps: Set[tuple[str, str, str]]
    programs: ProgramMapping | None

    @classmethod
    def of(cls, kernel: RewritableKernel) -> Self:
        lines = list(flat(kernel.function.body))
        assigned = [line for line in lines if isinstance(line, ast.Assign)]
        codes = defaultdict(set)
        for line in assigned:
            codes[text(line.targets[0])].add(text(line.value))
        values = {name: line.value for line in assigned if len(codes[name := text(line.targets[0])]) == 1}
        sweeps = {(found.variable, found.extent, found.step) for line in lines if (found := sweep(line))}
        return cls(kernel, values, sweeps, programs(kernel))


def _block(position: ast.expr, extent: str, view: _View) -> str:
    """Return the constexpr extent of the tile that a position is in, if whole tiles cover the axis; empty if unsure."""
    position = _opened(position, view.values)
    start = None
    if isinstance(position, ast.BinOp) and isinstance(position.op, ast.Add):
        start, position = position.left, position.right
    if not is_call(position, "tl.arange") or len(position.args) != 2 or text(position.args[0]) != "0":
        return ""
    block = text(position.args[1])
    if block not in view.kernel.constexprs:
        return ""
    swept = start is not None and (text(start), extent, block) in view.sweeps
    return block if start is None or swept or _is_dealt(start, extent, block, view) else ""


def _opened(node: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    """Return an expression behind names, broadcasts, casts and hints."""
    seen: set[str] = set()
    while True:
        match node:
            case ast.Name(id=name) if name in values and name not in seen:
                seen.add(name)
                node = values[name]
            case ast.Subscript(value=inner):
                node = inner
            case ast.Call() if is_call(node, ".to"):
                node = receiver(node)
            case ast.Call() if is_call(node, *HINTS):
                node = node.args[0]
            case _:
                return node


def _is_dealt(start: ast.expr, extent: str, block: str, view: _View) -> bool:
    """Return True if a start is a program's number times the tile, where just enough programs are launched."""
    start, kernel, found = _opened(start, view.values), view.kernel, view.programs
    match start:
        case ast.BinOp(left=number, op=ast.Mult(), right=width) if found and text(width) == block:
            axis = _axis(text(_opened(number, view.values)), found)
            pieces = {launch: found.pieces(launch, axis) for launch in kernel.launches} if axis is not None else {}
            return bool(pieces) and all(_is_exact(code, extent, block, kernel, item) for item, code in pieces.items())
    return False


def _axis(number: str, found: ProgramMapping) -> int | None:
    """Return the axis of the grid along which an expression counts the pieces."""
    if found.loop:
        numbers = [text(line.value) for line in found.body if isinstance(line, ast.Assign) and FORWARD in text(line)]
        return 0 if [number] == numbers else None
    return {FORWARD: 0, BACKWARD: 0, "tl.program_id(1)": 1}.get(number)


def _is_exact(pieces: str, extent: str, block: str, kernel: RewritableKernel, launch: LaunchSite) -> bool:
    """Return True if a launch makes as many pieces as tiles cover the axis, and no more."""
    length, argument = kernel.argument(launch, extent), kernel.argument(launch, block)
    codes = (text(argument), text(kernel.value(launch, block)))
    settled = is_settled(launch.host, length) and is_settled(launch.host, argument)
    return settled and pieces in [f"triton.cdiv({text(length)}, {code})" for code in codes]
