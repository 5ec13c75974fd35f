"""Inductor's index names and expressions in a kernel with a matrix product, and the axes of its values.

y and x are the axes of the result, r is the one that is summed, and z counts matrices, one per program.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from workers.inductor_seeds.runtime import ELEMENTWISE, dotted

Axes = frozenset[str]

NONE = Axes()
NATURAL = {Axes("yr"): "yr", Axes("xr"): "rx", Axes("yx"): "yx"}
"""Order of a tile's axes for operands and results of `tl.dot`."""

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


class KnownValues:
    """Axes of a kernel's names, in the order of its lines."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._parameters = [item.arg for item in function.args.args]
        self._orders = NATURAL | preferred(function)
        self._axes: dict[str, Axes] = {}

    def axes(self, value: ast.expr) -> Axes:
        """Return the axes of an expression.

        Raises:
            UnclearError: If they are not certain.
        """
        match value:
            case ast.Constant() | ast.Attribute(value=ast.Name(id="tl")):
                return NONE
            case ast.Name(id=name):
                return self._axes_of_name(name)
            case ast.UnaryOp(operand=inner):
                return self.axes(inner)
            case ast.BinOp(left=left, right=right):
                return self.axes(left) | self.axes(right)
            case ast.Compare(left=left, comparators=others):
                return self.axes(left).union(*map(self.axes, others))
            case ast.Subscript(value=inner, slice=ast.Tuple(elts=places)):
                kept = [place for place in places if isinstance(place, ast.Slice)]
                if len(kept) == 2 and self.axes(inner) == Axes("yx"):
                    return Axes("yx")
            case ast.Call():
                return self._axes_of_call(value, dotted(value.func))
        raise UnclearError

    def _axes_of_name(self, name: str) -> Axes:
        if name in MASKS:
            return Axes(MASKS[name]) - {"z"}
        if name in self._axes:
            return self._axes[name]
        if name in self._parameters or name in ("R0_BLOCK", "r0_offset"):
            return NONE
        raise UnclearError

    def _axes_of_call(self, call: ast.Call, function: str) -> Axes:
        if is_cast(call):
            return self.axes(receiver(call))
        if function == "tl.load":
            return self.axes(call.args[0]).union(*(self.axes(mask) for mask in call.args[1:2]))
        if function in ELEMENTWISE or function.startswith("libdevice."):
            return NONE.union(*map(self.axes, call.args))
        if function == "tl.full":
            blocks = [ast.unparse(size) for size in getattr(call.args[0], "elts", [])]
            return _made_of(blocks) if set(blocks) - {"1"} else NONE
        if function == "tl.dot" and self._is_operand(call.args[0], "y") and self._is_operand(call.args[1], "x"):
            return Axes("yx")
        if function in ("tl.reshape", "tl.broadcast_to"):
            axes = _made_of([ast.unparse(size) for size in getattr(call.args[1], "elts", [])])
            if self.axes(call.args[0]) == axes:
                return axes
        if function == "tl.trans" and len(call.args) == 1 and self.axes(call.args[0]) == Axes("xr"):
            return Axes("xr")
        if function == "float":
            return NONE
        raise UnclearError

    def _is_operand(self, value: ast.expr, axis: str) -> bool:
        return self.axes(value) == Axes(axis + "r")

    def _order(self, axes: Axes) -> str:
        if len(axes) < 2:
            return "".join(axes)
        if axes not in self._orders:
            raise UnclearError
        return self._orders[axes]


def _made_of(blocks: Sequence[str]) -> Axes:
    """Return the axes of a tile with these extents."""
    named = {block: axis for axis, block in BLOCKS.items()}
    if len(blocks) != 2 or not all(block in named for block in blocks):
        raise UnclearError
    return Axes(named[block] for block in blocks)


def is_call(node: ast.AST, function: str) -> TypeGuard[ast.Call]:
    """True if a node calls this function."""
    return isinstance(node, ast.Call) and dotted(node.func) == function


def is_cast(node: ast.AST) -> TypeGuard[ast.Call]:
    """True if a node is `value.to(dtype)`."""
    method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    return method and isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords


def receiver(call: ast.Call) -> ast.expr:
    """Return the object of a method call."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.value
