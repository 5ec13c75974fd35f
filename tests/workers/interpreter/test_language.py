"""Constructs that differ between the device and Python."""

import pytest
import torch

from tests.workers.interpreter.stage import Out, X, interpret, interpret_body

CASES = {
    "y = x\n    for k in range(3):\n        y += k.to(tl.float32)": [3, 4, 5, 6],
    "y = x\n    for k in tl.static_range(2):\n        y += k": [1, 2, 3, 4],
    "y = x\n    for k in range(6, 0, -2):\n        y += k": [12, 13, 14, 15],
    "y = helper(x, SIZE)": [3, 4, 5, 6],
    "y = x + min(SIZE, 2) + max(pid, 5)": [7, 8, 9, 10],
    "y = x\n    assert SIZE > 100\n    tl.static_assert(SIZE == 3)\n    tl.device_assert(x > 99)": [0, 1, 2, 3],
    "tl.device_print('x', x)\n    print('y', x)\n    y = x": [0, 1, 2, 3],
    "y = tl.multiple_of(tl.max_contiguous(i, 4), 4) + x": [0, 2, 4, 6],
    "tl.debug_barrier()\n    tl.assume(SIZE > 0)\n    y = x": [0, 1, 2, 3],
    "z = x, 2\n    y = z[0] * z[1]": [0, 2, 4, 6],
    "y = x.to(tl.float16).to(tl.float32) + x.dtype.primitive_bitwidth": [32, 33, 34, 35],
    "y = x + (1 if x.shape[0] == 4 else 5)": [1, 2, 3, 4],
    "d = tl.make_tensor_descriptor(a0, [4], [1], [4])\n    if isinstance(d, tl.tensor_descriptor):\n        y = x + 1\n"
    "    else:\n        y = d": [1, 2, 3, 4],
    "y = x\n    if isinstance(a0, tl.tensor_descriptor) or isinstance(SIZE, tl.tensor_descriptor):\n        y = a0": [
        0,
        1,
        2,
        3,
    ],
    "y = (i + 2147483647).to(tl.float32) * 0 + x": [0, 1, 2, 3],
    "y = x.exp2().log2() + (x * x).sqrt() + x.floor() - x.ceil()": [0, 2, 4, 6],
    "y = x.exp().log() - x.abs() + x.cos() * x.cos() + x.sin() * x.sin() + x.erf() * 0": [1, 1, 1, 1],
}


@pytest.mark.parametrize("body", CASES)
def test_device_code(body):
    found = interpret_body(body).tolist()
    assert found == pytest.approx(CASES[body], abs=1e-6)


def test_module_constants_are_seen():
    source = """
import math
import torch
import triton
import triton.language as tl
try:
    from triton.language.extra import libdevice
except ImportError:
    from triton.language.math import libdevice

LOG2E = tl.constexpr(1.4426950408889634)
HALF: tl.constexpr = 0.5
TABLE = {"a": (1, 2)}
ROOT = math.sqrt(16.0) * TABLE["a"][1]


@triton.constexpr_function
def twice(n):
    return 2 * n


@triton.jit
def kernel(a0, a1, SIZE: tl.constexpr = twice(2)):
    i = tl.arange(0, twice(2))
    tl.store(a1 + i, libdevice.exp2(tl.load(a0 + i) * LOG2E) * HALF * ROOT)
"""
    left = source.replace(
        "libdevice.exp2(tl.load(a0 + i) * LOG2E) * HALF", "HALF * libdevice.exp2(LOG2E * tl.load(a0 + i))"
    )
    assert left != source
    torch.testing.assert_close(interpret(left, X, Out((4,)), SIZE=4).only, torch.exp(X) * 4)
    torch.testing.assert_close(interpret(source, X, Out((4,)), SIZE=4).only, torch.exp(X) * 4)


def test_jit_functions_wrapped_without_a_decorator_are_found_by_their_own_name():
    source = "def kernel(a0, a1):\n    tl.store(a1, tl.load(a0))\n\n\nwrapped = triton.jit(kernel)\n"
    assert interpret(source, X, Out((1,))).only == 0


def test_what_the_interpreter_does_not_know_is_named():
    with pytest.raises(AssertionError, match="does not know dot_scaled"):
        assert interpret_body('y = tl.dot_scaled(x, None, "e4m3", x, None, "e4m3")') is None


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ("range(3, 0, tl.program_id(0) - 1)", "step is -1 at run time"),
        ("range(0, -1, tl.minimum(a2, 0) - 2)", "step is -2 at run time"),
        ("tl.range(0, 1, step=tl.program_id(0))", "step is 0 at run time"),
        ("range(a2.to(tl.uint32) + 4294967295, 5)", "overflows uint32"),
        ("range(a2.to(tl.int8), a2.to(tl.int8) + 100, a2.to(tl.int8) + 70)", "overflows int8"),
    ],
)
def test_loops_that_compiled_code_counts_otherwise_are_refused(turns, said):
    source = f"""
@triton.jit
def kernel(a0, a1, a2):
    x = tl.load(a0)
    for k in {turns}:
        x += 1
    tl.store(a1, x)
"""
    reply = interpret(source, X, Out((1,)), 0).reply
    assert (reply.outcome, reply.line) == ("not_interpretable", 10)
    assert said in reply.reason
