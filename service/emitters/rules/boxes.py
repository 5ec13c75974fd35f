"""Loads of a box of a matrix: rows times columns, masked at the matrix' ends."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from service.emitters.rules.kernels import RewritableKernel
from service.emitters.rules.patterns import flat, is_call, operand, text
from service.operators.sources import walk


@dataclass(frozen=True)
class Box:
    """Load `tl.load(base + rows[:, None] * stride + cols[None, :], mask=…, other=0.0)`.

    Attributes:
        load: The call.
        base: Code for the start of the matrix.
        stride: Code for the number of elements from one row to the next.
        shape: Code for the matrix' numbers of rows and columns.
        offsets: Code for the first row and the first column of the box.
        block: Code for the box' numbers of rows and columns.
        indices: Names of its rows and of its columns.
    """

    load: ast.Call
    base: str
    stride: str
    shape: tuple[str, str]
    offsets: tuple[str, str]
    block: tuple[str, str]
    indices: tuple[str, str]


def boxes(kernel: RewritableKernel) -> Iterator[Box]:
    """Yield the loads of a kernel that surely are boxes."""
    lines = [line for line in flat(kernel.function.body) if isinstance(line, ast.Assign)]
    names = [line.targets[0].id if isinstance(line.targets[0], ast.Name) else "" for line in lines]
    values = {name: line.value for name, line in zip(names, lines, strict=True) if names.count(name) == 1}
    for line in lines:
        for call in walk(line.value):
            if is_call(call, "tl.load") and (found := _box(call, values)):
                yield found


def _box(call: ast.Call, values: dict[str, ast.expr]) -> Box | None:
    match call.args[0]:
        case ast.BinOp(
            left=ast.BinOp(left=base, op=ast.Add(), right=ast.BinOp(left=high, op=ast.Mult(), right=stride)),
            op=ast.Add(),
            right=low,
        ):
            rows, cols = _index(high, "[:, None]"), _index(low, "[None, :]")
        case _:
            return None
    other, mask = operand(call, 2, "other"), operand(call, 1, "mask")
    if not (rows and cols and mask and other and text(other) in ("0", "0.0")) or len(call.keywords) > 2:
        return None
    spans = [_span(values.get(name)) for name in (rows, cols)]
    ends = _ends(values.get(text(mask), mask), rows, cols)
    if ends is None or spans[0] is None or spans[1] is None:
        return None
    (row, height), (col, width) = spans[0], spans[1]
    return Box(call, text(base), text(stride), ends, (row, col), (height, width), (rows, cols))


def _index(node: ast.expr, axes: str) -> str:
    """Return the name in `name[:, None]`; empty for anything else."""
    name = text(node).removesuffix(axes)
    return name if name != text(node) and name.isidentifier() else ""


def _span(value: ast.expr | None) -> tuple[str, str] | None:
    """Return first element and extent of `first + tl.arange(0, extent)`. Offsets of boxes have 32 bits."""
    match value:
        case ast.BinOp(left=first, op=ast.Add(), right=lanes) if is_call(lanes, "tl.arange"):
            wide = "int64" in text(first)
            return None if wide or text(lanes.args[0]) != "0" else (text(first), text(lanes.args[1]))
        case ast.Call() if is_call(value, "tl.arange") and text(value.args[0]) == "0":
            return "0", text(value.args[1])
    return None


def _ends(mask: ast.expr, rows: str, cols: str) -> tuple[str, str] | None:
    """Return the upper bounds of rows and columns; None for any other mask."""
    match mask:
        case ast.BinOp(
            left=ast.Compare(left=high, ops=[ast.Lt()], comparators=[n_rows]),
            op=ast.BitAnd(),
            right=ast.Compare(left=low, ops=[ast.Lt()], comparators=[n_cols]),
        ) if (text(high), text(low)) == (f"{rows}[:, None]", f"{cols}[None, :]"):
            return text(n_rows), text(n_cols)
    return None


def is_plain(box: Box, kernel: RewritableKernel) -> bool:
    """Return True if a box' matrix starts where a parameter points, and its stride is a parameter."""
    return box.base in kernel.parameters and box.stride in kernel.parameters
