"""Syntax that is refused in kernels, because it may differ between the compiler and the interpreter."""

import ast
import math

import pytest
import torch
import triton
from triton import language as tl
from triton.language.extra import libdevice

from workers.interpreter.allowed_syntax import is_constant, is_plain_default, require_plain, resolve
from workers.interpreter.faults import NotInterpretable

NAMESPACE = {
    "torch": torch, "triton": triton, "tl": tl, "math": math, "libdevice": libdevice, "table": {"a": 1},
    "len": lambda x: 3, "N": tl.constexpr(3), "__decide__": bool,
}  # fmt: skip

NOT_PLAIN = {
    "global N": "statement 'global'",
    "raise": "statement 'raise'",
    "raise KeyboardInterrupt()": "statement 'raise'",
    "raise ValueError() from None": "statement 'raise'",
    "raise ValueError(tl.load(x))": "statement 'raise'",
    "raise ValueError(f'{x}')": "statement 'raise'",
    "ValueError = x; raise ValueError": "statement 'raise'",
    "x = ValueError": "Python's 'ValueError'",
    "import os": "statement 'import'",
    "tl.load = 3": "assigns to a part",
    "x[0] = 3": "assigns to a part",
    "x = tl.static_range.__name__": "uses '__name__'",
    "x = __decide__(x)": "uses '__decide__'",
    "x = x.handle": "uses 'handle', which is no member that kernels may use; write tuples in place of structures",
    "x = getattr(x, 'value', 0)": "Python's 'getattr'",
    "x = hasattr(x, 'value')": "Python's 'hasattr'",
    "x = isinstance(x, tl.constexpr)": "Python's 'isinstance'",
    "x = isinstance(x, tl.tensor.dtype)": "Python's 'isinstance'",
    "x = isinstance(x, int)": "Python's 'isinstance'",
    "x = isinstance(x, (tl.tensor_descriptor, tl.tensor))": "Python's 'isinstance'",
    "x = isinstance(x, type(x))": "Python's 'isinstance'",
    "x = isinstance(tl.tensor_descriptor, x)": "Python's 'isinstance'",
    "x = isinstance": "Python's 'isinstance'",
    "x = isinstance(isinstance, tl.tensor_descriptor)": "Python's 'isinstance'",
    "tl = x; x = isinstance(x, tl.tensor_descriptor)": "Python's 'isinstance'",
    "x = list((1, 2))": "Python's 'list' outside a loop",
    "x = tuple(range(3))": "Python's 'range' outside a loop",
    "f(range)": "Python's 'range' outside a loop",
    "x = issubclass(x, tl.tensor_descriptor)": "Python's 'issubclass'",
    "x = tl.core": "'tl.core', which is host code",
    "x = tl.core.inspect.stack()": "'tl.core.inspect.stack', which is host code",
    "x = torch.is_grad_enabled()": "'torch.is_grad_enabled', which is host code",
    "x = triton.runtime.driver.active": "which is host code",
    "x = table['a']": "'table', which is host code",
    "x = len(x)": "'len', which is host code",
    "x = MODE.exec('1')": "uses 'exec'",
    "x = x.sum().append(1)": "uses 'append'",
    "x = f'{N}' == '3'": "makes a text",
    "x = '%s' % N": "makes a text",
    "x = x if 1000 is 1000 else 0": "compares with 'is'",
    "x = 0 < x < 1": "several values at once",
    "x = 1 if 0 <= x < N else 0": "several values at once",
    "for i in range(3): x += i\n    else: x = 0": "'else' after a loop",
    "while x > 0: x -= 1\n    else: x = 0": "'else' after a loop",
    "x: tl.tensor": "without a value",
    "x = [i for i in (1, 2) if i]": "more than one 'for' with one name and no condition",
    "x = [i for i, j in ((1, 2), x)]": "more than one 'for' with one name and no condition",
    "x = [i for i in (1, 2) for j in (1, 2)]": "more than one 'for' with one name and no condition",
    "x = [[j for j in (1, i)] for i in (1, 2)]": "a list in a list",
    "x = [i for i in (1, 2)] + i": "uses 'i', a list's counter",
    "i = x; x = [x + i for i in (1, 2)]": "uses 'i', a list's counter",
    "z = x; y = [z for z in (z, z)]": "uses 'z', a list's counter",
    "y = [N for N in (x, x)]": "has another meaning outside",
    "y = [i.handle for i in (x, x)]": "uses 'handle'",
    "y = (i for i in (x, x))": "'generatorexp'",
    "x = (lambda y: y)(x)": "'lambda'",
    "x = {1: 2}": "'dict'",
    "x = torch.Tensor(x)": "'torch.Tensor', which is host code",
    "x: torch.Tensor(x) = x": "'torch.Tensor', which is host code",
    "x: torch.Tensor.sum = x": "'torch.Tensor.sum', which is host code",
    "x = isinstance(x, torch.Tensor)": "Python's 'isinstance'",
    "torch = x; x: torch.Tensor = x": "uses 'Tensor'",
    "x = triton.language.core.builtins": "which is host code",
    "x = tl.core.builtins.__debug__": "uses '__debug__'",
    "x = tl.core.builtins.copyright": "'tl.core.builtins.copyright', which is host code",
    "tl.static_assert(True, tl.atomic_add(x, 1))": "in the text of an assertion",
    "x = f(tl.static_assert)": "'static_assert' without calling it",
    "if x: N = N + 3": "uses 'N' where it may not be bound yet, and the name has another meaning outside: bind it",
}

