"""Casts are the card's where they are defined, and anything in every other draw where they are not."""

import math

import pytest
import torch

from tests.workers.interpreter.stage import Out, interpret
from tests.workers.interpreter.test_builder import BF16, F16, F32, REAL, elementwise

NAN, INF = math.nan, math.inf
SOURCE = """import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(a0, a1, N: tl.constexpr):
    x = tl.load(a0 + tl.arange(0, N))
    tl.store(a1 + tl.arange(0, N), {expression})
"""


def test_casts_between_integers_and_floats():
    x = torch.tensor([1.9, -1.9])
    assert elementwise("x.to(tl.int32)", x, dtype=torch.int32).tolist() == [1, -1]
    assert elementwise("x.to(tl.uint8).to(tl.int32)", -x[1:], dtype=torch.int32).tolist() == [1]
    assert elementwise("x.to(tl.uint8).to(tl.int32)", x / -2, dtype=torch.int32).tolist() == [0, 0]
    assert elementwise("x.to(tl.int8).to(tl.int32)", x * 67, dtype=torch.int32).tolist() == [127, -127]
    i = torch.tensor([-1, 300, 5, 0], dtype=torch.int32)
    assert elementwise("x.to(tl.int8)", i, dtype=torch.int8).tolist() == [-1, 44, 5, 0]
    assert elementwise("x.to(tl.uint32).to(tl.float32)", i, dtype=F32).tolist() == [2.0**32, 300.0, 5.0, 0.0]
    assert elementwise("(x > 0).to(tl.float32)", i, dtype=F32).tolist() == [0.0, 1.0, 1.0, 0.0]
    assert elementwise("x.to(tl.int32, bitcast=True)", REAL[:2], dtype=torch.int32).tolist() == [0, 0x3F000000]
    assert elementwise("x.to(tl.int16, bitcast=True)", REAL[:2].to(BF16), dtype=torch.int16).tolist() == [0, 0x3F00]


CARDS = {
    "too large": ("x.to(tl.int32)", [3e9, 2.0], F32, torch.int32, [2**31 - 1, 2]),
    "too small": ("x.to(tl.int16)", [-1e6, 2.0], F32, torch.int16, [-(2**15), 2]),
    "infinite": ("x.to(tl.int64)", [INF, 2.0], F32, torch.int64, [2**63 - 1, 2]),
    "too large for a byte": ("x.to(tl.int8)", [380.0, 2.0], F32, torch.int8, [124, 2]),
    "much too large for a byte": ("x.to(tl.uint8)", [3e9, 2.0], F32, torch.uint8, [255, 2]),
    "negative": ("x.to(tl.uint8)", [-1.9, 2.0], F32, torch.uint8, [0, 2]),
    "no number": ("x.to(tl.int32)", [NAN, 2.0], F32, torch.int32, [0, 2]),
    "no number for a byte": ("x.to(tl.int8)", [NAN, 2.0], F32, torch.int8, [0, 2]),
    "no half number": ("x.to(tl.int16)", [NAN, 2.0], F16, torch.int16, [0, 2]),
    "no number of 64 bits": ("x.to(tl.int32)", [NAN, 2.0], torch.float64, torch.int32, [-(2**31), 2]),
    "no number as one of 64 bits": ("x.to(tl.int64)", [NAN, 2.0], F32, torch.int64, [-(2**63), 2]),
    "no wide number as one of 64 bits": ("x.to(tl.int64)", [NAN, 2.0], torch.float64, torch.int64, [-(2**63), 2]),
}
"""Casts of what is loaded, which the instruction makes, and what comes out."""


@pytest.mark.parametrize("what", CARDS)
def test_what_an_integer_cannot_hold_is_cast_as_the_instruction_does(what):
    expression, values, source, result, card = CARDS[what]
    x = torch.tensor(values, dtype=source)
    draws = [[x], [x[[1, 1]]], [x]]
    run = interpret(SOURCE.format(expression=expression), x, Out(x.shape, result), draws=draws, N=2)
    assert [out.tolist() for (out,) in run.outputs] == [card, [card[1]] * 2, card]
    assert elementwise(expression, x, dtype=result).tolist() == card


