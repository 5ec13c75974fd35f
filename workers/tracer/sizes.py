"""Symbolic sizes: whole numbers that remember how host code computed them, with a value to go on with.

They are torch's `SymInt`s over nodes of our own, because C code asks a `SymInt` for its value where it would read that
of a subclass of `int` without a word. An arithmetic operation makes a formula. Where host code needs a plain number or
a decision, the value answers, and a guard says for which sizes the answer is the same.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import torch
import triton
from torch.fx.experimental.sym_node import SymNode

from workers.protocol.formula import (
    Formula,
    Number,
    Term,
    bounds,
    combine,
    decided,
    evaluate,
    negated,
)

MAX_RECORDED = 256
"""Maximum number of guards of one trace, before those that follow from others are left out."""

Text: TypeAlias = str
# Within `SizeNode`, `str` is a method.
Sym: TypeAlias = torch.SymInt | torch.SymFloat | torch.SymBool


_make_int: Callable[[SymNode], torch.SymInt] = torch.SymInt
_make_float: Callable[[SymNode], torch.SymFloat] = torch.SymFloat
# torch's constructors have no types.


class GuardLimit(Exception):
    """Host code takes more decisions on sizes than a symbolic plan holds guards."""


class SizeLog:
    """Sizes of one symbolic trace: their values, their ranges as far as guards leave them, and the guards.

    Args:
        values: Size of each dimension.
        ranges: Smallest and largest size of each dimension; a dimension without a range keeps its size.
    """

    def __init__(self, values: Mapping[str, int], ranges: Mapping[str, tuple[int, int]]) -> None:
        self.values = dict(values)
        self.ranges = {name: ranges.get(name, (size, size)) for name, size in values.items()}
        self.guards: list[Term] = []
        for name, size in values.items():
            if name not in ranges:
                self.guards.append(combine("==", name, size))

    def size(self, name: str) -> "int | torch.SymInt":
        """Return a dimension's size; a plain number if its range holds no other."""
        low, high = self.ranges[name]
        return self.values[name] if low == high else symbolic(SizeNode(name, self.values[name], self))

    def require(self, guard: Term) -> None:
        """Record a guard that holds at the values, unless it holds at all sizes that are left.

        Raises:
            GuardLimit: If there are too many.
        """
        if guard in self.guards or decided(guard, self.ranges):
            return
        if len(self.guards) >= MAX_RECORDED:
            raise GuardLimit(f"host code takes more than {MAX_RECORDED} decisions on sizes")
        self.guards.append(guard)
        self._narrow(guard)

    def keep(self, term: Term) -> None:
        """Require that a formula has its present value."""
        self.require(combine("==", term, evaluate(term, self.values)))

    def _narrow(self, guard: Term) -> None:
        match guard:
            case Formula(operation, (str(name), int(limit))):
                low, high = self.ranges[name]
                limits = {
                    "==": (limit, limit),
                    "<": (low, min(high, limit - 1)),
                    "<=": (low, min(high, limit)),
                    ">": (max(low, limit + 1), high),
                    ">=": (max(low, limit), high),
                    "!=": (low + (low == limit), high - (high == limit)),
                }
                self.ranges[name] = limits.get(operation, (low, high))


