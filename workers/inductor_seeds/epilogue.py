"""Epilogues: an elementwise kernel that alone reads a convolution's result becomes the end of the convolution's kernel.

The result is then never stored. Inductor's kernel counts elements along one axis, so its index and mask become those of
the convolution's outputs. An index that is certainly the output's filter becomes the kernel's own range of filters.
Equality of indices is tested with numbers: all sizes are large primes, in several choices.
"""

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from workers.inductor_seeds.runtime import ELEMENTWISE, dotted
from workers.inductor_seeds.simplification import bound
from workers.protocol import Operator
from workers.protocol.extent import size_of

CHOICES = 16
"""Number of choices of sizes and elements at which two indices must be equal. Sizes that do not vary are small numbers,
so that few elements could agree by chance."""

INDEX, MASK, OFFSET = "xindex", "xmask", "xoffset"
"""Names in Inductor's kernels."""

TARGET, IS_TARGET, TOTAL = "target", "is_target", "total"
"""Names in a convolution's kernel, as `Convolution.kernel` says."""

MOST_LONG = 32
"""Maximum calls of long functions per thread. Code for each result of a thread stands one after the other: two `mish`
for 64 results per thread are 510 KB of code (Triton 3.7), whose loading took twice as long as the convolution before
(level2/4 of KernelBench on an H200, 2026-12-01)."""

LONG = {"tl.erf", "tl.log", "tl.log2", "tl.sin", "tl.cos"}
SHORT = {f"libdevice.{name}" for name in ("rsqrt", "sqrt", "floor", "ceil", "trunc", "nearbyint", "signbit", "isnan")}
"""Functions of about 100 instructions or more, as most of libdevice are, and those of libdevice that have few (sm_90,
Triton 3.7: `tanh` 95, `tl.erf` 116, `log1p` 119, `pow` 371; `tl.exp` 10, `tl.sigmoid` 25, a division 15)."""

_UNKNOWN = ("XBLOCK", "xnumel")
"""Names of Inductor's kernels that a convolution's kernel has not."""

COLUMNS, IS_COLUMN = "column[None, :]", "is_column[None, :]"
"""The filters of a program and their mask, for tiles of places by filters."""

_FUNCTIONS = {"max": max, "min": min}


class SampledNumbers:
    """Numbers of a host function at several choices of sizes, noted in the order of its lines."""

    def __init__(self, operator: Operator) -> None:
        self._dimensions: list[dict[str, int]] = [{} for _ in range(CHOICES)]
        self._numbers: list[dict[str, int]] = [{} for _ in range(CHOICES)]
        primes = (number for number in range(1009, 10**6) if _is_prime(number))
        for dims in self._dimensions:
            dims.update((name, next(primes)) for name in operator.dimensions)

    def dimension(self, name: str, dimension: str | int) -> None:
        """Note a number that is one of the operator's sizes."""
        for numbers, dims in zip(self._numbers, self._dimensions, strict=True):
            numbers[name] = size_of(dimension, dims)

    def number(self, name: str, code: str) -> None:
        """Note a number that is computed from others."""
        for numbers, value in zip(self._numbers, self.values(code) or (), strict=False):
            numbers[name] = value

    def values(self, code: str) -> tuple[int, ...] | None:
        """Return a host expression's values; None if unknown."""
        try:
            return tuple(_evaluated(code, numbers) for numbers in self._numbers)
        except (NameError, ZeroDivisionError):
            return None


@dataclass(frozen=True)
class ConvolutionResult:
    """Result of a convolution, as host code.

    Attributes:
        places: Number of places of an output.
        filters: Number of filters, of all groups.
        elements: Number of elements.
        groups: Number of groups.
        is_tile: True if its kernel has tiles of places by filters; False if it has one axis.
        per_thread: Results of a thread.
    """

    places: str
    filters: str
    elements: str
    groups: int
    is_tile: bool
    per_thread: int = 1