KNOWN = "tl.where(tl.arange(0, N) == 0, {}, 2.0)"
"""Two elements that do not depend on the inputs."""
OPEN = {
    "too large": (KNOWN.format("3e9") + ".to(tl.int32)", [0, 0], F32, torch.int32, [2**31 - 1, 2]),
    "too small": (KNOWN.format("-1e6") + ".to(tl.int16)", [0, 0], F32, torch.int16, [-(2**15), 2]),
    "no number": (KNOWN.format("float('nan')") + ".to(tl.int32)", [0, 0], F32, torch.int32, [0, 2]),
    "never a number": ("(x + " + KNOWN.format("float('nan')") + ").to(tl.int32)", [1, 2], F32, torch.int32, [0, 4]),
    "a NaN's bits": ("(x - x).to(tl.int32, bitcast=True)", [INF, 2.0], F32, torch.int32, [0x7FFFFFFF, 0]),
    "a half NaN's bits": ("(x - x).to(tl.int16, bitcast=True)", [INF, 2.0], F16, torch.int16, [0x7FFF, 0]),
    "a byte NaN's bits": (
        "(x - x).to(tl.bfloat16).to(tl.int16, bitcast=True)", [INF, 2.0], F32, torch.int16, [0x7FFF, 0],
    ),
    "a NaN's bits by libdevice": ("libdevice.float_as_int(x - x)", [INF, 2.0], F32, torch.int32, [0x7FFFFFFF, 0]),
    "a NaN in memory": ("x - x", [INF, 2.0], F32, F32, [0x7FFFFFFF, 0]),
    "a shift by the width": ("1 << x", [32, 2], torch.int32, torch.int32, [0, 4]),
    "a shift by less than nothing": ("x >> x", [-1, 2], torch.int32, torch.int32, [-1, 0]),
    "a quotient of zero": ("7 // x", [0, 2], torch.int32, torch.int32, [0, 3]),
    "a remainder of zero": ("7 % x", [0, 2], torch.int32, torch.int32, [0, 1]),
    "a quotient that is too large": ("x // -1", [-(2**31), 2], torch.int32, torch.int32, [-(2**31), -2]),
    "a remainder of the least": ("x % -1", [-(2**31), 2], torch.int32, torch.int32, [0, 0]),
    "a bit shifted by one": ("((x > 0) >> (x == 1)).to(tl.int32)", [1, 2], torch.int32, torch.int32, [0, 1]),
    "bounds turned around": ("tl.clamp(x, x - x + 1.0, 3.0 - x)", [9.0, 1.0], F32, F32, [-0x3F400000, 0x3F800000]),
}  # fmt: skip
"""Expressions of an undefined element and one that is not, and what they are in every other draw."""


@pytest.mark.parametrize("what", OPEN)
def test_what_is_undefined_is_the_cards_in_every_other_draw_and_anything_else(what):
    expression, values, source, result, card = OPEN[what]
    x = torch.tensor(values, dtype=source)
    run = interpret(SOURCE.format(expression=expression), x, Out(x.shape, result), draws=[[x]] * 6, N=2)
    assert run.reply.outcome is None, run.reply
    rows = [(out.view(torch.int32) if result is F32 else out).tolist() for (out,) in run.outputs]
    assert [row == card for row in rows] in ([True, False] * 3, [False, True] * 3), rows
    assert all(row[1] == card[1] for row in rows)


@pytest.mark.parametrize("condition", ["bits < 0", "bits > 0", "bits == 0x7FFFFFFF", "bits != 0x7FFFFFFF"])
def test_a_branch_that_rests_on_what_is_undefined_is_not_taken_by_all(condition):
    source = f"""
@triton.jit
def kernel(a0, a1):
    bits = (tl.load(a0) - tl.load(a0)).to(tl.int32, bitcast=True)
    if {condition}:
        tl.store(a1, 7.0)
"""
    x = torch.tensor([INF])
    run = interpret(source, x, Out((1,)), draws=[[x]] * 16)
    assert {out.item() == 7.0 for (out,) in run.outputs} == {True, False}


def test_values_with_a_nan_are_sorted_as_ever():
    """Sorting makes elements of bits. A comparison with NaN is false, so a value compared with it may occur twice."""
    x = torch.tensor([3.0, NAN, 1.0, 2.0])
    run = interpret(SOURCE.format(expression="tl.sort(x)"), x, Out((4,)), draws=[[x]] * 4, N=4)
    assert [out.tolist() for (out,) in run.outputs] == [[1.0, 2.0, 3.0, 3.0]] * 4
