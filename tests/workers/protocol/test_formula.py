"""Formulas: hostile text is refused, values are Python's, and what is said of all sizes holds at each of them."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.protocol.formula import (
    MAX_DEPTH,
    Formula,
    FormulaInvalid,
    bounds,
    combine,
    decided,
    evaluate,
    negated,
    parse,
    same,
    sizes_of,
    written,
)

RANGES = {"M": (1, 40), "N": (1, 300)}
INTEGERS = ("+", "-", "*", "//", "%", "min", "max")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def whole() -> st.SearchStrategy:
    leaves = st.one_of(st.sampled_from(sorted(RANGES)), st.integers(-20, 200))
    return st.recursive(
        leaves,
        lambda terms: st.builds(lambda op, a, b: [op, a, b], st.sampled_from(INTEGERS), terms, terms),
        max_leaves=8,
    )


def value(text: object, sizes: dict[str, int]) -> int | None:
    """What Python computes for a formula, by its own operators; None for a division by zero."""
    if isinstance(text, str):
        return sizes[text]
    if isinstance(text, int):
        return text
    one, other = (value(each, sizes) for each in text[1:])
    if one is None or other is None or (text[0] in ("//", "%") and other == 0):
        return None
    named = {"min": min(one, other), "max": max(one, other)}
    return named[text[0]] if text[0] in named else eval(f"{one} {text[0]} {other}")


@given(whole(), st.integers(1, 40), st.integers(1, 300))
def test_a_value_is_pythons_and_lies_within_the_bounds(text: object, m: int, n: int) -> None:
    sizes = {"M": m, "N": n}
    expected = value(text, sizes)
    term = parse(text)
    if expected is None:
        with pytest.raises(FormulaInvalid):
            evaluate(term, sizes)
        return
    assert evaluate(term, sizes) == expected
    low, high = bounds(term, RANGES)
    assert low <= expected <= high


@given(st.sampled_from(COMPARISONS), whole(), whole(), st.integers(1, 40), st.integers(1, 300))
def test_what_is_decided_for_all_sizes_holds_at_each(
    operation: str, one: object, other: object, m: int, n: int
) -> None:
    guard = parse([operation, one, other])
    known, sizes = decided(guard, RANGES), {"M": m, "N": n}
    try:
        holds = evaluate(guard, sizes)
    except FormulaInvalid:
        return
    assert evaluate(negated(guard), sizes) is not holds
    assert known in (None, holds)


@given(whole(), whole(), st.integers(1, 40), st.integers(1, 300))
def test_combining_and_the_wire_keep_the_value(one: object, other: object, m: int, n: int) -> None:
    sizes = {"M": m, "N": n}
    for operation in INTEGERS:
        plain = parse([operation, one, other])
        try:
            expected = evaluate(plain, sizes)
        except FormulaInvalid:
            continue
        made = combine(operation, parse(one), parse(other))
        assert evaluate(made, sizes) == expected == evaluate(parse(json.loads(json.dumps(written(made)))), sizes)
        assert not same(made, combine("+", plain, 1)) and same(plain, plain)


def test_sums_and_products_are_the_same_in_any_order() -> None:
    assert same(parse(["*", ["*", "M", "N"], 2]), parse(["*", 2, ["*", "N", "M"]]))
    assert same(parse(["-", ["*", ["+", "M", 1], "N"], "N"]), parse(["*", "N", "M"]))
    assert not same(parse(["//", ["*", "M", 2], 2]), parse(["*", "M", 2]))
    assert not same(parse(["+", ["+", ["sqrt", "M"], 1], 2]), parse(["+", ["sqrt", "M"], 3])), "floats do not commute"
    assert combine("+", combine("+", parse(["sqrt", "M"]), 1), 2) != combine("+", parse(["sqrt", "M"]), 3)


def test_floats_are_computed_as_host_code_does() -> None:
    for size in random.Random(3).sample(range(1, 1 << 20), 50):
        assert evaluate(parse(["/", 1.0, ["sqrt", "N"]]), {"N": size}) == 1.0 / size**0.5
        assert evaluate(parse(["**", "N", -0.5]), {"N": size}) == size**-0.5
    assert sizes_of(parse(["/", 1.0, ["sqrt", "N"]])) == {"N"}


NESTED: list[object] = ["+", "N", 1]
for _ in range(MAX_DEPTH):
    NESTED = ["+", NESTED, 1]
WIDE: list[object] = ["+", "N", 1]
for _ in range(9):
    WIDE = ["+", WIDE, WIDE]


@pytest.mark.parametrize(
    "hostile",
    [
        None, [], {}, "", "a b", "__import__('os')", "N" * 65, "ñ", ["eval", "N"], ["+", "N"], ["+", "N", 1, 2],
        ["+", ["N"], 1],
        [["+"], 1, 2], float("nan"), float("inf"), 2**63, NESTED, WIDE, ["lambda", "N", 1], [True, 1, 2],
    ],
)  # fmt: skip
def test_hostile_data_is_refused(hostile: object) -> None:
    with pytest.raises(FormulaInvalid):
        parse(hostile)


@pytest.mark.parametrize(
    "endless",
    [["**", "N", 65], ["**", ["**", "N", 60], 60], ["//", "N", 0], ["%", "N", 0], ["exp", "N"], ["*", 2**62, "N"]],
)
def test_a_formula_without_a_value_says_so(endless: object) -> None:
    with pytest.raises(FormulaInvalid):
        evaluate(parse(endless), {"N": 2**20})
    with pytest.raises(FormulaInvalid, match="no size 'K'"):
        evaluate(Formula("+", ("K", 1)), {"N": 1})
