"""The axes of values, by how they are made."""

import ast

import pytest

from workers.inductor_seeds.axes import Axes, KnownValues, is_call, is_cast, receiver
from workers.inductor_seeds.indexing import UnclearError


def axes(code: str) -> str:
    """Of an expression over the masks and the parameter `p`, in the order of the alphabet."""
    function = ast.parse("def f(p): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return "".join(sorted(KnownValues(function).axes(ast.parse(code, mode="eval").body)))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1.5 * p", ""),
        ("ymask & zmask", "y"),
        ("tl.where(xmask, p, tl.exp(-ymask))", "xy"),
        ("(r0_mask > 0).to(tl.int32)", "r"),
        ("tl.load(p, xmask & r0_mask, other=0.0)", "rx"),
        ("tl.full([1, 1, 1], 2.0, tl.float32)", ""),
        ("tl.full([YBLOCK, XBLOCK], 0, tl.float32)[:, :, None]", "xy"),
        ("tl.dot(tl.reshape(ymask & r0_mask, [YBLOCK, R0_BLOCK]), tl.trans(xmask & r0_mask))", "xy"),
    ],
)
def test_axes(code, expected):
    assert axes(code) == expected


@pytest.mark.parametrize(
    "code", ["tl.sum(ymask, 0)", "other", "tl.reshape(ymask, [YBLOCK, XBLOCK])", "ymask[:, None]", "[1]"]
)
def test_what_is_not_known_is_unclear(code):
    with pytest.raises(UnclearError):
        axes(code)


def test_calls_and_casts():
    cast = ast.parse("tl.exp(a).to(tl.float32)", mode="eval").body
    assert is_cast(cast) and is_call(receiver(cast), "tl.exp") and not is_call(cast, "tl.exp")
    assert Axes("ab") == frozenset("ba")
