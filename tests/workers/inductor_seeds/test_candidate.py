"""The host function, derived from Inductor's `call`."""

import ast
import re

import pytest

from tests.workers.inductor_seeds.test_products import KERNEL as PRODUCT
from tests.workers.tracer.jobs import job, operator
from workers import inductor_seeds, trace_job
from workers.inductor_seeds.candidate import _layouts, write
from workers.inductor_seeds.lowering import InductorKernel, LoweredReference
from workers.tracer.refusal import TraceRefused

KERNEL = """@triton.jit
def fused(in_ptr0, in_ptr1, out_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask)
    tmp1 = tl.load(in_ptr1 + xindex % ks0, xmask)
    tmp2 = tmp0 * tmp1
    tl.store(out_ptr0 + xindex, tmp2, xmask)
"""
START = """def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        arg0_1_size = arg0_1.size()
        s1 = arg0_1_size[0]
        s2 = arg0_1_size[1]
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
"""
LAUNCH = """            buf0 = empty_strided_cuda((s1, s2), (s2, 1), torch.float32)
            fused_xnumel = s1*s2
            raw_stream0 = get_raw_stream(0)
            fused.run(arg0_1, arg1_1, buf0, s2, fused_xnumel, stream=raw_stream0)
            del arg0_1
"""
END = "        return (buf0, )\n"


def written(lines: str = LAUNCH, grid: str = "Grid1D") -> str:
    draft = InductorKernel("fused", KERNEL, grid, {"XBLOCK": 256, "num_warps": 4, "num_stages": 1})
    return write(operator(), LoweredReference(START + lines + END, {"fused": draft}))


def test_a_result_in_another_shape_is_a_view():
    launch = LAUNCH.replace("(s1, s2), (s2, 1)", "(s1, 1, s2), (s2, s2, 1)")
    source = written(launch + "        return (reinterpret_tensor(buf0, (s1, s2), (s2, 1), 0), )\n        del buf0\n")
    assert "return torch.as_strided(y, (M, N), (N, 1), 0)" in source


def test_the_host_allocates_launches_and_returns():
    assert written().endswith(
        "def scale(x, w):\n"
        "    M = x.shape[0]\n"
        "    N = x.shape[1]\n"
        "    y = torch.empty((M, N), dtype=torch.float32, device=x.device)\n"
        "    count = M * N\n"
        "    scale_kernel[(triton.cdiv(count, 256),)](x, w, y, N, count, XBLOCK=256, num_warps=4, num_stages=1)\n"
        "    return y\n"
    )
    assert "tl.store(y_ptr + x, x_value * w, x_mask)" in written()


def test_strides_that_are_not_packed_are_kept():
    lines = LAUNCH.replace("(s2, 1), torch", "(1, s1), torch")
    assert "torch.empty_strided((M, N), (1, M), dtype" in written(lines)


def test_a_buffer_that_is_used_again_and_views():
    lines = LAUNCH.replace("buf0", "buf1") + "            buf2 = buf1; del buf1  # reuse\n"
    lines += "            buf0 = reinterpret_tensor(buf2, (s1, s2), (s2, 1), 0)\n"
    assert "view = torch.as_strided(scratch, (M, N), (N, 1), 0)\n    return view" in written(lines)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (LAUNCH + "            torch.ops.aten.mul_.Tensor(buf0, 2)\n", "calls torch.ops"),
        (LAUNCH + "            buf9 = other(buf0)\n", "calls `other"),
        (LAUNCH + "            while True: pass\n", "contains `while"),
    ],
)
def test_what_a_candidate_may_not_do_is_refused(lines, said):
    with pytest.raises(TraceRefused, match=said):
        written(lines)


def test_a_grid_that_is_laid_out_otherwise_is_refused():
    with pytest.raises(TraceRefused, match="SplitScanGrid"):
        written(grid="SplitScanGrid")


