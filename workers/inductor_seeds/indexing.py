"""Inductor's index names and expressions in a kernel with a matrix product.

y and x are the axes of the result, r is the one that is summed, and z counts matrices, one per program.
"""

import ast
from collections.abc import Mapping

from workers.inductor_seeds.runtime import dotted

INDEX = {"zindex": "z", "yindex": "y", "xindex": "x", "r0_index": "r"}
MASKS = {"zmask": "z", "ymask": "y", "xmask": "x", "r0_mask": "r"}
STARTS = {"zoffset": "z", "yoffset": "y", "xoffset": "x"}
EXTENTS = {"z": "znumel", "y": "ynumel", "x": "xnumel", "r": "r0_numel"}
BLOCKS = {"z": "ZBLOCK", "y": "YBLOCK", "x": "XBLOCK", "r": "R0_BLOCK"}

_LAST = {"y": -3, "x": -2, "r": -1}
"""Position of an axis in the shapes of Inductor's values."""

_LONG = "tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)"
"""Number of a tile along an axis of more than 65535, spread over two axes of the grid."""


class UnclearError(Exception):
    """Part of a kernel is not understood with certainty."""


def start_of(axis: str, value: ast.expr, *, short: bool) -> ast.expr:
    """Return the first element of a program's tile, `tl.program_id(0) * XBLOCK`, without casts.

    Raises:
        UnclearError: If it is anything else.
    """
    match value:
        case ast.BinOp(left=number, op=ast.Mult(), right=ast.Name(id=block)) if block == BLOCKS[axis]:
            number = _narrow(number)
            code = ast.unparse(number)
            if code == _LONG and short:
                return ast.parse(f"tl.program_id(1) * {block}", mode="eval").body
            if code == _LONG or code in (f"tl.program_id({place})" for place in range(3)):
                return ast.BinOp(number, ast.Mult(), value.right)
    raise UnclearError


def index_line(axis: str, value: ast.expr, starts: Mapping[str, ast.expr], *, short: bool) -> ast.expr:
    """Return the elements of a program's tile along an axis, `start + tl.arange(0, XBLOCK)`; for z, the one element.

    Raises:
        UnclearError: If it is anything else.
    """
    lanes, start = value, None
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        start, lanes = value.left, value.right
    lanes = _narrow(starts["r0_base"] if ast.unparse(lanes) == "r0_base" and "r0_base" in starts else lanes)
    if isinstance(lanes, ast.Subscript) and axis in _LAST:
        places = lanes.slice.elts if isinstance(lanes.slice, ast.Tuple) else []
        if (
            len(places) not in (3, 4)
            or [isinstance(item, ast.Slice) for item in places].index(True) - len(places) != (_LAST[axis])
        ):
            raise UnclearError
        lanes = lanes.value
    if ast.unparse(lanes) != f"tl.arange(0, {BLOCKS[axis]})":
        raise UnclearError
    if axis == "r":
        if start is not None and ast.unparse(start) != "r0_offset":
            raise UnclearError
        return lanes if start is None else ast.BinOp(start, ast.Add(), lanes)
    if start is None:
        raise UnclearError
    named = next(name for name in STARTS if STARTS[name] == axis)
    known = starts.get(named) if ast.unparse(start) == named else start_of(axis, start, short=short)
    if known is None:
        raise UnclearError
    if axis == "z":
        assert isinstance(known, ast.BinOp)
        return known.left
    return ast.BinOp(known, ast.Add(), lanes)


def preferred(function: ast.FunctionDef) -> dict[frozenset[str], str]:
    """Return the order of two axes in which elements of a row are adjacent in memory, if all loads agree."""
    found: dict[frozenset[str], set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and dotted(node.func) == "tl.load":
            steps = _steps(node.args[0])
            last = [axis for axis, step in steps.items() if step == 1]
            if len(steps) == 2 and "r" in steps and len(last) == 1:
                first = next(axis for axis in steps if axis not in last)
                found.setdefault(frozenset(steps), set()).add(first + last[0])
    return {axes: next(iter(orders)) for axes, orders in found.items() if len(orders) == 1}


def terms(total: ast.expr) -> list[ast.expr]:
    """Return the terms of a sum."""
    if isinstance(total, ast.BinOp) and isinstance(total.op, ast.Add):
        return [*terms(total.left), *terms(total.right)]
    return [total]


def factors(product: ast.expr) -> list[ast.expr]:
    """Return the factors of a product."""
    if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
        return [*factors(product.left), *factors(product.right)]
    return [product]


def conjuncts(mask: ast.expr) -> list[ast.expr]:
    """Return the parts of a mask that must all hold; none without a mask."""
    if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
        return [*conjuncts(mask.left), *conjuncts(mask.right)]
    return [] if ast.unparse(mask) == "None" else [mask]


def _steps(address: ast.expr) -> dict[str, int]:
    """Return for each axis of an address except z: 1 if its next element is the next in memory, else 0."""
    found: dict[str, int] = {}
    for part in terms(address):
        names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
        for name in names & INDEX.keys() - {"zindex"}:
            found[INDEX[name]] = int(isinstance(part, ast.Name))
    return found


def _narrow(value: ast.expr) -> ast.expr:
    """Remove a cast to 64 bits around an expression."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[dtype]) if ast.unparse(dtype) == "tl.int64":
            return inner
    return value
