"""A global is renamed where all its places are known, and nowhere else."""

import ast

import pytest

from service.operators.renaming import rename_global

SAFE = {
    "a constant": ("A = 1\nB = A + f(A=A)\n", "new = 1\nB = new + f(A=new)\n"),
    "a function": ("@g\ndef A(x):\n    return x\n\nB = A(x.A)\n", "@g\ndef new(x):\n    return x\n\nB = new(x.A)\n"),
    "a class": ("class A(B):\n    c: A\n", "class new(B):\n    c: new\n"),
    "an import": (
        "import A\nimport b.c as A\nfrom d import A\n",
        "import A as new\nimport b.c as new\nfrom d import A as new\n",
    ),
    "letters of several bytes": ("B = 'é' + A + A  # é A\n", "B = 'é' + new + new  # é A\n"),
}  # fmt: skip


@pytest.mark.parametrize("what", SAFE)
def test_all_places_of_a_global_are_renamed(what):
    before, after = SAFE[what]
    lines = before.split("\n")
    for line, start, end, text in sorted(rename_global(ast.parse(before), lines, "A", "new") or [], reverse=True):
        changed = lines[line - 1].encode()
        lines[line - 1] = (changed[:start] + text.encode() + changed[end:]).decode()
    assert "\n".join(lines) == after


UNSAFE = {
    "a parameter": "A = 1\ndef f(A):\n    return A\n",
    "a local": "A = 1\ndef f():\n    A = 2\n    return A\n",
    "a comprehension": "A = 1\nB = [A for A in range(3)]\n",
    "a method": "A = 1\nclass B:\n    def A(self):\n        return A\n",
    "an inner import": "A = 1\ndef f():\n    import A\n",
    "global": "A = 1\ndef f():\n    global A\n    A = 2\n",
    "a look-up": "A = 1\nB = globals()['A']\n",
    "a caught error": "try:\n    f()\nexcept E as A:\n    pass\n",
    "a matched value": "match f():\n    case [A, *_]:\n        pass\n",
    "part of a package": "import A.b\nB = A.b.c\n",
}


@pytest.mark.parametrize("what", UNSAFE)
def test_a_name_that_may_mean_something_else_is_left_alone(what):
    text = UNSAFE[what]
    assert rename_global(ast.parse(text), text.split("\n"), "A", "new") is None


def test_a_name_that_is_not_there_has_no_places():
    assert rename_global(ast.parse("A = 1\n"), ["A = 1"], "unused", "new") == []


def test_imports_that_the_caller_replaces_are_left():
    tree = ast.parse("from .a import A\nB = A\n")
    assert rename_global(tree, ["from .a import A", "B = A"], "A", "new", tree.body[:1]) == [(2, 4, 5, "new")]
