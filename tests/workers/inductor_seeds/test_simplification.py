"""Simplification keeps a kernel's results and drops needless code."""

import ast
import textwrap

import pytest

from workers.inductor_seeds.simplification import blocks, bound, simplify


def tidied(body: str) -> str:
    function = ast.parse("def kernel(p, q, n):\n" + textwrap.indent(textwrap.dedent(body), "    ")).body[0]
    simplify(function)
    return "\n".join(line[4:] for line in ast.unparse(function).splitlines()[1:])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = n\nunread = n + 1\ntl.store(p + a, 1)", "tl.store(p + n, 1)"),
        (
            "a = tl.load(p).to(tl.float32)\nb = a.to(tl.float32)\ntl.store(q, b * b)",
            "a = tl.load(p).to(tl.float32)\ntl.store(q, a * a)",
        ),
        (
            "a = tl.load(p)\nb = tl.full([1, 1], 0.5, tl.float32)\ntl.store(q, a * b)",
            "a = tl.load(p)\ntl.store(q, a * 0.5)",
        ),
    ],
)
def test_needless_lines_go(body, expected):
    assert tidied(body) == expected


def test_a_full_that_gives_a_shape_stays():
    body = "a = tl.full([1, 1], 0, tl.int32)\ntl.store(q + a, 1.0)\ntl.store(a, 1.0)"
    assert "tl.full" in tidied(body)


def test_copies_in_loops_are_followed():
    body = "for s in tl.range(0, n):\n    i = s + 1\n    j = i\n    tl.store(q + j, i)\n" * 2
    assert "j" not in tidied(body)


def test_a_value_does_not_move_over_what_changes_it():
    body = "t = 0\nfor s in tl.range(0, n):\n    a = t + 1\n    t = a * 2\n    tl.store(q, a)\ntl.store(p, t)"
    assert "a = t + 1" in tidied(body)


def test_a_load_keeps_its_line():
    assert tidied("a = tl.load(p)\ntl.store(q, a)") == "a = tl.load(p)\ntl.store(q, a)"


def test_blocks_and_what_lines_bind():
    function = ast.parse("def f():\n    a = 1\n    for i in range(3):\n        b: int = 2\n    c += 1").body[0]
    assert [[bound(line) for line in body] for body in blocks(function)] == [["a", "", ""], ["b"]]
