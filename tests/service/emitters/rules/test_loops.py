import ast

import pytest

from service.emitters.rules.loops import exposed, fold_of, start_line, starts_empty, sweep
from service.emitters.rules.patterns import statements, text


@pytest.mark.parametrize("head", ["range(0, n, B)", "tl.range(0, n, B)", "tl.range(0, n, B, num_stages=3)"])
def test_a_sweep(head):
    found = sweep(statements(f"for i in {head}:\n    pass")[0])
    assert (found.variable, found.extent, found.step) == ("i", "n", "B")


@pytest.mark.parametrize(
    "line",
    [
        "for i in range(n): pass",
        "for i in range(4, n, B): pass",
        "for i in items: pass",
        "for i, j in range(0, n, B): pass",
        "for i in range(0, n, B): pass\nelse: pass",
        "while x: pass",
    ],
)
def test_no_sweep(line):
    assert sweep(statements(line)[0]) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a = a + x * x", ("a", "tl.sum", "x * x")),
        ("a += tl.sum(x)", ("a", "tl.sum", "tl.sum(x)")),
        ("a = tl.maximum(a, x)", ("a", "tl.max", "x")),
        ("a = tl.minimum(a, tl.min(x))", ("a", "tl.min", "tl.min(x)")),
    ],
)
def test_a_fold(line, expected):
    found = fold_of(statements(line)[0])
    assert (found.name, found.function, text(found.value)) == expected


@pytest.mark.parametrize(
    "line", ["a = x + a", "a = b + x", "a += a", "a -= x", "a = a * x", "a = tl.maximum(a, x, propagate_nan=y)", "f(a)"]
)
def test_no_fold(line):
    assert fold_of(statements(line)[0]) is None


@pytest.mark.parametrize(
    ("start", "line", "empty"),
    [
        ("a = 0.0", "a += x", True),
        ("a = tl.zeros([B], tl.float32)", "a += x", True),
        ("a = tl.full([B], 0.0, tl.float32)", "a += x", True),
        ("a = 1.0", "a += x", False),
        ("a = -float('inf')", "a = tl.maximum(a, x)", True),
        ("a = float('-inf')", "a = tl.maximum(a, x)", True),
        ("a = tl.zeros([B], tl.float32)", "a = tl.maximum(a, x)", False),
        ("a = float('inf')", "a = tl.minimum(a, x)", True),
        ("a = -1e30", "a = tl.maximum(a, x)", False),
        ("b = 0.0", "a += x", False),
    ],
)
def test_a_fold_that_starts_from_nothing(start, line, empty):
    assert starts_empty(fold_of(statements(line)[0]), statements(start)) is empty


def test_the_last_start_counts():
    lines = statements("a = 0.0\na = 1.0")
    assert start_line("a", lines) is lines[1]
    assert start_line("b", lines) is None


def test_names_that_lines_expect():
    lines = statements("a = p\nfor i in range(n):\n    b = a + c\n    c = b\nif q:\n    d = 1\ne = d + a + i")
    assert exposed(lines) == {"p", "n", "range", "c", "q", "d"}
    assert isinstance(lines[1], ast.For)
