"""What a kernel may not say, because it could mean something else to the compiler than to the interpreter."""

import ast
import math

import pytest
import torch
import triton
from triton import language as tl
from triton.language.extra import libdevice

from workers.interpreter.faults import NotInterpretable
from workers.interpreter.plainness import is_constant, require_plain, resolve

NAMESPACE = {
    "torch": torch, "triton": triton, "tl": tl, "math": math, "libdevice": libdevice, "table": {"a": 1},
    "len": lambda x: 3, "N": tl.constexpr(3), "__decide__": bool,
}  # fmt: skip

NOT_PLAIN = {
    "global N": "statement 'global'",
    "import os": "statement 'import'",
    "tl.load = 3": "assigns to a part",
    "x[0] = 3": "assigns to a part",
    "x = tl.static_range.__name__": "uses '__name__'",
    "x = __decide__(x)": "uses '__decide__'",
    "x = x.handle": "uses 'handle'",
    "x = getattr(x, 'value', 0)": "Python's 'getattr'",
    "x = hasattr(x, 'value')": "Python's 'hasattr'",
    "x = isinstance(x, tl.constexpr)": "Python's 'isinstance'",
    "x = isinstance(x, tl.tensor)": "Python's 'isinstance'",
    "x = isinstance(x, (tl.tensor_descriptor, tl.tensor))": "Python's 'isinstance'",
    "x = isinstance(x, type(x))": "Python's 'isinstance'",
    "x = isinstance(tl.tensor_descriptor, x)": "Python's 'isinstance'",
    "x = isinstance": "Python's 'isinstance'",
    "x = isinstance(isinstance, tl.tensor_descriptor)": "Python's 'isinstance'",
    "tl = x; x = isinstance(x, tl.tensor_descriptor)": "Python's 'isinstance'",
    "x = issubclass(x, tl.tensor_descriptor)": "Python's 'issubclass'",
    "x = tl.core": "'tl.core', which is host code",
    "x = tl.core.inspect.stack()": "'tl.core.inspect.stack', which is host code",
    "x = torch.is_grad_enabled()": "'torch.is_grad_enabled', which is host code",
    "x = triton.runtime.driver.active": "which is host code",
    "x = table['a']": "'table', which is host code",
    "x = len(x)": "'len', which is host code",
}

PLAIN = (
    "x = tl.load(x, mask=x < N)", "x = x.to(tl.float32).dtype.primitive_bitwidth", "x = libdevice.exp(x)",
    "x = tl.maximum(x, x, propagate_nan=tl.PropagateNan.ALL)", "x = tl.cdiv(x, triton.next_power_of_2(N))",
    "x = math.sqrt(2.0) * math.pi", "x = tl.zeros((N,), torch.float32)", "y = max(x, abs(x))",
    "for i in tl.range(0, 3): x += i", "x = isinstance(x, tl.tensor_descriptor)", "x = tl.sum(x) + undefined",
)  # fmt: skip


def function(body: str) -> ast.FunctionDef:
    made = ast.parse(f"def f(x):\n    {body}\n").body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


@pytest.mark.parametrize("body", NOT_PLAIN)
def test_what_tells_by_whom_it_is_read_is_refused_with_its_line(body: str):
    with pytest.raises(NotInterpretable) as stopped:
        require_plain(function(body), NAMESPACE)
    assert NOT_PLAIN[body] in stopped.value.reason and stopped.value.line == 2


@pytest.mark.parametrize("body", PLAIN)
def test_what_only_calculates_is_plain(body: str):
    require_plain(function(body), NAMESPACE)
    assert compile(ast.Module([function(body)], []), "f", "exec")


def test_constants_are_numbers_and_what_holds_them():
    assert all(map(is_constant, (1, "a", None, tl.float32, (1, 2), [1], {"a": (1,)}, tl.constexpr(3), math, tl.load)))
    assert not any(map(is_constant, (object(), [object()], tl.constexpr([object()]))))


def test_names_are_resolved_through_modules():
    assert resolve(ast.parse("tl.core.load", mode="eval").body, NAMESPACE) is tl.load
    assert resolve(ast.parse("float", mode="eval").body, NAMESPACE) is float
    assert resolve(ast.parse("tl.nothing.at_all", mode="eval").body, NAMESPACE) is not None
