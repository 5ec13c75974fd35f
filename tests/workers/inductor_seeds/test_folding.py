"""Folding: a kernel specialised for fixed numbers computes the same."""

import ast

import pytest

from workers.inductor_seeds.folding import fold


def folded(text: str, **numbers: int) -> str:
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    fold(function, numbers)
    return ast.unparse(function)


@pytest.mark.parametrize(
    "code, left",
    [
        ("x * ONE + ZERO - ZERO", "x"),
        ("ZERO + ONE * x // ONE", "x"),
        ("x * ZERO + x % ONE + ZERO // x + ZERO % x", "0"),
        ("TWO * TWO + x", "4 + x"),
        ("(ZERO < ONE) & (x < n)", "x < n"),
        ("(x < n) & (TWO >= ONE) & (ONE == ONE)", "x < n"),
        ("tl.cdiv(n, ONE) + tl.cdiv(n, TWO)", "n + tl.cdiv(n, 2)"),
        ("ZERO[:, None] + x[:, None]", "x[:, None]"),
        ("ZERO.to(tl.int32) + x.to(tl.int32)", "x.to(tl.int32)"),
        ("x - ZERO * n", "x"),
        ("ZERO - x", "0 - x"),
        ("TWO // x", "2 // x"),
    ],
)
def test_what_numbers_make_trivial_goes(code: str, left: str):
    assert folded(f"def f(x, n, ONE, ZERO, TWO):\n    y = {code}\n    g(y)", ONE=1, ZERO=0, TWO=2) in (
        f"def f(x, n):\n    y = {left}\n    g(y)",
        f"def f(x, n):\n    g({left})",
    )


def test_branches_are_taken_and_numbers_reach_what_reads_them():
    text = """
def f(x, n):
    if KIND > 1:
        a = x
    else:
        a = 0
    for turn in range(KIND):
        b = turn + a
        g(b + x)
"""
    assert folded(text.strip(), KIND=1) == "def f(x, n):\n    g(x)"
    assert folded(text.strip(), KIND=3) == (
        "def f(x, n):\n    a = x\n    for turn in range(3):\n        b = turn + a\n        g(b + x)"
    )


def test_a_branch_that_no_number_decides_is_a_mistake_of_ours():
    with pytest.raises(AssertionError, match="depends on more"):
        folded("def f(x):\n    if x > 1:\n        g(x)")
