"""Convolutions of a host function: launched by themselves, or with the kernel that alone reads their result."""

import ast

import pytest

from tests.workers.tracer.jobs import operator
from workers.inductor_seeds.candidate import write
from workers.inductor_seeds.convolving import find_reader, is_contiguous
from workers.inductor_seeds.lowering import InductorKernel, LoweredReference

KERNEL = """@triton.jit
def fused({name}, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load({name} + xindex, xmask)
    tmp1 = tl.load(in_ptr1 + xindex, xmask)
    tl.store({out} + xindex, tmp0 * tmp1, xmask)
"""
READ = KERNEL.format(name="in_ptr0", out="out_ptr0")
IN_PLACE = KERNEL.format(name="in_out_ptr0", out="in_out_ptr0").replace(", out_ptr0, xnumel", ", xnumel")
HOST = """def call(self, args):
    arg0_1, arg1_1 = args
    arg0_1_size = arg0_1.size()
    s0 = arg0_1_size[0]
    s1 = arg0_1_size[2]
    buf0 = torch.ops.kernelreef.convolution.default(arg0_1, arg1_1, [1], [1], [1], False, [0], 1)
    assert_size_stride(buf0, (s0, 8, s1), (8 * s1, s1, 1))
    fused_xnumel = 8 * s0 * s1
"""
LAUNCH = """    buf1 = empty_strided_cuda((s0, 8, s1), (8 * s1, s1, 1), torch.float32)
    fused.run(buf0, {other}, buf1, fused_xnumel, stream=raw_stream0)
    del buf0
    return (buf1, )
"""
SAME = """    buf1 = buf0; del buf0
    fused.run(buf1, arg0_1, fused_xnumel, stream=raw_stream0)
    return (buf1, )
"""
OF = operator(
    inputs=[
        {"name": "x", "shape": ["N", 8, "L"], "dtype": "float32"},
        {"name": "w", "shape": [8, 8, 3], "dtype": "float32"},
    ],
    outputs=[{"name": "y", "dtype": "float32"}],
    shapes=[{"dims": {"N": 2, "L": 9}}],
)
LAYOUTS = """    assert_size_stride(arg0_1, (s0, 8, s1), (8 * s1, s1, 1))
    assert_size_stride(arg1_1, (8, 8, 3), (24, 3, 1))
"""


def written(launch: str, kernel: str = READ, before: str = "") -> str:
    draft = InductorKernel("fused", kernel, "Grid1D", {"XBLOCK": 256, "num_warps": 4, "num_stages": 1})
    return write(OF, LoweredReference(HOST + LAYOUTS + before + launch, {"fused": draft}))


def test_a_kernel_that_alone_reads_a_result_is_the_end_of_its_convolution():
    source = written(LAUNCH.format(other="arg0_1"))
    assert source.count("@triton.jit") == 1 and source.count("torch.empty(") == 1
    assert "x_2 = tl.load(x_2_ptr + target, is_target)\n    tl.store(y_ptr + target, total * x_2, is_target)" in source
    assert "scale_product[(triton.cdiv(N * L, 64), triton.cdiv(8, 16))](x, w, x, y, N, L, BLOCK_M" in source
    assert "is_column = column < 8\n" in source, "an operator of one shape passes a size that is a number"


def test_kernels_of_several_shapes_are_passed_their_sizes():
    several = OF.model_copy(update={"ranges": {"N": (1, 4)}})
    draft = InductorKernel("fused", READ, "Grid1D", {"XBLOCK": 256, "num_warps": 4, "num_stages": 1})
    source = write(several, LoweredReference(HOST + LAYOUTS + LAUNCH.format(other="arg0_1"), {"fused": draft}))
    assert "(x, w, x, y, N, L, 8, BLOCK_M" in source and "is_column = column < filters\n" in source


def test_a_result_that_is_overwritten_is_the_output():
    source = written(SAME, IN_PLACE)
    assert source.count("@triton.jit") == 1 and source.count("torch.empty(") == 1
    assert "tl.store(y_ptr + target, total * " in source and "return y" in source


