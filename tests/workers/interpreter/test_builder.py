"""Instructions, held against torch where torch computes the same."""

import math

import numpy as np
import pytest
import torch

from tests.workers.interpreter.stage import Out, interpret
from workers.interpreter.builder import FUNCTIONS_OF_ONE, SPECIAL

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def elementwise(expression: str, *inputs: torch.Tensor, dtype: torch.dtype | None = None, imports: str = "", **extra):
    """`expression` over elements named x, y, z."""
    count = inputs[0].numel()
    names = "xyz"[: len(inputs)]
    loads = "\n".join(f"    {name} = tl.load(a{index} + i)" for index, name in enumerate(names))
    parameters = ", ".join(f"a{index}" for index in range(len(inputs) + 1))
    source = (
        f"import triton\nimport triton.language as tl\n{imports}\n\n@triton.jit\n"
        f"def kernel({parameters}, N: tl.constexpr):\n    i = tl.arange(0, N)\n{loads}\n"
        f"    tl.store(a{len(inputs)} + i, {expression})\n"
    )
    out = Out((count,), dtype or inputs[0].dtype)
    run = interpret(source, *inputs, out, N=count, **extra)
    assert run.reply.outcome is None, (expression, run.reply)
    return run.only


REAL = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.25, 3.0, 7.5, 0.125])
SIGNED = torch.tensor([-3.5, -2.0, -0.5, 0.0, 0.5, 1.25, 2.5, 3.0])

UNARY = {
    "tl.exp(x)": torch.exp,
    "tl.exp2(x)": torch.exp2,
    "tl.log(x)": torch.log,
    "tl.log2(x)": torch.log2,
    "tl.sqrt(x)": torch.sqrt,
    "tl.sqrt_rn(x)": torch.sqrt,
    "tl.rsqrt(x)": torch.rsqrt,
    "tl.sin(x)": torch.sin,
    "tl.cos(x)": torch.cos,
    "tl.erf(x)": torch.erf,
    "tl.sigmoid(x)": torch.sigmoid,
    "tl.abs(x)": torch.abs,
    "tl.floor(x)": torch.floor,
    "tl.ceil(x)": torch.ceil,
    "-x": torch.neg,
    "1.0 / x": torch.reciprocal,
    "tl.softmax(x)": lambda x: torch.softmax(x, -1),
    "tl.where(x > 1, x, 2 * x)": lambda x: torch.where(x > 1, x, 2 * x),
    "tl.clamp(x, -1.0, 1.0)": lambda x: x.clamp(-1, 1),
    "tl.fma(x, x, 1.0)": lambda x: x * x + 1,
    "x if N > 4 else -x": lambda x: x,
    "min(x, 1.0) + max(x, 0.5)": lambda x: x.clamp(max=1) + x.clamp(min=0.5),
}


