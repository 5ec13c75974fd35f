import ast

import pytest

from service.emitters.rules.patterns import statements, text
from service.emitters.rules.straight import (
    is_reduction,
    needed,
    straight_lines,
    target,
    without_dead,
    without_repeats,
)
from tests.service.emitters.samples import candidate, function_of


def straight(code):
    lines = straight_lines(statements(code), function_of(candidate(code)))
    return lines if lines is None else [text(line) for line in lines]


def test_every_name_is_assigned_once():
    assert straight("x = a\nx = x - b\nx += x\ntl.store(p, x)") == [
        "x = a",
        "x_1 = x - b",
        "x_2 = x_1 + x_1",
        "tl.store(p, x_2)",
    ]


def test_names_from_outside_stay():
    assert straight("y = x_ptr\nx_ptr = y") == ["y = x_ptr", "x_ptr = y"]


def test_reductions_get_lines_of_their_own():
    code = "y = x / tl.sum(tl.exp(x - tl.max(x, axis=0)), axis=0)\nm = tl.max(y)"
    assert straight(code) == [
        "peak = tl.max(x, axis=0)",
        "total = tl.sum(tl.exp(x - peak), axis=0)",
        "y = x / total",
        "m = tl.max(y)",
    ]


@pytest.mark.parametrize("code", ["if a:\n    b = 1", "for i in range(3):\n    a = i", "a, b = c", "f(a)", "a.b = 1"])
def test_other_statements_are_not_straight(code):
    assert straight(code) is None


def test_what_lines_depend_on():
    lines = statements("a = p\nb = a\nc = q\nd = b\ntl.store(p, d)")
    assert [target(line) for line in needed(lines, lines[-1:])] == ["a", "b", "d"]
    assert [target(line) for line in without_dead(lines)] == ["a", "b", "d", ""]


def test_repeats_go():
    lines = statements("a = tl.load(p)\nb = tl.load(p)\nc = b\nd = c + a\ntl.store(p, d + b)")
    assert [text(line) for line in without_repeats(lines)] == ["a = tl.load(p)", "d = a + a", "tl.store(p, d + a)"]


def test_reductions():
    first, second = statements("a = tl.sum(x)\nb = 1 + tl.sum(x)")
    assert is_reduction(first)
    assert not is_reduction(second)
    assert target(ast.Pass()) == ""
