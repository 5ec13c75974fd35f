"""Constant folding: specialises a kernel for fixed numbers and drops trivial operations and untaken branches."""

import ast
import operator
from collections.abc import Callable, Mapping

from workers.inductor_seeds.runtime import dotted

Number = int | bool
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}
_UNITS: Mapping[type[ast.operator], Number] = {
    ast.Add: 0,
    ast.Sub: 0,
    ast.Mult: 1,
    ast.FloorDiv: 1,
    ast.BitAnd: True,
}
"""Neutral right operands; for the operators in `_SWAPS` also left ones."""
_SWAPS = (ast.Add, ast.Mult, ast.BitAnd)


def fold(function: ast.FunctionDef, numbers: Mapping[str, int]) -> None:
    """Specialise a kernel for fixed numbers, in place: drop parameters among them and decide branches.

    Args:
        function: The kernel. It reads only its parameters, `tl` and these numbers, and binds each name to a number at
            most once.
        numbers: The numbers by name.
    """
    function.args.args = [item for item in function.args.args if item.arg not in numbers]
    function.body = _Folding(numbers).lines(function.body)


class _Folding(ast.NodeTransformer):
    """Transformer of lines in order, with the numbers known so far."""

    def __init__(self, numbers: Mapping[str, Number]) -> None:
        self._numbers = dict(numbers)

    def lines(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the folded lines."""
        left: list[ast.stmt] = []
        for line in body:
            left += self._line(line)
        return left

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _constant(self._numbers[node.id]) if node.id in self._numbers else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return node if number_of(node.value) is None else node.value

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and number_of(node.func.value) is not None:
            return node.func.value
        if dotted(node.func) != "tl.cdiv":
            return node
        left, right = (number_of(item) for item in node.args)
        if left is not None and right is not None:
            return _constant(-(-left // right))
        return node.args[0] if right == 1 else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        left, right = number_of(node.left), number_of(node.comparators[0])
        if left is None or right is None:
            return node
        return _constant(_COMPARISONS[type(node.ops[0])](left, right))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        kind, left, right = type(node.op), number_of(node.left), number_of(node.right)
        if left is not None and right is not None:
            return _constant(_ARITHMETIC[kind](left, right))
        if right is not None and right == _UNITS.get(kind):
            return node.left
        if left is not None and left == _UNITS.get(kind) and kind in _SWAPS:
            return node.right
        is_nothing = (
            (kind is ast.Mult and 0 in (left, right))
            or (kind in (ast.FloorDiv, ast.Mod) and left == 0)
            or (kind is ast.Mod and right == 1)
        )
        return _constant(0) if is_nothing else node

    def _line(self, line: ast.stmt) -> list[ast.stmt]:
        match line:
            case ast.If(test=test, body=body, orelse=other):
                chosen = number_of(self.visit(test))
                assert chosen is not None, f"`{ast.unparse(test)}` depends on more than numbers"
                return self.lines(body if chosen else other)
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as turns):
                line.iter = self.visit(turns)
                if number_of(turns.args[0]) == 1 and len(turns.args) == 1:
                    self._numbers[name] = 0
                    return self.lines(line.body)
                line.body = self.lines(line.body)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                line.value = self.visit(value)
                number = number_of(line.value)
                if number is not None:
                    self._numbers[name] = number
                    return []
            case _:
                self.visit(line)
        return [line]


def number_of(node: ast.AST) -> Number | None:
    """Return the whole number or truth value that code stands for; None if it is neither."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number_of(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _constant(number: Number) -> ast.expr:
    return ast.Constant(number)