@pytest.mark.parametrize(
    ("launch", "kernel"),
    [
        (LAUNCH.replace("(buf1, )", "(buf1, buf0)").format(other="arg0_1"), READ),
        (LAUNCH.format(other="buf0"), READ),
        (LAUNCH.format(other="arg0_1"), READ.replace("in_ptr0 + xindex", "in_ptr0 + xindex // 2")),
        ("    fused.run(arg0_1, arg0_1, arg0_1, fused_xnumel)\n" + LAUNCH.format(other="arg0_1"), READ),
    ],
)
def test_other_readers_leave_a_convolution_by_itself(launch: str, kernel: str):
    source = written(launch, kernel)
    assert "tl.store(y_ptr + target, total, is_place[:, None]" in source
    assert source.index("scale_product[") < source.index("scale_kernel[")


def test_a_kernel_that_writes_where_its_convolution_reads_is_launched_after_it():
    launch = LAUNCH.format(other="arg1_1").replace("arg1_1, buf1", "arg1_1, arg0_1")
    assert written(launch).count("@triton.jit") == 2
    view = "    buf2 = reinterpret_tensor(arg0_1, (s0, 8, s1), (8 * s1, s1, 1), 0)\n"
    assert written(launch.replace("arg1_1, arg0_1", "arg1_1, buf2"), before=view).count("@triton.jit") == 2


def test_a_view_from_the_beginning_is_the_result_and_another_is_not():
    view = "    buf2 = reinterpret_tensor(buf0, (s0, 8, s1), (8 * s1, s1, 1), {})\n"
    launch = "    fused.run(buf2, arg0_1, fused_xnumel)\n    return (buf2, )\n"
    source = written(view.format(0) + launch, IN_PLACE)
    assert source.count("@triton.jit") == 1 and "x_2_ptr, images" in source and "(x, w, view, x, " in source
    assert source.index("torch.empty(") < source.index("torch.as_strided(") < source.index("scale_product[")
    assert written(view.format(8) + launch, IN_PLACE).count("@triton.jit") == 2


def test_memory_that_is_used_again_is_allocated():
    again = LAUNCH.format(other="arg0_1").replace(
        "    return (buf1, )", "    buf2 = buf0\n    fused.run(buf1, arg0_1, buf2, fused_xnumel)\n    return (buf2, )"
    )
    source = written(again)
    assert source.count("torch.empty(") == 2 and source.count("@triton.jit") == 2
    assert "tl.store(y_ptr + target, total, " not in source


def test_only_the_next_launch_is_a_reader():
    drafts = {"fused": InductorKernel("fused", READ, "Grid1D", {})}
    lines = ast.parse(LAUNCH.format(other="arg0_1").replace("    ", "").replace("return (buf1, )", "")).body
    found = find_reader("buf0", lines, drafts)
    assert found is not None and not found.is_kept
    assert find_reader("buf9", lines, drafts) is None
    other = ast.parse("buf7 = torch.ops.kernelreef.convolution.default(buf3)").body
    assert find_reader("buf0", [*other, *lines], drafts) is None
    assert find_reader("buf0", [], drafts) is None


def test_a_convolution_of_a_convolution_is_launched_after_it():
    call = "    buf3 = torch.ops.kernelreef.convolution.default(buf0, arg1_1, [1], [1], [1], False, [0], 1)\n"
    asserted = "    assert_size_stride(buf3, (s0, 8, s1), (8 * s1, s1, 1))\n"
    source = written(call + asserted + LAUNCH.format(other="arg0_1").replace("buf0", "buf3"))
    first, second = source.index("(x, w, scratch, N"), source.index("(scratch, w, x, y, N")
    assert source.index("scratch = torch.empty(") < first < second


def test_strides_of_packed_tensors_are_told_from_others():
    def said(size: str, stride: str) -> bool:
        return is_contiguous(*(ast.parse(code, mode="eval").body for code in (size, stride)))

    assert said("(s0, 4, max(1, s1))", "(4 * s1, s1, 1)")
    assert not said("(s0, s1)", "(1, s0)")
