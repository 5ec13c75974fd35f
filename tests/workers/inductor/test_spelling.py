"""Spelling: Inductor's runtime in Triton's words."""

import ast

import pytest

from workers.inductor.spelling import dotted, respell
from workers.tracer.refusal import Refused


def respelled(line: str) -> str:
    function = ast.parse(f"def kernel():\n    {line}\n    pass").body[0]
    return ast.unparse(respell(function)).splitlines()[1].strip()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a = libdevice.exp(b)", "a = tl.exp(b)"),
        ("a = tl_math.abs(b)", "a = tl.abs(b)"),
        ("a = libdevice.tanh(b)", "a = libdevice.tanh(b)"),
        ("a = triton_helpers.maximum(b, c)", "a = larger(b, c)"),
        ("a = triton_helpers.max2(b, 1)[:, None]", "a = tl.reduce(b, 1, larger)[:, None]"),
        ("a = ks0.to(tl.float32)", "a = tl.cast(ks0, tl.float32)"),
        ("a = (ks0 + 1).to(tl.int32)", "a = tl.cast(ks0 + 1, tl.int32)"),
        ("a = tmp0.to(tl.float32)", "a = tmp0.to(tl.float32)"),
        ("tl.device_assert(a, 'text')", "pass"),
    ],
)
def test_words(written, expected):
    assert respelled(written) == expected


@pytest.mark.parametrize("written", ["a = triton_helpers.frexp(b)", "a = triton_helpers.rand_eager"])
def test_what_has_no_counterpart_is_refused(written):
    with pytest.raises(Refused, match="its own runtime"):
        respelled(written)


def test_dotted_names():
    assert dotted(ast.parse("tl.math.exp", mode="eval").body) == "tl.math.exp"
    assert dotted(ast.parse("f().x", mode="eval").body) == ""
