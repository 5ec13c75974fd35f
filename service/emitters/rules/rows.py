"""A row held in one tile: which lines of a kernel compute it, along which axis, up to where it is masked."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from service.emitters.rules.facts import HINTS, MASK_POSITIONS, TILES, InferredValue, facts, infer, operands_known
from service.emitters.rules.kernels import RewritableKernel, is_constexpr, kernels, writes_apart
from service.emitters.rules.patterns import calls, flat, is_call, only_inside, operand, receiver, text
from service.emitters.rules.programs import programs
from service.emitters.rules.straight import is_reduction, straight_lines, target


@dataclass(frozen=True)
class RowTile:
    """Lines that compute a row in one tile.

    Attributes:
        kernel: The kernel that they are in.
        body: The statements that they stand for, to be replaced in place.
        lines: The same as straight-line code.
        known: Facts of their names.
        block: The constexpr parameter that is the tile's extent along the row.
        extent: The parameter that is the row's length.
    """

    kernel: RewritableKernel
    body: list[ast.stmt]
    lines: list[ast.stmt]
    known: dict[str, InferredValue | None]
    block: str
    extent: str

    def is_wide(self, line: ast.stmt) -> bool:
        """Return True if a line computes or stores something for each element of the row."""
        return self.block in self.shape(line)

    def folds(self, line: ast.stmt) -> bool:
        """Return True if a line folds the row."""
        if not is_reduction(line) or self.is_wide(line):
            return False
        assert isinstance(line, ast.Assign) and isinstance(line.value, ast.Call)
        found = infer(line.value.args[0], self.known)
        return found is not None and self.block in found.shape

    def shape(self, line: ast.stmt) -> tuple[str, ...]:
        """Return the shape of a line's result, or of its store."""
        subject = line.value.args[0] if isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) else None
        found = infer(subject, self.known) if subject else self.known[target(line)]
        return found.shape if found else ()


def fixed_lines(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a kernel's lines that compute nothing: docstrings and constants."""
    return [
        line
        for line in body
        if (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        or (isinstance(line, ast.AnnAssign) and is_constexpr(line.annotation))
    ]


def work_of(kernel: RewritableKernel) -> list[ast.stmt]:
    """Return the lines of a kernel that do one piece of work: its body, or that of its loop over pieces."""
    found = programs(kernel)
    return found.body if found else kernel.function.body


def rows(module: ast.Module) -> Iterator[RowTile]:
    """Yield the certain rows of a module: every access along the axis is masked by the row's length."""
    for kernel in kernels(module):
        body = work_of(kernel)
        lines = straight_lines([line for line in body if line not in fixed_lines(body)], kernel.function)
        if lines is None or not writes_apart(kernel):
            continue
        inside = list(flat(body))
        outside = [line for line in flat(kernel.function.body) if line not in inside]
        known = facts(kernel.parameters, [*outside, *fixed_lines(body), *lines])
        for block in sorted(kernel.constexprs):
            extent = _extent(kernel, lines, known, block)
            row = extent and RowTile(kernel, body, lines, known, block, extent)
            if row and _is_sure(row):
                yield row


def _is_sure(row: RowTile) -> bool:
    """Return True if all is known that a rule needs to cut the row: shapes, and the dtype of every sum."""
    assigned = [row.known[target(line)] for line in row.lines if target(line)]
    usual = all(value and value.shape.count(row.block) < 2 for value in assigned)
    if not usual or not all(operands_known(line, row.known) for line in row.lines):
        return False
    sums = [row.known[target(line)] for line in row.lines if row.folds(line)]
    exact = all(value and value.dtype == "float32" for value in sums)
    return exact and only_inside(row.block, row.lines, *TILES, *HINTS)


def _extent(
    kernel: RewritableKernel, lines: list[ast.stmt], known: dict[str, InferredValue | None], block: str
) -> str | None:
    """Return the row's length: the bound that masks every access to memory along the axis."""
    axis = _Axis(kernel, block)
    bounds = []
    for line in lines:
        for call in calls(line, *MASK_POSITIONS):
            where = infer(call.args[0], known)
            if where is None or block in where.shape:
                bounds.append(axis.bounds(operand(call, MASK_POSITIONS[text(call.func)], "mask")))
        if isinstance(line, ast.Assign):
            axis.learn(target(line), line.value)
    common = set.intersection(*bounds) if bounds else set()
    return min(common) if common else None


class _Axis:
    """Facts about positions along an axis, inferred line by line from straight lines."""

    def __init__(self, kernel: RewritableKernel, block: str) -> None:
        self._kernel, self._block = kernel, block
        self._positions: set[str] = set()
        self._bounds: dict[str, set[str]] = {}

    def learn(self, name: str, value: ast.expr) -> None:
        """Learn from an assignment."""
        self._bounds[name] = self.bounds(value)
        if self._is_position(value):
            self._positions.add(name)

    def bounds(self, mask: ast.expr | None) -> set[str]:
        """Return the parameters that certainly bound the position under a mask."""
        match mask:
            case ast.Name(id=name):
                return self._bounds.get(name, set())
            case ast.Subscript(value=value):
                return self.bounds(value)
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self.bounds(left) | self.bounds(right)
            case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Name(id=flag)):
                found = self.bounds(left)
                return {bound for bound in found if is_even_flag(self._kernel, flag, bound, self._block)}
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Name(id=bound)]):
                return {bound} if bound in self._kernel.parameters and self._is_position(left) else set()
        return set()

    def _is_position(self, node: ast.expr) -> bool:
        """Return True if an expression is the position itself, counted from 0."""
        if isinstance(node, ast.Name):
            return node.id in self._positions
        if isinstance(node, ast.Subscript):
            return self._is_position(node.value)
        if is_call(node, *HINTS):
            return self._is_position(node.args[0])
        if is_call(node, ".to"):
            return self._is_position(receiver(node))
        return is_call(node, "tl.arange") and [text(item) for item in node.args] == ["0", self._block]


def is_even_flag(kernel: RewritableKernel, flag: str, extent: str, block: str) -> bool:
    """Return True if a constexpr parameter says that a tile's extent divides a length, at every launch."""
    if flag not in kernel.constexprs:
        return False
    return all(
        isinstance(width := kernel.argument(launch, block), ast.Name)
        and text(kernel.argument(launch, flag)) == f"{text(kernel.argument(launch, extent))} % {text(width)} == 0"
        for launch in kernel.launches
    )
