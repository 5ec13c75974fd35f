"""Elementwise kernels as the end of a convolution's kernel."""

import ast

import pytest

from tests.workers.tracer.jobs import operator
from workers.inductor_seeds.epilogue import ConvolutionResult, Epilogue, SampledNumbers, join

KERNEL = """
def fused(in_ptr0, in_ptr1, in_ptr2, out_ptr0, ks0, ks1, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // ks0 % ks1
    x2 = xindex % ks0
    tmp0 = tl.load(in_ptr0 + xindex, xmask, eviction_policy='evict_last')
    tmp1 = tl.load(in_ptr1 + x1, xmask)
    tmp2 = tl.load(in_ptr2 + 0)
    tmp3 = tl.broadcast_to(tmp2, [XBLOCK])
    tmp4 = larger(tl.full([1], 0, tl.int32), (tmp0 + tmp1) * tmp3)
    tl.store(out_ptr0 + (x2 + ks0 * (xindex // ks0)), tmp4, xmask)
"""
PRODUCT = """
def product(x_ptr, weight_ptr, y_ptr, images, filters, BLOCK_M: tl.constexpr):
    column = tl.arange(0, 4)
    is_column = column < filters
    target = tl.arange(0, 8)[:, None] + column[None, :]
    is_target = target < images
    total = tl.zeros((8, 4), tl.float32)
    tl.store(y_ptr + target, total, is_target)
"""
PASSED = {"in_ptr0": "scratch", "in_ptr1": "b", "in_ptr2": "c", "out_ptr0": "y"}
PASSED |= {"ks0": "M", "ks1": "N", "xnumel": "4 * M * N"}


def function(text: str) -> ast.FunctionDef:
    found = ast.parse(text).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


def numbers() -> SampledNumbers:
    found = SampledNumbers(operator())
    found.dimension("M", "M")
    found.dimension("N", "N")
    return found


def lines(text: str = KERNEL, *, is_tile: bool = True, per_thread: int = 1, **changes: str) -> list[str] | None:
    result = ConvolutionResult("M", "N", "4 * N * M", groups=1, is_tile=is_tile, per_thread=per_thread)
    found = Epilogue(function(text), "in_ptr0", PASSED | changes, numbers(), result).lines()
    return None if found is None else [ast.unparse(line) for line in found]


def test_elements_become_the_outputs_of_a_program_and_indices_of_filters_its_filters():
    found = lines()
    assert found is not None
    assert found[0] == "x1 = column[None, :]"
    assert found[2:4] == ["tmp0 = total", "tmp1 = tl.load(in_ptr1 + x1, is_column[None, :])"]
    assert found[4:6] == ["tmp2 = tl.load(in_ptr2 + 0)", "tmp3 = tmp2"]
    assert "tl.full([1, 1], 0, tl.int32)" in found[6]
    assert found[7] == "tl.store(out_ptr0 + xindex, tmp4, xmask)"


def test_outputs_along_one_axis_have_no_range_of_filters():
    found = lines(is_tile=False)
    assert found is not None
    assert found[0] == "x1 = xindex // ks0 % ks1" and "tl.full([1], 0" in found[6]
    assert "tmp1 = tl.load(in_ptr1 + x1, xmask)" in found


@pytest.mark.parametrize(
    ("value", "most"),
    [("tl.exp(tmp0)", None), ("libdevice.rsqrt(tmp0)", None), ("tl.erf(tmp0)", 32), ("libdevice.pow(tmp0, tmp0)", 32)],
)
def test_long_functions_of_many_results_per_thread_stay_in_a_kernel_of_their_own(value: str, most: int | None):
    text = KERNEL.replace("tmp4, xmask", f"{value}, xmask")
    assert lines(text, per_thread=32) is not None
    assert (lines(text, per_thread=64) is None) is (most == 32)
    twice = text.replace(value, f"{value} * {value}")
    assert (lines(twice, per_thread=32) is None) is (most == 32) and lines(twice, per_thread=16) is not None


def test_bounds_that_inductor_leaves_out_are_written():
    text = KERNEL.replace("in_ptr1 + x1, xmask", "in_ptr1 + x1, None").replace("tmp4, xmask", "tmp4, None")
    text = text.replace("tl.load(in_ptr2 + 0)", "tl.load(in_ptr2 + xindex)").replace("[XBLOCK])\n", "[XBLOCK])\n", 1)
    found = lines(text)
    assert found is not None
    assert "tmp1 = tl.load(in_ptr1 + x1, is_column[None, :])" in found
    assert "tmp2 = tl.load(in_ptr2 + xindex, xmask)" in found and found[-1].endswith("tmp4, xmask)")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("in_ptr0 + xindex", "in_ptr0 + x2"),
        ("in_ptr0 + xindex", "in_ptr0 + (xindex + 1)"),
        ("(tmp0 + tmp1)", "tl.sum(tmp0 + tmp1)"),
        ("tmp1 = tl.load(in_ptr1 + x1, xmask)", "tmp1 = tl.load(in_ptr1 + tmp0, xmask & x1)[:, None]"),
        ("    tmp2 =", "    for x in range(2):\n        tl.store(out_ptr0, x)\n    tmp2 ="),
        ("tmp0 + tmp1", "in_ptr0 + tmp1"),
    ],
)
def test_more_than_arithmetic_on_one_output_is_refused(old: str, new: str):
    assert old in KERNEL and lines(KERNEL.replace(old, new)) is None


def test_a_kernel_over_other_elements_than_the_outputs_is_refused():
    assert lines(xnumel="2 * M * N") is None
    assert lines(ks0="unknown") is None
    assert lines(xnumel="M * (4 * N)") is not None


def test_the_joined_kernel_has_the_pointers_of_both_and_no_store_of_the_result():
    result = ConvolutionResult("M", "N", "4 * N * M", groups=1, is_tile=True)
    consumer = function(KERNEL)
    found = Epilogue(consumer, "in_ptr0", PASSED, numbers(), result).lines()
    assert found is not None
    joined = join(function(PRODUCT), consumer, found, "in_ptr0")
    parameters = ["x_ptr", "weight_ptr", "in_ptr1", "in_ptr2", "out_ptr0", "images", "filters", "ks0", "ks1", "BLOCK_M"]
    assert [item.arg for item in joined.args.args] == parameters
    text = ast.unparse(joined)
    assert "y_ptr" not in text and text.endswith("tl.store(out_ptr0 + target, tmp4, is_target)")


def test_numbers_are_known_by_what_they_are_computed_from():
    found = numbers()
    found.number("count", "(M + -2) // 2 + 1")
    assert found.values("2 * count") == found.values("2 * ((M - 2) // 2 + 1)")
    assert found.values("other") is None
    values = found.values("M")
    assert values is not None and len(set(values)) == len(values)