class SizeNode(SymNode):
    """Node behind a symbolic size: its formula, and its value in this trace."""

    def __init__(self, term: Term, value: Number, log: SizeLog) -> None:
        self.term, self.log = term, log
        self.constant = None if isinstance(term, str | Formula) else value
        self.pytype, self._hint, self._number = type(value), value, value
        self.shape_env, self.fx_node, self._optimized_summation = None, None, False

    @property
    def value(self) -> Number:
        """Value at the sizes of this trace."""
        return self._number

    def sym_sum(self, args: Sequence[SymNode]) -> SymNode:
        """Return the sum of some nodes."""
        return reduce(lambda one, other: one.add(other), args)

    def sym_ite(self, then_val: SymNode, else_val: SymNode) -> SymNode:
        """Return one of two nodes; the condition is guarded."""
        return then_val if self.evaluate() else else_val

    @property
    def expr(self) -> object:
        """The formula, where torch would have an expression of sympy."""
        return self.term

    def str(self) -> Text:
        """Return the formula as text."""
        return f"{self.term}"

    def maybe_as_int(self) -> int | None:
        """Return the value if it is the same for all sizes."""
        return self.constant if type(self.constant) is int else None

    def maybe_as_float(self) -> float | None:
        """Return the value if it is the same for all sizes."""
        return self.constant if type(self.constant) is float else None

    def maybe_as_bool(self) -> bool | None:
        """Return the value if it is the same for all sizes."""
        return self.constant if type(self.constant) is bool else None

    def wrap_int(self, num: int) -> "SizeNode":
        """Return a node of a plain number."""
        return SizeNode(num, num, self.log)

    def wrap_float(self, num: float) -> "SizeNode":
        """Return a node of a plain number."""
        return SizeNode(num, num, self.log)

    def wrap_bool(self, num: bool) -> "SizeNode":
        """Return a node of a plain truth value."""
        return SizeNode(num, num, self.log)

    def evaluate(self, size_oblivious: bool = False) -> Number:
        """Return the value for the host to go on with, and guard it."""
        if self.constant is None:
            if self.pytype is bool:
                self.log.require(self.term if self.value else negated(self.term))
            else:
                self.log.keep(self.term)
        return self.value

    def guard_or_false(self, file: Text, line: int) -> bool:
        """Return a decision of torch's own, and guard it."""
        return bool(self.evaluate())

    guard_or_true = expect_true = guard_or_false

    def statically_known_true(self, file: Text, line: int) -> bool:
        """Return True if a condition holds at all sizes that are left."""
        return decided(self.term, self.log.ranges) is True

    def is_contiguous(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        """Return a constant node: True if a tensor's elements are dense and in order; guarded."""
        expected: Any = 1
        for size, stride in zip(_unwrapped(sizes)[::-1], _unwrapped(strides)[::-1], strict=True):
            if size != 1:
                if stride != expected:
                    return self.wrap_bool(False)
                expected = expected * size
        return self.wrap_bool(True)

    def is_non_overlapping_and_dense_indicator(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        """Return a constant node: 1 if a tensor's elements are dense in some order; guarded."""
        expected: Any = 1
        order = sorted(zip(strides, sizes, strict=True), key=lambda each: (each[0].hint, each[1].hint))
        for stride, size in order:
            if _unwrapped([size])[0] != 1:
                if _unwrapped([stride])[0] != expected:
                    return self.wrap_int(0)
                expected = expected * _unwrapped([size])[0]
        return self.wrap_int(1)

    def is_channels_last_strides_2d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        """Return a constant node: True if the strides fall in the order N, H, W, C; guarded."""
        return self._falls(sizes, strides, (1, 3, 2, 0))

    def is_channels_last_strides_3d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        """Return a constant node: True if the strides fall in the order N, D, H, W, C; guarded."""
        return self._falls(sizes, strides, (1, 4, 3, 2, 0))

    def is_channels_last_contiguous_2d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        """Return a constant node: True if a tensor is dense in the order N, H, W, C; guarded."""
        return self._reordered(sizes, strides, (0, 2, 3, 1))

    def is_channels_last_contiguous_3d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        """Return a constant node: True if a tensor is dense in the order N, D, H, W, C; guarded."""
        return self._reordered(sizes, strides, (0, 2, 3, 4, 1))

    def _reordered(self, sizes: Sequence[SymNode], strides: Sequence[SymNode], order: Sequence[int]) -> SymNode:
        if len(sizes) != len(order):
            return self.wrap_bool(False)
        return self.is_contiguous([sizes[axis] for axis in order], [strides[axis] for axis in order])

    def _falls(self, sizes: Sequence[SymNode], strides: Sequence[SymNode], order: Sequence[int]) -> SymNode:
        if len(sizes) != len(order):
            return self.wrap_bool(False)
        lengths, steps = _unwrapped(sizes), _unwrapped(strides)
        least: Any = 0
        for axis in order:
            if steps[axis] < least or (axis == 0 and least == steps[1]):
                return self.wrap_bool(False)
            least = steps[axis] * (lengths[axis] if lengths[axis] > 1 else 1)
        return self.wrap_bool(True)


def symbolic(node: SymNode) -> torch.SymInt:
    """Return a node as host code sees it."""
    return _make_int(node)


def plain(number: object) -> object:
    """Return a number as a plain one; a symbolic one gets the guard that it has its present value."""
    if isinstance(number, torch.SymInt):
        return int(number)
    if isinstance(number, torch.SymFloat):
        return float(number)
    return bool(number) if isinstance(number, torch.SymBool) else number


def term_of(number: Number | Sym) -> Term:
    """Return a number's formula; a plain number is one."""
    return number.node.term if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) else number


def value_of(number: Number | Sym) -> Number:
    """Return a number's value in this trace, without a guard."""
    value: Number = number.node.value if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) else number
    return value


