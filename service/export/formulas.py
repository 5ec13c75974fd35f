"""Formulas as Python expressions of host code, written from data that holds no code."""

import math
from collections.abc import Mapping, Sequence

from service.export.extraction import NotExtractable
from workers.protocol.formula import Formula, Term, combine, is_whole, polynomial, same

_CALLS = {"min": "min", "max": "max", "float": "float", "trunc": "int"} | {
    name: f"math.{name}" for name in ("ceil", "floor", "sqrt", "log", "log2", "exp")
}
_PREFIXES = {"neg": "-", "not": "not "}


def expression(term: Term, names: Mapping[str, str]) -> str:
    """Write a formula as a Python expression.

    Args:
        term: The formula.
        names: Variable that holds each size.
    """
    text = _written(tidied(term), names)
    return text[1:-1] if _is_closed(text) else text


def tidied(term: Term) -> Term:
    """Return a formula with sums and products of whole numbers multiplied out, as people write them."""
    if not isinstance(term, Formula):
        return term
    if not is_whole(term) or term.operation not in ("+", "-", "*", "neg"):
        return Formula(term.operation, tuple(map(tidied, term.terms)))
    positive: list[Term] = []
    negative: list[Term] = []
    for factors, times in sorted(polynomial(term).items(), key=lambda each: (-len(each[0]), str(each[0]))):
        found = product(tuple(map(tidied, factors)))
        (positive if times > 0 else negative).append(combine("*", abs(times), found))
    total: Term = positive[0] if positive else 0
    for each in positive[1:]:
        total = Formula("+", (total, each))
    for each in negative:
        total = Formula("-", (total, each))
    return total


def _written(term: Term, names: Mapping[str, str]) -> str:
    if isinstance(term, str):
        return names[term]
    if not isinstance(term, Formula):
        return number(term)
    parts = [_written(each, names) for each in term.terms]
    if term.operation in ("+", "-") and parts[0].startswith("(") and _operation(term.terms[0]) in ("+", "-", "*"):
        parts[0] = parts[0][1:-1]
    if term.operation in _CALLS:
        return f"{_CALLS[term.operation]}({', '.join(each[1:-1] if _is_closed(each) else each for each in parts)})"
    if term.operation in _PREFIXES:
        return f"({_PREFIXES[term.operation]}{parts[0]})"
    return f"({parts[0]} {term.operation} {parts[1]})"


def _operation(term: Term) -> str:
    return term.operation if isinstance(term, Formula) else ""


def _is_closed(text: str) -> bool:
    """Return True if a text is wholly in one pair of brackets."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return char == ")" and at == len(text) - 1 and text[0] == "("
    return False


def listed(terms: Sequence[Term], names: Mapping[str, str]) -> str:
    """Write a tuple of formulas."""
    said = ", ".join(expression(term, names) for term in terms)
    return f"({said},)" if len(terms) == 1 else f"({said})"


def number(value: bool | int | float) -> str:
    """Write a number as a Python expression."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value!r}")'
    return repr(value)


def quotient(term: Term, divisor: int) -> Term | None:
    """Return a formula divided by a number if that leaves no remainder at any size; None otherwise."""
    if isinstance(term, int):
        return None if term % divisor else term // divisor
    if not is_whole(term) or any(times % divisor for times in polynomial(term).values()):
        return None
    if isinstance(term, Formula) and term.operation == "*":
        for at, each in enumerate(term.terms):
            part = quotient(each, divisor)
            if part is not None:
                return combine("*", part, term.terms[1 - at])
    if isinstance(term, Formula) and term.operation in ("+", "-"):
        one, other = (quotient(each, divisor) for each in term.terms)
        if one is not None and other is not None:
            return combine(term.operation, one, other)
    return combine("//", term, divisor)


def product(terms: Sequence[Term]) -> Term:
    """Return the product of some formulas."""
    found: Term = 1
    for term in terms:
        found = combine("*", found, term)
    return found


def all_same(one: Sequence[Term], other: Sequence[Term]) -> bool:
    """Return True if two lists of formulas are certainly equal at all sizes."""
    return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))


def require_divided(term: Term, divisor: int, dtype: str) -> Term:
    """Return a formula divided by a number.

    Raises:
        NotExtractable: If that leaves a remainder at some size, as far as is known.
    """
    found = quotient(term, divisor)
    if found is None:
        raise NotExtractable(f"a plan uses byte {term} of a buffer as {dtype}")
    return found
