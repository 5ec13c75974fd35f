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
        ("if x:\n    N = 1", 3),
        ("if x:\n    N: tl.constexpr = 1\nN = 2", 3),
        ("for N in range(x): pass", 2),
        ("for i in range(x):\n    max = i", 3),
        ("y = [0 for torch in ()]", 2),
        ("y = lambda torch: 0", 2),
        ("if x:\n    y = (torch := 0)", 3),
        ("N += 1", 2),
    ],
)
def test_names_of_the_module_are_bound_in_the_outermost_block_or_not_at_all(body: str, line: int):
    found = shadowed(function("def f(x):\n" + textwrap.indent(body, "    ")), MODULE, is_kernel=True)
    assert found is not None and found.lineno == line


@pytest.mark.parametrize("body", ["N = 1\nif x:\n    N = 2", "max, y = 1, 2", "for i in range(x): y = i", "iter = 3"])
def test_other_names_may_be_bound_anywhere(body: str):
    assert shadowed(function("def f(x, helper):\n" + textwrap.indent(body, "    ")), MODULE, is_kernel=True) is None


def test_parameters_hide_what_the_module_has():
    assert shadowed(function("def f(N):\n    if N:\n        N = 2"), MODULE, is_kernel=True) is None


def test_python_knows_more_names_than_the_compiler():
    hidden = function("def f(x):\n    return (lambda hash: 0)(x)")
    assert shadowed(hidden, MODULE, is_kernel=False) is not None
    assert shadowed(function("def f(x):\n    if x:\n        hash = 1"), MODULE, is_kernel=True) is None