def install() -> None:
    """Let symbolic sizes answer what host code asks of whole numbers, and helpers of Python and Triton take them."""
    numbers: Any = torch.SymInt
    numbers.__hash__ = lambda number: hash(int(number))
    numbers.__divmod__ = lambda number, other: (number // other, number % other)
    numbers.__rdivmod__ = lambda number, other: (other // number, other % number)
    numbers.bit_length = _bit_length
    triton.next_power_of_2 = _next_power_of_2
    for name in ("sqrt", "log", "log2", "exp"):
        setattr(math, name, _mathematical(name, getattr(math, name)))


def _bit_length(number: torch.SymInt) -> int:
    """Return the bits of a size; guarded by the powers of two around it."""
    bits = int(value_of(number)).bit_length()
    _require_between(number.node, 1 << bits >> 1, (1 << bits) - 1)
    return bits


_LIBRARY_POWER = triton.next_power_of_2


def _next_power_of_2(n: object) -> object:
    """Return the power of two that is not below a number; for a size guarded by the one before."""
    if not isinstance(n, torch.SymInt):
        return _LIBRARY_POWER(n)
    power = 1 << (int(value_of(n)) - 1).bit_length()
    _require_between(n.node, power // 2 + 1, power)
    return power


def _require_between(node: SizeNode, low: int, high: int) -> None:
    node.log.require(combine(">=", node.term, low))
    node.log.require(combine("<=", node.term, high))


def _mathematical(name: str, library: Callable[..., float]) -> Callable[..., Any]:
    """Return a function of `math` that keeps the formula of a symbolic number."""
    operation = _operation(name, library)

    def function(number: object, *others: object) -> object:
        if isinstance(number, torch.SymInt | torch.SymFloat) and not others:
            return _make_float(operation(number.node))
        return library(plain(number), *map(plain, others))

    return function


def _unwrapped(nodes: Sequence[SymNode]) -> list[Any]:
    return [node.hint if node.constant is not None else symbolic(node) for node in nodes]


def _operation(name: str, apply: Callable[..., Number]) -> Callable[..., SizeNode]:
    """Return the method of a node for an operation that has formulas."""

    def method(node: SizeNode, *others: SizeNode) -> SizeNode:
        value = apply(node.value, *(other.value for other in others))
        terms = (node.term, *(other.term for other in others))
        known: Term | None = None
        if isinstance(value, bool):
            known = decided(Formula(name, terms), node.log.ranges)
        elif name in ("min", "max"):
            known = _extreme(terms, value, node.log)
        return SizeNode(combine(name, *terms) if known is None else known, value, node.log)

    return method


def _extreme(terms: Sequence[Term], value: Number, log: SizeLog) -> Term | None:
    """Return the term that is the smaller or larger one at all sizes that are left; None if that varies."""
    for one, other in (terms, terms[::-1]):
        ends, others = bounds(one, log.ranges), bounds(other, log.ranges)
        if (ends[0] >= others[1] or ends[1] <= others[0]) and evaluate(one, log.values) == value:
            return one
    return None


def _shifted(sign: str) -> Callable[[SizeNode, SizeNode], SizeNode]:
    """Return the method of a node for a shift by a number of bits, which is fixed."""

    def method(node: SizeNode, other: SizeNode) -> SizeNode:
        factor = node.wrap_int(1 << int(other.evaluate()))
        return _METHODS[sign](node, factor)

    return method


def _fixed(apply: Callable[..., Any]) -> Callable[..., SizeNode]:
    """Return the method of a node for an operation without formulas: its terms are fixed."""

    def method(node: SizeNode, *others: object) -> SizeNode:
        value = apply(node.evaluate(), *(each.evaluate() if isinstance(each, SizeNode) else each for each in others))
        return SizeNode(value, value, node.log)

    return method


_METHODS: dict[str, Callable[..., SizeNode]] = {
    "add": _operation("+", operator.add),
    "sub": _operation("-", operator.sub),
    "mul": _operation("*", operator.mul),
    "int_floordiv": _operation("//", operator.floordiv),
    "mod": _operation("%", operator.mod),
    "int_truediv": _operation("/", operator.truediv),
    "pow": _operation("**", operator.pow),
    "sym_min": _operation("min", min),
    "sym_max": _operation("max", max),
    "neg": _operation("neg", operator.neg),
    "sym_float": _operation("float", float),
    "ceil": _operation("ceil", math.ceil),
    "floor": _operation("floor", math.floor),
    "trunc": _operation("trunc", math.trunc),
    "bitwise_and": _operation("&", operator.and_),
    "bitwise_or": _operation("|", operator.or_),
    "sym_sqrt": _operation("sqrt", math.sqrt),
    "sym_log2": _operation("log2", math.log2),
    "eq": _operation("==", operator.eq),
    "ne": _operation("!=", operator.ne),
    "lt": _operation("<", operator.lt),
    "le": _operation("<=", operator.le),
    "gt": _operation(">", operator.gt),
    "ge": _operation(">=", operator.ge),
    "and_": _operation("and", operator.and_),
    "or_": _operation("or", operator.or_),
    "sym_not": _operation("not", operator.not_),
    "pos": lambda node: node,
    "abs": _fixed(abs),
    "bitwise_xor": _fixed(operator.xor),
    "round": _fixed(round),
    "is_integer": _fixed(lambda value: float(value).is_integer()),
}
_ALIASES = {
    "floordiv": "int_floordiv",
    "truediv": "int_truediv",
    "float_truediv": "int_truediv",
    "float_pow": "pow",
    "pow_by_natural": "pow",
    "sym_int": "trunc",
    "sym_and": "and_",
    "sym_or": "or_",
}
_METHODS |= {"lshift": _shifted("mul"), "rshift": _shifted("int_floordiv")}
for _name, _method in _METHODS.items():
    setattr(SizeNode, _name, _method)
for _name, _known in _ALIASES.items():
    setattr(SizeNode, _name, _METHODS[_known])