def test_functions_of_two_elements_are_written_before_the_kernel_that_scans_with_them():
    helper = "@triton.jit\ndef _fn_mul0(arg0_0, arg1_0):\n    tmp0 = arg0_0 * arg1_0\n    return tmp0\n\n"
    kernel = KERNEL.replace("tmp0 * tmp1", "tl.associative_scan(tmp0 * tmp1, 0, _fn_mul0)")
    draft = InductorKernel("fused", kernel, "Grid1D", {"XBLOCK": 256, "num_warps": 4, "num_stages": 1}, helper)
    source = write(operator(), LoweredReference(START + LAUNCH + END, {"fused": draft}))
    assert "@triton.jit\ndef combine(a, b):\n    return a * b\n\n\n@triton.jit\ndef scale_kernel(" in source
    assert "tl.associative_scan(x_value * w, 0, combine)" in source


def test_a_function_that_is_brought_along_brings_what_it_calls():
    kernel = KERNEL.replace("tmp0 * tmp1", "triton_helpers.online_softmax_combine(tmp0, tmp1, tmp1, False)[0]")
    draft = InductorKernel("fused", kernel, "Grid1D", {"XBLOCK": 256, "num_warps": 4, "num_stages": 1})
    source = write(operator(), LoweredReference(START + LAUNCH + END, {"fused": draft}))
    assert source.index("def larger(") < source.index("def softmax_step(") < source.index("def scale_kernel(")


def test_a_product_is_launched_over_two_axes_under_the_names_of_its_sizes():
    shapes = {"a": ["M", "K"], "b": ["K", "N"]}
    inputs = [{"name": name, "shape": shape, "dtype": "float16"} for name, shape in shapes.items()]
    of = operator(inputs=inputs, shapes=[{"dims": {"M": 64, "N": 32, "K": 16}}])
    size = "s2 = arg0_1_size[1]\n"
    host = START.replace(size, f"{size}        arg1_1_size = arg1_1.size()\n        s3 = arg1_1_size[1]\n")
    host += "            buf0 = empty_strided_cuda((s1, s3), (s3, 1), torch.float32)\n"
    host += "            fused.run(arg0_1, arg1_1, buf0, s2, s3, s1, s3, s2, stream=raw_stream0)\n"
    options = {"YBLOCK": 64, "XBLOCK": 32, "R0_BLOCK": 16, "num_warps": 4, "num_stages": 3}
    kernel = "@triton.jit\n" + PRODUCT.strip().replace("def kernel", "def fused").replace(": C", ": tl.constexpr")
    draft = InductorKernel("fused", kernel, "Grid2DWithYZOverflow", options)
    source = write(of, LoweredReference(host + END, {"fused": draft}))
    assert "(a_ptr, b_ptr, y_ptr, K, N, M, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K" in source
    assert "scale_kernel[(triton.cdiv(N, 32), triton.cdiv(M, 64))](a, b, y, K, N, M, BLOCK_M=64, BLOCK_N=32," in source
    assert "total = tl.dot(a, b, total, input_precision='ieee')" in source


def test_memory_that_is_used_again_keeps_its_layout() -> None:
    lines = ast.parse(
        "buf0 = empty_strided_cuda((2, 3), (3, 1), torch.float32)\n"
        "buf1 = buf0\n"
        "buf2 = reinterpret_tensor(buf1, (6,), (1,), 0)\n"
        "buf3 = buf2\n"
    ).body
    known = {name: tuple(map(ast.unparse, layout)) for name, layout in _layouts(lines).items()}
    assert known == {
        **dict.fromkeys(("buf0", "buf1"), ("(2, 3)", "(3, 1)")),
        **dict.fromkeys(("buf2", "buf3"), ("(6,)", "(1,)")),
    }


def test_a_text_that_is_longer_than_a_candidate_is_no_seed_and_the_reason_says_how_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inductor_seeds, "MAX_SOURCE_BYTES", 100)
    report = trace_job.trace(job(None, drafts=True), "worker")
    assert report.draft == ""
    assert re.fullmatch(
        r"TorchInductor's kernels for it have \d{3,} characters; a candidate has at most 100", report.reason
    )
