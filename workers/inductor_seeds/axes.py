"""Axes of the values in a kernel with a matrix product, derived from their expressions."""

import ast
from collections.abc import Sequence
from typing import TypeGuard

from workers.inductor_seeds.indexing import BLOCKS, MASKS, UnclearError, preferred
from workers.inductor_seeds.runtime import ELEMENTWISE, dotted

Axes = frozenset[str]

NONE = Axes()
NATURAL = {Axes("yr"): "yr", Axes("xr"): "rx", Axes("yx"): "yx"}
"""Order of a tile's axes for operands and results of `tl.dot`."""


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