class Epilogue:
    """An elementwise kernel, about to be moved behind a convolution.

    Args:
        function: Inductor's kernel without its runtime.
        read: Its parameter that points to the result.
        passed: Host code by parameter.
        numbers: Values of host code.
        result: The result.
    """

    def __init__(
        self,
        function: ast.FunctionDef,
        read: str,
        passed: Mapping[str, str],
        numbers: SampledNumbers,
        result: ConvolutionResult,
    ) -> None:
        self._function, self._read, self._passed = deepcopy(function), read, passed
        self._numbers, self._result = numbers, result
        self._kinds = {INDEX: 2, MASK: 2}

    def lines(self) -> list[ast.stmt] | None:
        """Return the lines that replace the store of the convolution's kernel; None if they cannot or are too long."""
        if count_long(self._function) * self._result.per_thread > MOST_LONG:
            return None
        known = {name: self._numbers.values(code) for name, code in self._passed.items() if "ptr" not in name}
        elements = self._numbers.values(self._result.elements)
        if not elements or elements != known.get("xnumel") or any(values is None for values in known.values()):
            return None
        self._samples = [
            {name: values[choice] for name, values in known.items() if values} for choice in range(CHOICES)
        ]
        for choice, sample in enumerate(self._samples):
            sample[INDEX] = elements[choice] * (choice + 1) // (CHOICES + 1)
        try:
            return [new for line in self._function.body for new in self._line(line)]
        except _NotElementwiseError:
            return None

    def _line(self, line: ast.stmt) -> list[ast.stmt]:
        name = bound(line)
        if name in (INDEX, MASK, OFFSET, *_UNKNOWN):
            return []
        match line:
            case ast.Assign(value=value) if name:
                self._sample(name, value)
                line.value = self._value(value)
                self._kinds[name] = self._kind(line.value)
                return [line]
            case ast.Expr(value=ast.Call(args=[address, value, *mask]) as call) if dotted(call.func) == "tl.store":
                call.args = [self._address(address), self._value(value), self._masked(mask)]
                return [line]
        raise _NotElementwiseError

    def _sample(self, name: str, value: ast.expr) -> None:
        """Note an index, which is made of sizes and other indices alone."""
        if not any(isinstance(node, ast.Call) for node in ast.walk(value)):
            for sample in self._samples:
                if all(node.id in sample for node in ast.walk(value) if isinstance(node, ast.Name)):
                    sample[name] = _evaluated(ast.unparse(value), sample)

    def _value(self, value: ast.expr) -> ast.expr:
        """Rewrite an expression for the convolution's tiles."""
        if self._is_filter(value):
            return _expression(COLUMNS)
        if isinstance(value, ast.Call):
            return self._call(value)
        if isinstance(value, ast.Subscript) or (isinstance(value, ast.Name) and value.id in (self._read, *_UNKNOWN)):
            raise _NotElementwiseError
        for field, child in ast.iter_fields(value):
            if isinstance(child, ast.expr):
                setattr(value, field, self._value(child))
            elif isinstance(child, list):
                setattr(value, field, [self._value(item) if isinstance(item, ast.expr) else item for item in child])
        return value

    def _call(self, call: ast.Call) -> ast.expr:
        name = dotted(call.func)
        match call:
            case ast.Call(args=[address, *mask]) if name == "tl.load":
                return self._load(call, address, mask)
            case ast.Call(args=[inner, ast.List()]) if name == "tl.broadcast_to":
                return self._value(inner)
            case ast.Call(args=[ast.List(elts=[ast.Constant(value=1)]) as shape, *_]) if name == "tl.full":
                shape.elts *= 2 if self._result.is_tile else 1
            case ast.Call(func=ast.Attribute(value=inner, attr="to") as cast):
                cast.value = self._value(inner)
            case ast.Call(args=given) if name in ELEMENTWISE or name.startswith("libdevice."):
                call.args = [self._value(item) for item in given]
            case _:
                raise _NotElementwiseError
        return call

    def _load(self, load: ast.Call, address: ast.expr, mask: Sequence[ast.expr]) -> ast.expr:
        pointer, offset = _parted(address)
        if pointer == self._read:
            if not self._is_index(offset):
                raise _NotElementwiseError
            return ast.Name(TOTAL, ast.Load())
        written = self._address(address)
        kind = self._kind(written)
        if kind == 2:
            return ast.Call(load.func, [written, self._masked(mask)], load.keywords)
        if any(ast.unparse(item) not in (MASK, "None") for item in mask):
            raise _NotElementwiseError
        return ast.Call(load.func, [written, *([_expression(IS_COLUMN)] if kind else [])], load.keywords)

    def _masked(self, mask: Sequence[ast.expr]) -> ast.expr:
        """Return a mask that has the bounds of the outputs, which Inductor leaves out where its tiles are even."""
        written = [self._value(item) for item in mask if ast.unparse(item) != "None"]
        if not written:
            return _expression(MASK)
        names = {node.id for node in ast.walk(written[0]) if isinstance(node, ast.Name)}
        return written[0] if MASK in names else ast.BinOp(_expression(MASK), ast.BitAnd(), written[0])

    def _address(self, address: ast.expr) -> ast.expr:
        """Rewrite an address. An index that equals the element's own becomes it."""
        pointer, offset = _parted(address)
        written = _expression(INDEX) if self._is_index(offset) else self._value(offset)
        return ast.BinOp(ast.Name(pointer, ast.Load()), ast.Add(), written)

    def _kind(self, value: ast.expr) -> int:
        """Return 2 for a tile, 1 for a value per filter, 0 for one value."""
        names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
        return max(
            [0, *(2 if name == TOTAL else 1 if name == "column" else self._kinds.get(name, 0) for name in names)]
        )

    def _is_filter(self, value: ast.expr) -> bool:
        """True if an index is the number of the output's filter."""
        if not self._result.is_tile or self._result.groups > 1 or not isinstance(value, ast.BinOp):
            return False
        places, filters = (self._numbers.values(code) for code in (self._result.places, self._result.filters))
        indices = [sample[INDEX] for sample in self._samples]
        if places is None or filters is None:
            return False
        wanted = [index // spots % count for index, spots, count in zip(indices, places, filters, strict=True)]
        return self._evaluations(value) == wanted

    def _is_index(self, value: ast.expr) -> bool:
        return self._evaluations(value) == [sample[INDEX] for sample in self._samples]

    def _evaluations(self, value: ast.expr) -> list[int] | None:
        if any(isinstance(node, ast.Call | ast.Subscript) for node in ast.walk(value)):
            return None
        try:
            return [_evaluated(ast.unparse(value), sample) for sample in self._samples]
        except (NameError, ZeroDivisionError):
            return None


class _NotElementwiseError(Exception):
    """A line is more than arithmetic on the elements of one output."""


def count_long(function: ast.FunctionDef) -> int:
    """Count the calls of long functions."""
    names = [dotted(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)]
    return sum(name in LONG or (name.startswith("libdevice.") and name not in SHORT) for name in names)


def join(product: ast.FunctionDef, consumer: ast.FunctionDef, lines: Sequence[ast.stmt], read: str) -> ast.FunctionDef:
    """Return a convolution's kernel that ends with other lines than its store.

    Args:
        product: The convolution's kernel.
        consumer: The kernel that the lines come from.
        lines: Lines as of `Epilogue.lines`.
        read: The consumer's parameter that points to the result.
    """
    joined = deepcopy(product)
    own = [item for item in joined.args.args if item.annotation is None]
    pointers, sizes = [item for item in own if "_ptr" in item.arg], [item for item in own if "_ptr" not in item.arg]
    added = [item for item in consumer.args.args if item.annotation is None and item.arg != "xnumel"]
    added = [item for item in added if item.arg != read or _stores(lines, read)]
    blocks = [item for item in joined.args.args if item.annotation is not None]
    more = [item for item in added if "ptr" in item.arg], [item for item in added if "ptr" not in item.arg]
    joined.args.args = [*pointers[:-1], *more[0], *sizes, *more[1], *blocks]
    renamed = {INDEX: TARGET, MASK: IS_TARGET}
    for line in lines:
        for node in ast.walk(line):
            if isinstance(node, ast.Name):
                node.id = renamed.get(node.id, node.id)
    joined.body = [*joined.body[:-1], *lines]
    return joined


def _stores(lines: Sequence[ast.stmt], pointer: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == pointer for line in lines for node in ast.walk(line))


def _parted(address: ast.expr) -> tuple[str, ast.expr]:
    """Split an address into its pointer and its index."""
    match address:
        case ast.BinOp(left=ast.Name(id=pointer), op=ast.Add(), right=offset) if "ptr" in pointer:
            return pointer, offset
    raise _NotElementwiseError


def _expression(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


def _evaluated(code: str, numbers: Mapping[str, int]) -> int:
    return int(eval(code, {"__builtins__": _FUNCTIONS}, dict(numbers)))


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))