PLAIN = (
    "x = tl.load(x, mask=x < N)", "x = x.to(tl.float32).dtype.primitive_bitwidth", "x = libdevice.exp(x)",
    "x = tl.maximum(x, x, propagate_nan=tl.PropagateNan.ALL)", "x = tl.cdiv(x, triton.next_power_of_2(N))",
    "x = isinstance(x, tl.tensor)", "y, z = [i + 1 for i in (x, N)]; x = [i for i in (y, z)]",
    "x = math.sqrt(2.0) * math.pi", "x = tl.zeros((N,), torch.float32)", "y = max(x, abs(x))",
    "for i in tl.range(0, 3): x += i", "x = isinstance(x, tl.tensor_descriptor)", "x = tl.sum(x) + undefined",
    "tl.static_assert(N == 3, f'{N}')", "assert x, f'{N}'", "tl.device_print(f'{N}', x)", "x = 1 if N is None else 2",
    "x = 7 % N", "x: torch.Tensor = tl.load(x)", "for i in range(3): x += i", "x = x.type.element_ty",
    "x = tl.math.exp(x)", "raise NotImplementedError", "raise ValueError('no', 3)",
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


COMPUTED = {
    "return {1, 2}": "'set'", "return f'{x}'": "makes a text", "return x.append(1)": "uses 'append'",
    "return (lambda hash: hash)(x)": "has another meaning outside", "import os": "statement 'import'",
}  # fmt: skip


def test_what_python_runs_at_compile_time_may_say_more():
    more = ("return [y for y in x if y]", "return (lambda y, *z: y)(x)", "assert x, f'{x}'", "return pow(x, 3)")
    for body in more:
        require_plain(function(body), NAMESPACE, is_kernel=False)
    for body, said in COMPUTED.items():
        with pytest.raises(NotInterpretable, match=said):
            require_plain(function(body), NAMESPACE, is_kernel=False)


def test_parameters_of_kernels_are_plain():
    odd = ast.parse("def f(a, /, b): return b").body[0]
    assert isinstance(odd, ast.FunctionDef)
    require_plain(odd, NAMESPACE, is_kernel=False)
    with pytest.raises(NotInterpretable, match="parameters"):
        require_plain(odd, NAMESPACE)


def test_defaults_are_constants_and_functions():
    assert all(map(is_plain_default, (1, "a", None, (1, 2), tl.float32, tl.constexpr(3), tl.load)))
    assert not any(map(is_plain_default, ([], {}, object(), lambda: 0)))


def test_constants_are_numbers_and_what_holds_them():
    assert all(map(is_constant, (1, "a", None, tl.float32, (1, 2), [1], {"a": (1,)}, tl.constexpr(3), math, tl.load)))
    assert not any(map(is_constant, (object(), [object()], tl.constexpr([object()]))))


def test_names_are_resolved_through_modules():
    assert resolve(ast.parse("tl.core.load", mode="eval").body, NAMESPACE) is tl.load
    assert resolve(ast.parse("float", mode="eval").body, NAMESPACE) is float
    assert resolve(ast.parse("tl.nothing.at_all", mode="eval").body, NAMESPACE) is not None
