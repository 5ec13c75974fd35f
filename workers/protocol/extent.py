"""The extent: the size of an axis, as a number, a dimension, or a sum of products of both, such as `64*K` or `B+1`."""

import re
from collections.abc import Mapping
from math import prod
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

_FACTOR = r"(?:[A-Za-z_][A-Za-z0-9_]{0,63}|[0-9]{1,9})"


def _without_blanks(text: object) -> object:
    return re.sub(r"\s+", "", text) if isinstance(text, str) else text


def _with_a_name(text: str) -> str:
    if not names_in(text):
        raise ValueError(f"'{text}' names no dimension; write the number itself")
    return text


ExtentFormula = Annotated[
    str,
    BeforeValidator(_without_blanks),
    Field(pattern=rf"^{_FACTOR}(?:[*+]{_FACTOR})*$", max_length=256),
    AfterValidator(_with_a_name),
]
"""Text of an extent: dimensions and numbers, multiplied and added."""
Extent = ExtentFormula | Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]


def terms_of_extent(extent: str | int) -> list[list[str | int]]:
    """Return an extent as a sum of products of names and numbers."""
    if isinstance(extent, int):
        return [[extent]]
    return [[int(each) if each.isdecimal() else each for each in term.split("*")] for term in extent.split("+")]


def names_in(extent: object) -> list[str]:
    """Return the dimensions that an extent names, each once; none for a number."""
    terms = terms_of_extent(extent) if isinstance(extent, str) else []
    return list(dict.fromkeys(name for term in terms for name in term if isinstance(name, str)))


def size_of(extent: str | int, dims: Mapping[str, int]) -> int:
    """Return the size of an extent at some dimensions.

    Raises:
        KeyError: If it names another dimension.
    """
    if isinstance(extent, int) or extent in dims:
        return extent if isinstance(extent, int) else dims[extent]
    terms = [prod(dims[each] if isinstance(each, str) else each for each in term) for term in terms_of_extent(extent)]
    return terms[0] if len(terms) == 1 else sum(terms)


def solved(extent: str | int, size: int, dims: Mapping[str, int]) -> tuple[str, int] | None:
    """Return the only dimension that an extent names beyond those known, and its size; None if none fits."""
    unknown = [name for name in names_in(extent) if name not in dims]
    if len(unknown) != 1 or any(term.count(unknown[0]) > 1 for term in terms_of_extent(extent)):
        return None
    none, one = (size_of(extent, {**dims, unknown[0]: value}) for value in (0, 1))
    value, rest = divmod(size - none, one - none)
    return (unknown[0], value) if rest == 0 and value >= 1 else None
