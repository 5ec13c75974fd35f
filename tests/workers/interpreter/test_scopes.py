"""Names that the compiler and Python bind in another way are found."""

import ast
import textwrap

import pytest

from workers.interpreter.scopes import objection_to_parameters, shadowed

MODULE = {"N", "tl", "torch", "helper"}


def function(text: str) -> ast.FunctionDef:
    made = ast.parse(textwrap.dedent(text)).body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


@pytest.mark.parametrize("parameters", ["x, /", "x, *, y", "*x", "**x"])
def test_parameters_of_kernels_are_names(parameters: str):
    assert "parameters" in objection_to_parameters(function(f"def f({parameters}): pass"))
    assert not objection_to_parameters(function("def f(x, y: tl.constexpr = 1): pass"))


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("y = N\nN = 1", 2),
        ("N = N + 1", 2),
        ("N += 1", 2),
        ("if x:\n    N = 1\ny = N", 4),
        ("if x:\n    N = 1\nelse:\n    y = N", 5),
        ("if x:\n    N = 1\nelse:\n    return\ny = N", 6),
        ("if x:\n    return\n    N = 1\nelse:\n    N = 2\ny = N", 7),
        ("if x:\n    N: tl.constexpr = 1\nelse:\n    N: tl.constexpr = 2\ny = N", 6),
        ("if N:\n    N = 1", 2),
        ("for N in range(N): pass", 2),
        ("for N in range(x): pass\ny = N", 3),
        ("for i in range(x):\n    if i > 0:\n        y = helper(x)\n    helper: tl.constexpr = torch", 4),
        ("for i in range(x):\n    N = i\ny = N", 4),
        ("while N > x:\n    N = 1", 2),
        ("for i in range(max(x, 1)):\n    max = i", 2),
        ("y: N = 1\nN = 2", 2),
        ("y = [0 for torch in ()]", 2),
        ("y = lambda torch: 0", 2),
        ("if x:\n    y = (torch := 0)", 3),
    ],
)
def test_names_of_the_module_are_not_read_before_they_are_bound(body: str, line: int):
    found = shadowed(function("def f(x):\n" + textwrap.indent(body, "    ")), MODULE, is_kernel=True)
    assert found is not None and found.lineno == line


@pytest.mark.parametrize(
    "body",
    [
        "N = 1\nif x:\n    N = N + 2",
        "max, y = 1, 2",
        "for i in range(x): y = i",
        "iter = 3",
        "if x:\n    N = 1\n    y = N",
        "if x:\n    N = 1\nN = 2\ny = N",
        "if x:\n    N = 1\nelif y:\n    N = 2\nelse:\n    N = 3\ny = N",
        "if x:\n    N: tl.constexpr = 1\n    for i in range(N): y = N",
        "for N in range(x):\n    max = N\n    y = max + N",
        "while x > 0:\n    N = 1\n    if x > N:\n        y = N\n    x -= N",
    ],
)
def test_names_may_be_bound_anywhere_before_they_are_read(body: str):
    assert shadowed(function("def f(x, helper):\n" + textwrap.indent(body, "    ")), MODULE, is_kernel=True) is None


def test_parameters_hide_what_the_module_has():
    assert shadowed(function("def f(N):\n    if N:\n        N = 2"), MODULE, is_kernel=True) is None


def test_python_knows_more_names_than_the_compiler():
    hidden = function("def f(x):\n    return (lambda hash: 0)(x)")
    assert shadowed(hidden, MODULE, is_kernel=False) is not None
    assert shadowed(function("def f(x):\n    hash += 1"), MODULE, is_kernel=False) is not None
    assert shadowed(function("def f(x):\n    hash += 1"), MODULE, is_kernel=True) is None
