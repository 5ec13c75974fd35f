"""First seed kernel, for drafts of TorchInductor that multiply float32 without tensor cores.

Rules of `service.emitters.rules` rewrite each product for the operator's first shape, so that it starts where a search
would arrive late: three TF32 products, operands split ahead where both are read often, the summed axis split among
programs where there are few tiles, and tiles visited in groups.
"""

import ast
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from math import prod

from service.emitters.rules.boxes import boxes
from service.emitters.rules.group_programs import GroupPrograms
from service.emitters.rules.kernels import RewritableKernel, assigned_once, grid, kernels
from service.emitters.rules.patterns import calls, expression, is_call, replace, set_keyword, text
from service.emitters.rules.split_ahead import SplitAhead, SplittableProduct
from service.emitters.rules.split_k import SplitK
from service.emitters.rules.tf32x3 import Tf32x3
from service.emitters.rules.tiles import dealt_axis
from service.operators.sources import LaunchSite, parse, render
from workers.protocol import Operator
from workers.protocol.extent import size_of

OPTIONS = {"num_warps": 4, "num_stages": 3}
"""Launch options of products that split in registers, at the drafts' tiles of 128 by 64. A product of 2048x8192x4096
took 2,483 us with them on an H200 (2026-11-25), 3,418 with 8 warps and 4 stages, 3,131 as float32, and 2,655 in
cuBLAS."""
AHEAD_TILE, AHEAD_OPTIONS = 128, {"num_warps": 8, "num_stages": 3}
"""Rows and columns of a tile, and launch options, of products with operands split ahead: those of the kernel that
`split_ahead` tells the time of."""
TILE, HALVES_TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K"), (128, 256, 64)
"""Extents of the tile of a product of 16-bit operands, with `AHEAD_OPTIONS`: those of Triton's tutorial for an H100."""
USUAL_TILE = 64
"""Minimum extent of a tile to widen: a draft's tile is shorter where the product itself is."""
PROCESSORS = 132
"""Multiprocessors of an H100."""
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
    """Rewrite a draft's matrix products for the matrix units at an operator's first shape; returns None without any."""
    module, rule = parse(draft), Tf32x3()
    is_single = any(item.dtype == "float32" for item in of.inputs)
    sites = list(rule.sites(module)) if is_single else []
    for site in sites:
        rule.change(site, random.Random(0))
    products = [each for each in kernels(module) if calls(each.function, "tl.dot") and len(list(boxes(each))) > 1]
    if not sites and not products:
        return None
    changed = products if not is_single else [each for each in kernels(module) if each.function in sites]
    # Kernels of several products, as of attention, have other tiles.
    plain = [each for each in changed if len(calls(each.function, "tl.dot")) == 1]
    for launch in (each for kernel in plain for each in kernel.launches):
        set_options(launch, OPTIONS if is_single else AHEAD_OPTIONS)
    if is_single:
        _split_ahead(module, of)
        _split_sums(module, of)
    else:
        _widen_halves(products, of)
    grouping = GroupPrograms()
    for kernel in [each for each in grouping.sites(module) if each.function in [p.function for p in products]]:
        grouping.group(kernel, GROUP)
    return render(module)


def _split_ahead(module: ast.Module, of: Operator) -> None:
    rule = SplitAhead()
    while site := next((each for each in rule.sites(module) if _is_worth_splitting(each, of)), None):
        for launch in site.kernel.launches:
            set_tile(site.kernel, launch, "BLOCK_M", AHEAD_TILE)
            set_tile(site.kernel, launch, "BLOCK_N", AHEAD_TILE)
            set_options(launch, AHEAD_OPTIONS)
        rule.change(site, random.Random(0))


def _is_worth_splitting(site: SplittableProduct, of: Operator) -> bool:
    """Return True if both operands are float32, and used often enough, at every launch."""
    for launch in site.kernel.launches:
        known = numbers(launch.host, of)
        sides = [number(site.kernel.argument(launch, each.ends[0]), known) for each in site.operands]
        dtypes = {dtype_of(site.kernel.argument(launch, each.pointer), launch.host, of) for each in site.operands}
        if None in sides or dtypes != {"float32"}:
            return False
        if prod(side or 0 for side in sides) < WORTH_SPLITTING * sum(side or 0 for side in sides):
            return False
    return True


def _widen_halves(products: Sequence[RewritableKernel], of: Operator) -> None:
    """Give products of 16-bit operands the widest tiles that still are one for each multiprocessor."""
    for kernel in products:
        for launch in kernel.launches:
            known = numbers(launch.host, of)
            counts = [number(each, known) for each in grid(launch) or []]
            tile = [number(kernel.argument(launch, name), known) or 0 for name in TILE if name in kernel.constexprs]
            if None in counts or len(tile) != len(TILE) or tile[0] < HALVES_TILE[0]:
                continue
            elements = prod(count or 0 for count in counts) * tile[0] * tile[1]
            if elements >= PROCESSORS * HALVES_TILE[0] * HALVES_TILE[1]:
                for name, extent in zip(TILE, HALVES_TILE, strict=True):
                    set_tile(kernel, launch, name, extent)


def set_tile(kernel: RewritableKernel, launch: LaunchSite, tile: str, extent: int) -> None:
    """Make a launch's tile larger, also where its grid counts tiles; smaller tiles than a draft's usual ones stay."""
    argument = kernel.argument(launch, tile)
    axis = dealt_axis(kernel, tile)
    counts = grid(launch) or []
    count = counts[axis] if axis is not None and axis < len(counts) else None
    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, int):
        return
    if axis is None:
        replace(launch.call, argument, ast.Constant(extent))
    elif is_call(count, "triton.cdiv") and text(count.args[1]) == text(argument) and argument.value >= USUAL_TILE:
        replace(launch.host, count.args[1], ast.Constant(extent))
        replace(launch.call, argument, ast.Constant(extent))


def dtype_of(node: ast.expr, host: ast.FunctionDef, of: Operator) -> str | None:
    """Return the dtype of a host's tensor, by the operator's inputs and the host's allocations; None if unknown."""
    given = {item.name: item.dtype for item in of.inputs}
    name = text(node)
    if name in given or (line := assigned_once(host, name)) is None:
        return given.get(name)
    match line.value:
        case ast.Call(args=[other, *_], keywords=[]) if is_call(line.value, "torch.as_strided"):
            return dtype_of(other, host, of)
        case ast.Call(keywords=keywords):
            dtypes = [text(item.value) for item in keywords if item.arg == "dtype"]
            owner, _, attribute = "".join(dtypes).rpartition(".")
            return dtype_of(expression(owner), host, of) if attribute == "dtype" else attribute or None
    return None


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
