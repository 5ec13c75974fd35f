"""Formulas as Python: the text has the value of the formula, and names are the given ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.export.extraction import NotExtractable
from service.export.formulas import all_same, expression, listed, number, product, quotient, require_divided
from tests.workers.protocol.test_formula import whole
from workers.protocol.formula import FormulaInvalid, evaluate, parse

NAMES = {"M": "rows", "N": "N_"}
FLOATS = (["/", 1.0, ["sqrt", "N"]], ["**", ["float", "N"], -0.5], ["neg", ["log", "M"]], ["trunc", ["*", "N", 0.5]])
GUARDS = (["and", ["<", "M", 3], ["not", ["==", "N", 4]]], ["or", ["!=", "M", 2], [">=", ["min", "M", "N"], 9]])


def value(text: str, m: int, n: int) -> object:
    return eval(text, {"math": math}, {"rows": m, "N_": n})


@given(whole(), st.integers(1, 40), st.integers(1, 300))
def test_the_text_has_the_value_of_the_formula(text: object, m: int, n: int) -> None:
    term = parse(text)
    try:
        wanted = evaluate(term, {"M": m, "N": n})
    except FormulaInvalid:
        return
    assert value(expression(term, NAMES), m, n) == wanted
    divided = quotient(term, 4)
    if divided is not None:
        assert wanted % 4 == 0 and evaluate(divided, {"M": m, "N": n}) == wanted // 4


@pytest.mark.parametrize("text", [*FLOATS, *GUARDS], ids=str)
def test_floats_and_guards_are_written_too(text: object) -> None:
    for m, n in ((1, 1), (2, 4), (17, 300), (3, 9)):
        assert value(expression(parse(text), NAMES), m, n) == evaluate(parse(text), {"M": m, "N": n})


def test_tuples_products_and_quotients() -> None:
    assert listed((parse(["+", "M", 1]),), NAMES) == "(rows + 1,)" and listed((1, "N"), NAMES) == "(1, N_)"
    assert value(expression(product((2, "M", "N")), NAMES), 3, 5) == 30
    assert quotient(parse(["*", ["*", "M", "N"], 2]), 2) == parse(["*", "M", "N"])
    assert quotient(parse(["*", "M", "N"]), 2) is None and quotient(6, 4) is None and quotient(8, 4) == 2
    assert all_same((parse(["*", "M", "N"]), 3), (parse(["*", "N", "M"]), 3)) and not all_same((1,), (1, 1))
    with pytest.raises(NotExtractable, match="as bfloat16"):
        require_divided(parse(["*", "M", 3]), 2, "bfloat16")


def test_numbers_are_written_as_python_reads_them() -> None:
    for given_ in (True, 3, -2.5, 1e-30):
        assert eval(number(given_)) == given_
    assert number(float("-inf")) == 'float("-inf")' and number(float("nan")) == 'float("nan")'
