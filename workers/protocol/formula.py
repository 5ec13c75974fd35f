"""Formulas over an operator's sizes, as data: the numbers of a symbolic plan, and the guards under which it holds.

A formula is a number, the name of a size, or an operation with its terms. On the wire it is a number, a text or a list
such as `["//", ["+", "N", 127], 128]`. It is evaluated by walking it; nothing of it is ever executed as code.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias, Union

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

MAX_DEPTH = 48
"""Maximum depth of a formula; those of all seeds of the catalogue are below 12."""
MAX_TERMS = 512
"""Maximum number of terms of a formula; `next_power_of_2` written out by hand has under 100."""
MAX_MAGNITUDE = 2**63 - 1
"""Largest whole number that a formula may have on the way; larger ones fit no argument."""

Number: TypeAlias = bool | int | float
Term: TypeAlias = Union[bool, int, float, str, "Formula"]
Range: TypeAlias = tuple[float, float]
"""Smallest and largest value; infinite if unknown."""


class FormulaInvalid(ValueError):
    """A formula is malformed, or has no value at some sizes."""


_OPERATIONS: dict[str, tuple[int, Callable[..., Number]]] = {
    "+": (2, operator.add),
    "-": (2, operator.sub),
    "*": (2, operator.mul),
    "//": (2, operator.floordiv),
    "%": (2, operator.mod),
    "/": (2, operator.truediv),
    "**": (2, operator.pow),
    "&": (2, operator.and_),
    "|": (2, operator.or_),
    "min": (2, min),
    "max": (2, max),
    "neg": (1, operator.neg),
    "float": (1, float),
    "ceil": (1, math.ceil),
    "floor": (1, math.floor),
    "trunc": (1, math.trunc),
    "sqrt": (1, math.sqrt),
    "log": (1, math.log),
    "log2": (1, math.log2),
    "exp": (1, math.exp),
    "==": (2, operator.eq),
    "!=": (2, operator.ne),
    "<": (2, operator.lt),
    "<=": (2, operator.le),
    ">": (2, operator.gt),
    ">=": (2, operator.ge),
    "and": (2, lambda one, other: bool(one) and bool(other)),
    "or": (2, lambda one, other: bool(one) or bool(other)),
    "not": (1, operator.not_),
}
# Number of terms and meaning of each operation. They are Python's own, so the numbers equal those of host code.
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_WHOLE = frozenset({"ceil", "floor", "trunc", "and", "or", "not", *_OPPOSITE})
_BROKEN = frozenset({"/", "**", "float", "sqrt", "log", "log2", "exp"})
# Operations that make whole numbers of any, and operations that make floats of whole numbers.
_MAX_EXPONENT = 64
# A power of whole numbers beyond it takes long to compute and exceeds `MAX_MAGNITUDE`.


@dataclass(frozen=True, slots=True)
class Formula:
    """An operation with its terms."""

    operation: str
    terms: tuple[Term, ...]

    def __repr__(self) -> str:
        return str(written(self))


def combine(operation: str, *terms: Term) -> Term:
    """Return an operation on some terms; its value if all are numbers, and a term itself if the rest is neutral.

    Raises:
        FormulaInvalid: If numbers have no result.
    """
    if not any(isinstance(term, str | Formula) for term in terms):
        return _applied(operation, terms)
    if not all(map(is_whole, terms)):
        return Formula(operation, terms)
    match (operation, *terms):
        case ("+", term, 0) | ("+", 0, term) | ("-", term, 0) | ("*", term, 1) | ("*", 1, term) | ("//", term, 1):
            return term
        case ("+" | "-", Formula("+" | "-" as before, (first, int(offset))), int(step)):
            total = (offset if before == "+" else -offset) + (step if operation == "+" else -step)
            return combine("+" if total >= 0 else "-", first, abs(total))
    return Formula(operation, terms)


def negated(term: Term) -> Term:
    """Return the opposite of a guard."""
    if isinstance(term, Formula) and term.operation in _OPPOSITE:
        return Formula(_OPPOSITE[term.operation], term.terms)
    return combine("not", term)


def evaluate(term: Term, sizes: Mapping[str, int]) -> Number:
    """Return the value of a formula at some sizes.

    Raises:
        FormulaInvalid: If a size is missing, a number divided by zero, or a whole number exceeds `MAX_MAGNITUDE`.
    """
    if isinstance(term, str):
        if term not in sizes:
            raise FormulaInvalid(f"there is no size '{term:.40}'")
        return sizes[term]
    if not isinstance(term, Formula):
        return term
    return _applied(term.operation, tuple(evaluate(each, sizes) for each in term.terms))


def _applied(operation: str, values: tuple[Term, ...]) -> Number:
    if operation == "**" and not (isinstance(values[1], int | float) and abs(values[1]) <= _MAX_EXPONENT):
        raise FormulaInvalid(f"an exponent is {values[1]}")
    try:
        value = _OPERATIONS[operation][1](*values)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise FormulaInvalid(f"{operation} of {values} has no value: {error}") from error
    if isinstance(value, complex) or (isinstance(value, int) and abs(value) > MAX_MAGNITUDE):
        raise FormulaInvalid(f"{operation} of {values} is no 64-bit number")
    return value


def parse(value: object) -> Term:
    """Read a formula from parsed JSON, which may be hostile.

    Raises:
        FormulaInvalid: If it is malformed, too deep or too long.
    """
    left = [MAX_TERMS]

    def read(value: object, depth: int) -> Term:
        left[0] -= 1
        if depth > MAX_DEPTH or left[0] < 0:
            raise FormulaInvalid(f"a formula has more than {MAX_TERMS} terms, or is more than {MAX_DEPTH} deep")
        if isinstance(value, Formula):
            value = [value.operation, *value.terms]
        if isinstance(value, bool | str):
            if isinstance(value, str) and not (value.isidentifier() and value.isascii() and len(value) <= 64):
                raise FormulaInvalid(f"{value!r:.40} is no name of a size")
            return value
        if isinstance(value, int | float):
            if not math.isfinite(value) or (isinstance(value, int) and abs(value) > MAX_MAGNITUDE):
                raise FormulaInvalid(f"{value!r:.40} is no number of a formula")
            return value
        if not isinstance(value, list | tuple) or not value or not isinstance(value[0], str):
            raise FormulaInvalid(f"{value!r:.40} is no formula")
        name, *terms = value
        if name not in _OPERATIONS or len(terms) != _OPERATIONS[name][0]:
            raise FormulaInvalid(f"{name!r:.40} of {len(terms)} terms is no operation")
        return Formula(name, tuple(read(term, depth + 1) for term in terms))

    return read(value, 0)


def written(term: Term) -> object:
    """Return a formula as JSON data."""
    return [term.operation, *map(written, term.terms)] if isinstance(term, Formula) else term


Expression = Annotated[
    Term,
    PlainValidator(parse),
    PlainSerializer(written, return_type=object),
    WithJsonSchema({"type": ["number", "string", "array", "boolean"]}),
]
"""A formula in a wire type."""


def terms_of(term: Term) -> Iterator[Term]:
    """Yield a formula's terms, itself first."""
    yield term
    if isinstance(term, Formula):
        for each in term.terms:
            yield from terms_of(each)


