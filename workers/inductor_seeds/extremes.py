"""Maximum numbers and tensor sizes in a candidate's host function, at the largest sizes of its operator."""

import ast
import math
from collections.abc import Sequence

from workers.protocol import Operator
from workers.protocol.extent import size_of

FAR = 2**31
"""Minimum number of elements whose index needs more than 32 bits."""


def values_of(operator: Operator, dimension: str) -> list[int]:
    """Return a dimension's values in an operator's shapes, and the ends of its range."""
    return [*(shape.dims[dimension] for shape in operator.shapes), *operator.ranges.get(dimension, ())]


class Extremes:
    """Maximum values of the host's names, noted in the order of its lines."""

    def __init__(self, operator: Operator) -> None:
        self._largest = {name: max(values_of(operator, name)) for name in operator.dimensions}
        self._numbers: dict[str, int | None] = {}
        self._small: set[str] = set()
        self.dtypes: dict[str, str] = {}
        for item in operator.inputs:
            extents = [size_of(extent, self._largest) for extent in item.shape]
            self._note(item.name, extents, f"tl.{item.dtype}")

    def dimension(self, name: str, dimension: str | int) -> None:
        """Note a number that is one of the operator's sizes."""
        self._numbers[name] = size_of(dimension, self._largest)

    def number(self, name: str, code: str) -> None:
        """Note a number that is computed from others."""
        self._numbers[name] = self.most(code)

    def tensor(self, name: str, size: str, dtype: str) -> None:
        """Note an allocated packed tensor, of a size such as `(M, 4 * N)`."""
        sizes = ast.parse(size, mode="eval").body
        extents = [self._most(item) for item in sizes.elts] if isinstance(sizes, ast.Tuple) else [None]
        self._note(name, extents, dtype.replace("torch.", "tl."))

    def is_small(self, name: str) -> bool:
        """True if the indices of a tensor's elements certainly fit 32 bits."""
        return name in self._small

    def most(self, code: str) -> int | None:
        """Return the maximum of a host expression; None if unknown."""
        return self._most(ast.parse(code, mode="eval").body)

    def _note(self, name: str, extents: Sequence[int | None], dtype: str) -> None:
        self.dtypes[name] = dtype
        known = [extent for extent in extents if extent is not None]
        if len(known) == len(extents) and math.prod(known) < FAR:
            self._small.add(name)

    def _most(self, node: ast.expr) -> int | None:
        """Return the maximum of an expression that is monotonic in its operands."""
        match node:
            case ast.Constant(value=int() as number):
                return number
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return -number
            case ast.Name(id=name):
                return self._numbers.get(name)
            case ast.BinOp(left=left, op=op, right=right):
                first, second = self._most(left), self._most(right)
                if first is None or second is None:
                    return None
                if isinstance(op, ast.Add):
                    return first + second
                if isinstance(op, ast.Mult):
                    return first * second if min(first, second) >= 0 else None
                if isinstance(op, ast.FloorDiv) and isinstance(right, ast.Constant) and second > 0:
                    return first // second
        return None
