"""Numbers of a kernel's expressions, equal in every tree of one text."""

import ast

import pytest
from triton import language as tl

from workers.interpreter.expression_ids import LOOP, SITE, bound_in, number

CASES = {
    "x = p + n * 2": ["p + n * 2", "n * 2"],
    "x = -1": [],
    "x = p.dtype\n    y = tl.float32": ["p.dtype"],
    "tl.static_assert(n > 1, 'a')\n    print(n + 1)": [],
    "tl.store(p, n)": [],
    "x = tl.load(p)[:, None]": ["tl.load(p)[:, None]", "tl.load(p)"],
    "x: tl.constexpr = 2\n    y = x": ["x"],
    "for i in range(n + 1):\n        x = i": ["n + 1", "i"],
    "x = n\n    x += 1\n    y = x": ["x", "x"],
    "if n:\n        x = p\n    else:\n        x = n\n    y = (x, p)": ["x"],
    "while n > 1:\n        p = tl.load(p)": ["n > 1", "tl.load(p)", "p"],
}


def function(body: str) -> ast.FunctionDef:
    (made,) = ast.parse(f"def kernel(p, n):\n    {body}\n").body
    assert isinstance(made, ast.FunctionDef)
    number(made, {"tl": tl})
    return made


def sites(tree: ast.AST) -> dict[int, str]:
    return {getattr(node, SITE): ast.unparse(node) for node in ast.walk(tree) if hasattr(node, SITE)}


@pytest.mark.parametrize("body", CASES)
def test_what_is_computed_is_numbered(body: str) -> None:
    made = sites(function(body))
    assert sorted(made.values()) == sorted(CASES[body])
    assert made == sites(function(body))


def test_loops_are_numbered_and_know_what_they_bind() -> None:
    loops = [
        node
        for node in ast.walk(function("for i in range(n):\n        a, b = p\n        while a:\n            c = n"))
        if hasattr(node, LOOP)
    ]
    assert [bound_in(loop) for loop in loops] == [["a", "b", "c"], ["c"]]
    assert len({getattr(loop, LOOP) for loop in loops}) == 2
