"""Tiles counted by the host: the grid has one program per tile, and both sides contain its extent."""

import ast
from typing import TypeGuard

from service.emitters.rules.kernels import RewritableKernel, declare, grid
from service.emitters.rules.patterns import expression, fed, flat, is_call, reads, replace, text
from service.operators.sources import walk


def tie_tiles(kernel: RewritableKernel) -> None:
    """Give a number that is written both in a grid and in a launch's arguments a name in the host.

    `kernel[(triton.cdiv(n, 1024),)](..., BLOCK=1024)` counts tiles of 1024 elements. Rules that move the count, and
    `tune`, must change both numbers or none.
    """
    for launch in kernel.launches:
        for tile in sorted(kernel.constexprs):
            argument = kernel.argument(launch, tile)
            counts = [(axis, item) for axis, item in enumerate(grid(launch) or []) if _counts(item, argument)]
            count = next((item for axis, item in counts if axis == dealt_axis(kernel, tile)), None)
            if count:
                name = declare(launch, tile, int(text(argument)))
                replace(launch.host, argument, expression(name))
                replace(launch.host, count.args[1], expression(name))


def _counts(extent: ast.expr, argument: ast.expr) -> TypeGuard[ast.Call]:
    """Return True if an extent of a grid is `triton.cdiv(length, number)` with the number that is passed."""
    number = isinstance(argument, ast.Constant) and is_call(extent, "triton.cdiv") and len(extent.args) == 2
    return number and isinstance(extent, ast.Call) and text(extent.args[1]) == text(argument)


def dealt_axis(kernel: RewritableKernel, tile: str) -> int | None:
    """Return the axis of the grid along which a program's number is multiplied with a tile's extent."""
    lines = [line for line in flat(kernel.function.body) if isinstance(line, ast.Assign)]
    numbers = {axis: fed(lines, f"tl.program_id({axis})") for axis in (0, 1, 2)}
    nodes = (node for node in walk(kernel.function) if isinstance(node, ast.BinOp))
    for node in nodes:
        if isinstance(node.op, ast.Mult) and tile in (text(node.left), text(node.right)):
            code, read = text(node), reads(node)
            axes = [axis for axis, names in numbers.items() if f"tl.program_id({axis})" in code or names & read]
            if len(axes) == 1:
                return axes[0]
    return None
