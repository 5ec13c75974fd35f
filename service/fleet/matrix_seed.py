"""First seed kernel, for drafts of TorchInductor that multiply float32 without tensor cores.

Rules of `service.emitters.rules` rewrite each product for the operator's first shape, so that it starts where a search
would arrive late: three TF32 products, operands split ahead where both are read often, the summed axis split among
programs where there are few tiles, and tiles visited in groups.
"""

import ast
import operator
import random
from collections.abc import Callable, Mapping
from math import prod

from service.emitters.rules.group_programs import GroupPrograms
from service.emitters.rules.kernels import RewritableKernel, grid
from service.emitters.rules.patterns import calls, is_call, replace, set_keyword, text
from service.emitters.rules.split_ahead import SplitAhead, SplittableProduct
from service.emitters.rules.split_k import SplitK
from service.emitters.rules.tf32x3 import Tf32x3
from service.emitters.rules.tiles import dealt_axis
from service.operators.sources import LaunchSite, launches, parse, render
from workers.protocol import Operator
from workers.protocol.extent import size_of

OPTIONS = {"num_warps": 4, "num_stages": 3}
"""Launch options of products that split in registers, at the drafts' tiles of 128 by 64. A product of 2048x8192x4096
took 2,483 us with them on an H200 (2026-11-25), 3,418 with 8 warps and 4 stages, 3,131 as float32, and 2,655 in
cuBLAS."""
AHEAD_TILE, AHEAD_OPTIONS = 128, {"num_warps": 8, "num_stages": 3}
"""Rows and columns of a tile, and launch options, of products with operands split ahead: those of the kernel that
`split_ahead` tells the time of."""
WORTH_SPLITTING = 315
"""Minimum MN / (M + N) of a product for operands split ahead. A split moves 12 bytes per element, 4 ps at 3 TB/s; a
multiplication takes 12.7 fs less at 97 than at 60 TFLOP/s (rates of both on an H100, 2026-11-26)."""
GROUP = 8
"""Tiles per group, as in Triton's tutorial of matrix products."""
RESIDENT = 264
"""Programs of a product that an H100 holds at once: two for each of 132 multiprocessors, by their shared memory."""
SHORTEST_PART = 1024
"""Minimum extent of a part of the summed axis. Each part is written and read again."""
OPERATIONS: Mapping[type[ast.operator], Callable[..., int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "triton.cdiv": lambda n, block: -(-n // max(1, block)),
    "max": max,
    "min": min,
}
"""Operations and functions in a host's numbers."""


def on_matrix_units(draft: str, of: Operator) -> str | None:
    """Rewrite each float32 product of a draft for the matrix units; returns None if it has no such product."""
    module, rule = parse(draft), Tf32x3()
    sites = list(rule.sites(module))
    if not sites:
        return None
    for site in sites:
        rule.change(site, random.Random(0))
    for launch in (each for each in launches(module) if calls(each.kernel, "tl.dot")):
        set_options(launch, OPTIONS)
    _split_ahead(module, of)
    _split_sums(module, of)
    grouping = GroupPrograms()
    for kernel in [each for each in grouping.sites(module) if calls(each.function, "tl.dot")]:
        grouping.group(kernel, GROUP)
    return render(module)


def _split_ahead(module: ast.Module, of: Operator) -> None:
    rule = SplitAhead()
    while site := next((each for each in rule.sites(module) if _is_worth_splitting(each, of)), None):
        widen(site.kernel)
        rule.change(site, random.Random(0))


def _is_worth_splitting(site: SplittableProduct, of: Operator) -> bool:
    """Return True if both operands are used often enough at every launch."""
    for launch in site.kernel.launches:
        known = numbers(launch.host, of)
        sides = [number(site.kernel.argument(launch, each.ends[0]), known) for each in site.operands]
        if None in sides or prod(s or 0 for s in sides) < WORTH_SPLITTING * sum(s or 0 for s in sides):
            return False
    return True


def widen(kernel: RewritableKernel) -> None:
    """Give a product the tile and the launch options of operands split ahead, where its tile is counted in the grid."""
    for launch in kernel.launches:
        for tile in {"BLOCK_M", "BLOCK_N"} & kernel.constexprs:
            argument, axis = kernel.argument(launch, tile), dealt_axis(kernel, tile)
            count = (grid(launch) or [])[axis] if axis is not None else None
            if is_call(count, "triton.cdiv") and text(count.args[1]) == text(argument) == str(AHEAD_TILE // 2):
                for each, holder in ((argument, launch.call), (count.args[1], launch.host)):
                    replace(holder, each, ast.Constant(AHEAD_TILE))
        set_options(launch, AHEAD_OPTIONS)


def _split_sums(module: ast.Module, of: Operator) -> None:
    """Split the summed axis of products whose tiles leave multiprocessors idle."""
    rule = SplitK()
    for site in list(rule.sites(module)):
        (launch,) = site.kernel.launches
        known = numbers(launch.host, of)
        tiles = [number(each, known) for each in grid(launch) or []]
        extent = site.sweep.extent
        summed = number(site.kernel.argument(launch, extent), known) if extent in site.kernel.parameters else None
        if summed is None or None in tiles:
            continue
        parts = min(RESIDENT // max(1, prod(each or 0 for each in tiles)), summed // SHORTEST_PART)
        if parts > 1:
            rule.split(site, parts)


def set_options(launch: LaunchSite, options: Mapping[str, int]) -> None:
    """Set options of a launch."""
    for name, value in options.items():
        set_keyword(launch.call, name, str(value))


def numbers(host: ast.FunctionDef, of: Operator) -> dict[str, int]:
    """Return the numbers of a host function at the operator's first shape, by name."""
    dims = of.shapes[0].dims
    known = {
        f"{item.name}.shape[{axis}]": size_of(extent, dims)
        for item in of.inputs
        for axis, extent in enumerate(item.shape)
    }
    for line in host.body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (found := number(value, known)) is not None:
                known[name] = found
    return known


def number(node: ast.expr, known: Mapping[str, int]) -> int | None:
    """Return the value of a host's expression of sizes; None if it is anything else."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            function, given = OPERATIONS[type(op)], [left, right]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            function, given = operator.neg, [inner]
        case ast.Call(func=func, args=args) if text(func) in FUNCTIONS:
            function, given = FUNCTIONS[text(func)], args
        case _:
            return known.get(text(node))
    values = [number(each, known) for each in given]
    found = [each for each in values if each is not None]
    is_known = len(found) == len(values) and not (function is operator.floordiv and found[1] == 0)
    return int(function(*found)) if is_known else None