@pytest.mark.parametrize("expression", UNARY)
def test_functions_of_one_operand(expression):
    values = SIGNED if expression[0] in "-m" or "abs" in expression or "floor" in expression else REAL
    torch.testing.assert_close(elementwise(expression, values), UNARY[expression](values), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_narrow_floats_round_after_every_operation(dtype):
    torch.manual_seed(2)
    x, y, z = (torch.randn(256).to(dtype) for _ in range(3))
    assert torch.equal(elementwise("x * y + z", x, y, z), x * y + z)
    assert torch.equal(elementwise("x + y - z", x, y, z), x + y - z)


@pytest.mark.parametrize("dtype", [BF16, F16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_stores_round_to_nearest_even(dtype):
    torch.manual_seed(3)
    x = torch.cat([torch.randn(1000) * 10 ** torch.linspace(-9, 1.5, 1000), torch.tensor([math.inf, -0.0, 1e-41] * 8)])
    got = elementwise("x", x, dtype=dtype).float()
    expected = x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max) if dtype.itemsize == 1 else x
    assert torch.equal(got, expected.to(dtype).float())


def test_a_cast_can_round_toward_zero():
    x = torch.tensor([1.0 + 2**-8 + 2**-9, -(1.0 + 2**-8 + 2**-9), 3.0, 1e-3])
    got = elementwise("x.to(tl.bfloat16, fp_downcast_rounding='rtz')", x, dtype=BF16)
    assert torch.equal(got.view(torch.int16), (x.view(torch.int32) >> 16).to(torch.int16))
    half = elementwise("x.to(tl.float16, fp_downcast_rounding='rtz')", x, dtype=F16).float()
    assert (half.abs() <= x.abs()).all()
    torch.testing.assert_close(half, x, rtol=2e-3, atol=0)


def test_nan_passes_only_where_the_instruction_lets_it():
    x, y = torch.tensor([math.nan, 1.0]), torch.tensor([2.0, math.nan])
    assert elementwise("tl.maximum(x, y)", x, y).tolist() == [2.0, 1.0]
    assert elementwise("tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)", x, y).isnan().all()
    assert elementwise("tl.clamp(x, 0.0, 5.0)", x, y)[0] == 0.0
    assert elementwise("tl.clamp(x, 0.0, 5.0, propagate_nan=tl.PropagateNan.ALL)", x, y)[0].isnan()


INTEGERS = {
    "x + y": lambda x, y: x + y,
    "x * y": lambda x, y: x * y,
    "x // y": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "x % y": torch.fmod,
    "x & y": torch.bitwise_and,
    "x | y": torch.bitwise_or,
    "x ^ y": torch.bitwise_xor,
    "x << 3": lambda x, y: x << 3,
    "x >> 1": lambda x, y: x >> 1,
    "tl.minimum(x, y)": torch.minimum,
    "tl.umulhi(x, y)": lambda x, y: ((x.long() & 0xFFFFFFFF) * (y.long() & 0xFFFFFFFF) >> 32).int(),
    "(x < y).to(tl.int32) + (x != y)": lambda x, y: (x < y).int() + (x != y).int(),
    "(~x)": lambda x, y: ~x,
    "tl.cdiv(x, 3)": lambda x, y: torch.div(x + 2, 3, rounding_mode="trunc"),
}


@pytest.mark.parametrize("expression", INTEGERS)
def test_integers_follow_c(expression):
    x = torch.tensor([7, -7, 2**31 - 1, -5], dtype=torch.int32)
    y = torch.tensor([2, 2, 1, -3], dtype=torch.int32)
    assert torch.equal(elementwise(expression, x, y), INTEGERS[expression](x, y))


def test_wide_products_keep_their_upper_half():
    x = torch.tensor([2**62 + 12345, 2**40 + 7, 3, 2**63 - 1], dtype=torch.int64)
    expected = [(value * value) >> 64 for value in x.tolist()]
    assert elementwise("tl.umulhi(x, x)", x).tolist() == expected


def test_booleans_are_bytes_in_memory():
    flags = torch.tensor([True, False, True, True])
    assert elementwise("x & (tl.arange(0, 4) > 1)", flags).tolist() == [False, False, True, True]


def test_arithmetic_of_booleans_wraps():
    x, y = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    for expression, expected in {"x + y": x ^ y, "x - y": x ^ y, "x * y": x & y}.items():
        assert torch.equal(elementwise(expression, x, y), expected), expression
    assert elementwise("tl.sum(x, 0, dtype=tl.int1) | (tl.arange(0, 4) < 0)", x).tolist() == [False] * 4
    assert elementwise("tl.cumsum(x, 0, dtype=tl.int1)", x).tolist() == [True, False, False, False]


SHAPES = """
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 8)
    x = tl.load(a0 + i)
    {body}
    tl.store(a1 + tl.arange(0, {size}), {result})
"""
X = torch.arange(8.0)


@pytest.mark.parametrize(
    ("body", "result", "expected"),
    [
        ("y = tl.reshape(x, (2, 4))", "tl.reshape(tl.trans(y), (8,))", X.view(2, 4).T.reshape(-1)),
        ("y = tl.reshape(x, (2, 4)).T", "tl.ravel(y)", X.view(2, 4).T.reshape(-1)),
        (
            "y = tl.reshape(x, (2, 2, 2))",
            "tl.ravel(tl.permute(y, (2, 0, 1)))",
            X.view(2, 2, 2).permute(2, 0, 1).ravel(),
        ),
        ("y = x[None, :] + x[:, None]", "tl.ravel(y)", (X + X[:, None]).ravel()),
        ("y = tl.join(x, -x)", "tl.ravel(y)", torch.stack([X, -X], 1).ravel()),
        ("a, b = tl.split(tl.reshape(x, (4, 2)))", "a - b", -torch.ones(4)),
        ("y = tl.sort(tl.cat(x, x, can_reorder=True))", "y", torch.cat([X, X]).sort().values),
        ("y = tl.interleave(x, -x)", "y", torch.stack([X, -X], 1).ravel()),
        ("y = tl.flip(x, 0)", "y", X.flip(0)),
        ("y = tl.broadcast_to(tl.expand_dims(x, 0), (2, 8))", "tl.ravel(y)", X.repeat(2)),
        ("y = tl.full((8,), 2.5, tl.float32) + tl.zeros_like(x)", "y", torch.full((8,), 2.5)),
        ("y = tl.gather(x, 7 - i, 0)", "y", X.flip(0)),
        ("y = tl.histogram((x / 3).to(tl.int32), 4)", "y.to(tl.float32)", torch.tensor([3.0, 3.0, 2.0, 0.0])),
        ("y = x\n    y += 1\n    y *= 2", "y", (X + 1) * 2),
        ("a, b = x + 1, 2.0", "a * b", (X + 1) * 2),
    ],
)
def test_shapes(body, result, expected):
    source = SHAPES.format(body=body, result=result, size=expected.numel())
    assert torch.equal(interpret(source, X, Out(tuple(expected.shape))).only, expected)


@pytest.mark.parametrize("value", ["i - 1", "i + 1"])
def test_counting_outside_of_all_bins_is_out_of_bounds(value):
    source = SHAPES.format(body=f"y = tl.histogram({value}, 8).to(tl.float32)", size=8, result="y")
    reply = interpret(source, X, Out((8,))).reply
    assert reply.outcome == "out_of_bounds"
    assert "tl.histogram" in reply.reason


@pytest.mark.parametrize("index", ["i - 8", "i + 1"])
def test_gathering_outside_a_block_is_out_of_bounds(index):
    source = SHAPES.format(body=f"y = tl.gather(x, {index}, 0)", size=8, result="y")
    reply = interpret(source, X, Out((8,))).reply
    assert (reply.outcome, reply.line) == ("out_of_bounds", 11)
    assert "gathers element" in reply.reason


@pytest.mark.parametrize("condition", ["i < 7", "tl.program_id(0) == 0"])
def test_what_is_assumed_must_hold(condition):
    source = SHAPES.format(body=f"tl.assume({condition})", size=8, result="x")
    reply = interpret(source, X, Out((8,)), grid=(2,)).reply
    assert (reply.outcome, reply.line) == ("not_interpretable", 11)
    assert "assumes something that does not hold" in reply.reason


def test_batched_and_integer_products():
    source = """
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 512)
    x = tl.reshape(tl.load(a0 + i), (2, 16, 16))
    tl.store(a1 + i, tl.ravel(tl.dot(x, x)))
"""
    x = torch.randint(-9, 9, (2, 16, 16), dtype=torch.int8)
    assert torch.equal(interpret(source, x, Out((2, 16, 16), torch.int32)).only, (x.int() @ x.int()).int())


def test_random_numbers_are_tritons():
    source = """
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 1024)
    tl.store(a1 + i, tl.rand(42, i))
"""
    numbers = interpret(source, torch.zeros(1), Out((1024,))).only
    assert 0 <= numbers.min() < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.05
    assert len(numbers.unique()) > 1000


LIBDEVICE = {
    "tanh": torch.tanh,
    "erf": torch.erf,
    "rsqrt": torch.rsqrt,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log1p": torch.log1p,
    "fast_expf": torch.exp,
    "round": torch.round,
    "isnan": lambda x: x.isnan().float(),
}


@pytest.mark.parametrize("name", LIBDEVICE)
def test_libdevice_by_either_import(name):
    x = torch.tensor([0.3, 1.7, 2.2, 5.0])
    for imports, call in (
        ("from triton.language.extra import libdevice", f"libdevice.{name}(x)"),
        (f"from triton.language.extra.cuda.libdevice import {name} as f", "f(x)"),
        (f"from triton.language.extra.libdevice import {name} as f", "f(x)"),
        ("", f"tl.extra.cuda.libdevice.{name}(x)"),
    ):
        got = elementwise(f"{call}.to(tl.float32)", x, imports=imports)
        torch.testing.assert_close(got, LIBDEVICE[name](x), rtol=1e-5, atol=1e-6)


def test_libdevice_of_two_and_three_operands():
    x, y = torch.tensor([2.0, 3.0]), torch.tensor([3.0, 2.0])
    library = "from triton.language.extra import libdevice"
    assert elementwise("libdevice.pow(x, y)", x, y, imports=library).tolist() == [8.0, 9.0]
    assert elementwise("libdevice.fma(x, y, 1.0)", x, y, imports=library).tolist() == [7.0, 7.0]
    assert elementwise("libdevice.pow(x, 3)", x, y, imports=library).tolist() == [8.0, 27.0]
    assert elementwise("libdevice.popc(x.to(tl.int32))", x, y, imports=library).tolist() == [1.0, 2.0]
    assert elementwise("libdevice.float_as_int(x)", x, dtype=torch.int32, imports=library).tolist() == [
        2**30,
        0x40400000,
    ]


ORDER = """
@triton.jit
def kernel(a0, a1, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a0 + i)
    tl.store(a1 + i, {})
"""


@pytest.mark.parametrize(
    "expression",
    [
        "tl.view(x, (N,))",
        "tl.reshape(x, (N // 2, 2), can_reorder=True).reshape(N)",
        "tl.ravel(x, can_reorder=True)",
        "tl.cat(x, x, can_reorder=True).reshape(2, N).min(0)",
    ],
)
def test_who_lets_elements_lie_in_any_order_cannot_rest_on_one(expression):
    x = torch.arange(64.0)
    run = interpret(ORDER.format(expression), x, Out((64,)), draws=[[x]] * 4, N=64)
    found = [tuple(out.tolist()) for (out,) in run.outputs]
    assert sum(row == tuple(x.tolist()) for row in found) == 2 and len(set(found)) == 3


def test_what_is_added_up_in_any_order_is_right():
    x = torch.arange(64.0)
    expression = "tl.sum(tl.view(x, (8, 8))) + tl.sum(tl.cat(x, x, can_reorder=True)) + 0 * x"
    run = interpret(ORDER.format(expression), x, Out((64,)), draws=[[x]] * 4, N=64)
    assert all((out == 3 * 2016.0).all() for (out,) in run.outputs)


NAN, INF = math.nan, math.inf
CAST_SOURCE = """import triton
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
    run = interpret(CAST_SOURCE.format(expression=expression), x, Out(x.shape, result), draws=draws, N=2)
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
    run = interpret(CAST_SOURCE.format(expression=expression), x, Out(x.shape, result), draws=[[x]] * 6, N=2)
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
    run = interpret(CAST_SOURCE.format(expression="tl.sort(x)"), x, Out((4,)), draws=[[x]] * 4, N=4)
    assert [out.tolist() for (out,) in run.outputs] == [[1.0, 2.0, 3.0, 3.0]] * 4


def test_a_negation_flips_the_sign_of_zero_too():
    """Triton before 3.8 subtracts from zero instead, so that no kernel of the pinned release asks for it."""
    assert np.signbit(FUNCTIONS_OF_ONE["fneg"](np.array([0.0, 1.0]))).all()
    assert "fneg" not in SPECIAL