def sizes_of(term: Term) -> frozenset[str]:
    """Return the names of the sizes that a formula depends on."""
    return frozenset(each for each in terms_of(term) if isinstance(each, str))


Polynomial = Counter[tuple[Term, ...]]


def polynomial(term: Term) -> Polynomial:
    """Return a whole-number formula as coefficients of products of sizes, and of terms that are no polynomials.

    Two formulas with equal polynomials are equal at all sizes; the reverse is not always found.
    """
    if isinstance(term, Formula) and term.operation in ("+", "-", "*", "neg"):
        first, *others = map(polynomial, term.terms)
        found: Polynomial = Counter()
        if term.operation == "*":
            for one, times in first.items():
                for other, more in others[0].items():
                    found[tuple(sorted((*one, *other), key=str))] += times * more
        else:
            sign = -1 if term.operation in ("-", "neg") else 1
            found.update(first if others else {key: -times for key, times in first.items()})
            for key, times in others[0].items() if others else ():
                found[key] += sign * times
        return Counter({key: times for key, times in found.items() if times})
    if isinstance(term, int):
        return Counter({(): int(term)} if term else {})
    return Counter({(term,): 1})


def same(one: Term, other: Term) -> bool:
    """Return True if two formulas are certainly equal at all sizes."""
    return one == other or (is_whole(one) and is_whole(other) and polynomial(one) == polynomial(other))


def is_whole(term: Term) -> bool:
    """Return True if a formula's values are whole numbers; sums of others depend on the order of their terms."""
    if not isinstance(term, Formula):
        return not isinstance(term, float)
    return term.operation in _WHOLE or (term.operation not in _BROKEN and all(map(is_whole, term.terms)))


def bounds(term: Term, ranges: Mapping[str, tuple[int, int]]) -> Range:
    """Return bounds of a formula's values while its sizes stay in their ranges."""
    if isinstance(term, str):
        return ranges.get(term, (-math.inf, math.inf))
    if not isinstance(term, Formula):
        return (term, term)
    around = [bounds(each, ranges) for each in term.terms]
    if not all(math.isfinite(end) for each in around for end in each):
        return (-math.inf, math.inf)
    ends = _BOUNDS.get(term.operation)
    return (-math.inf, math.inf) if ends is None else ends(around[0], around[-1])


def _corners(apply: Callable[[float, float], float], one: Range, other: Range) -> Range:
    found = [apply(end, far) for end in one for far in other]
    return (min(found), max(found))


def _quotient(one: Range, other: Range) -> Range:
    return _corners(operator.floordiv, one, other) if other[0] > 0 else (-math.inf, math.inf)


def _remainder(one: Range, other: Range) -> Range:
    if other[0] <= 0:
        return (-math.inf, math.inf)
    return one if one[0] >= 0 and one[1] < other[0] else (0, other[1] - 1)


_BOUNDS: dict[str, Callable[[Range, Range], Range]] = {
    "+": lambda one, other: (one[0] + other[0], one[1] + other[1]),
    "-": lambda one, other: (one[0] - other[1], one[1] - other[0]),
    "*": lambda one, other: _corners(operator.mul, one, other),
    "//": _quotient,
    "%": _remainder,
    "min": lambda one, other: (min(one[0], other[0]), min(one[1], other[1])),
    "max": lambda one, other: (max(one[0], other[0]), max(one[1], other[1])),
    "neg": lambda one, _: (-one[1], -one[0]),
    "float": lambda one, _: one,
}
# Bounds of each operation's values, from those of its first and last term.


def decided(term: Term, ranges: Mapping[str, tuple[int, int]]) -> bool | None:
    """Return a guard's value if it is the same for all sizes in the ranges; None if it is not, or is not known."""
    if not isinstance(term, Formula):
        return None if isinstance(term, str) else bool(term)
    if term.operation in ("and", "or", "not"):
        known = [decided(each, ranges) for each in term.terms]
        if term.operation == "not":
            return None if known[0] is None else not known[0]
        settling = term.operation == "or"
        return settling if settling in known else None if None in known else not settling
    if term.operation not in _OPPOSITE:
        return None
    one, other = term.terms
    if same(one, other):
        return term.operation in ("==", "<=", ">=")
    (low, high), (least, most) = bounds(one, ranges), bounds(other, ranges)
    below, above, apart = high < least, low > most, high < least or low > most
    settled = {
        "==": (not apart, apart or low == high == least == most),
        "!=": (apart, apart or low == high == least == most),
        "<": (below, below or low >= most),
        "<=": (high <= least, high <= least or above),
        ">": (above, above or high <= least),
        ">=": (low >= most, low >= most or below),
    }
    value, is_known = settled[term.operation]
    return value if is_known else None
