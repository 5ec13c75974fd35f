import re

import pytest

from service.evaluation.executor_client import LocalExecutor
from service.evaluation.single import Judge
from service.operators.catalogue import load_operator
from tests.service.emitters.samples import applies, rewritten, seed, small
from workers.protocol import Device, Operator, Outcome, Shape, TraceJob, TraceReport

BUFFERS = ("inputs", "outputs")
LOOPED = re.compile(r"wgmma\.mma_async.*?\bbra\b", re.DOTALL)
"""From the first product of a kernel to the end of its loop."""

PARTS = seed("matmul").replace("b, total)", "b, total, input_precision='tf32x3')")
TURNED = PARTS.replace("a_ptr + rows[:, None] * K + inner[None, :]", "a_ptr + inner[:, None] * M + rows[None, :]")
TURNED = TURNED.replace("(rows[:, None] < M) & (inner[None, :] < K)", "(inner[:, None] < K) & (rows[None, :] < M)", 1)
TURNED = TURNED.replace("tl.dot(a, b", "tl.dot(tl.trans(a), b").replace("M, K = a.shape", "K, M = a.shape")


def test_operands_are_split_once_with_the_summed_axis_last():
    code = rewritten("split_ahead", PARTS).replace("(M)", "M").replace("(N)", "N")
    assert code.count("split_kernel[") == 2 and code.index("split_kernel[") < code.index("matmul_kernel[")
    assert "M, K, padded, M * padded, TURNED=False" in code
    assert "K, N, padded, N * padded, TURNED=True" in code
    assert "tl.trans" not in code and "tf32x3" not in code and code.count("input_precision='tf32'") == 3


def single_matmul() -> Operator:
    operator, float32 = load_operator("matmul"), {"dtype": "float32"}
    told = {part: tuple(each.model_copy(update=float32) for each in getattr(operator, part)) for part in BUFFERS}
    return operator.model_copy(update=told)


async def test_large_parts_are_added_up_outside_the_matrix_units():
    """Triton makes a sum with a product a sum inside them, unless it is told how many of these may be inexact."""
    code = rewritten("split_ahead", PARTS)
    inside = code.replace(", max_num_imprecise_acc=BLOCK_K", "")
    assert inside != code
    async with LocalExecutor("trace") as bench:
        sums = [await sums_beside_products(bench, source) for source in (code, inside)]
    assert sums[0] and not sums[1]


async def sums_beside_products(bench: LocalExecutor, source: str) -> int:
    """Number of float32 sums in the loop of a source's product, compiled for Hopper."""
    shapes = (Shape(dims={"M": 256, "K": 512, "N": 256}),)
    operator = single_matmul()
    job = TraceJob(id="t", search="t", operator=operator, shapes=shapes, target="sm_90", source=source)
    report = await bench.run(job, TraceReport)
    assert report.variants and report.variants[0].bundle is not None, report.reason
    kernels = [kernel.assembly for kernel in report.variants[0].bundle.kernels.values()]
    (loop,) = [found.group() for found in map(LOOPED.search, kernels) if found]
    return len(re.findall(r"add(\.rn)?\.f32", loop))


@pytest.mark.slow
async def test_what_it_makes_is_judged_correct(tmp_path):
    async with Judge(single_matmul(), Device.parse("model:sm_90"), data=tmp_path) as judge:
        verdict = await judge.judge(rewritten("split_ahead", PARTS))
    assert (verdict.outcome, verdict.reason) == (Outcome.CORRECT, "")


def test_products_share_the_kernel_that_splits():
    host = PARTS[PARTS.index("@triton.jit") :].replace("matmul", "again")
    code = rewritten("split_ahead", rewritten("split_ahead", f"{PARTS}\n\n{host}"))
    assert code.count("def split_kernel") == 1 and code.count("split_kernel[") == 4


def test_a_transposed_operand_is_turned_by_the_split():
    code = rewritten("split_ahead", TURNED)
    assert code.count("TURNED=True") == 2 and "tl.trans" not in code


def test_one_matrix_per_program_along_an_axis():
    batched = PARTS.replace("    total = tl.zeros", "    batch = tl.program_id(2)\n    total = tl.zeros", 1)
    batched = batched.replace("a_ptr + rows", "a_ptr + batch * M * K + rows").replace(
        "triton.cdiv(N, 64))", "triton.cdiv(N, 64), 3)"
    )
    code = rewritten("split_ahead", batched)
    assert "a_ptr + batch.to(tl.int64) * M * padded + " in code and "3 * M * padded" in code
    assert not applies("split_ahead", batched.replace("batch * M * K", "batch * M * M"))
    numbers = batched.replace("batch * M * K", "batch * 96").replace("c, M, N, K,", "c, 8, N, 12,")
    assert applies("split_ahead", numbers) and not applies("split_ahead", numbers.replace("batch * 96", "batch * 95"))
    assert not applies("split_ahead", batched.replace("tl.program_id(2)", "tl.program_id(2) + 1"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tf32x3", "tf32"),
        ("a = tl.load(a_ptr + rows[:, None] * K", "a = tl.load(a_ptr + rows[:, None] * N"),
        ("range(0, K, BLOCK_K)", "range(0, K - 1, BLOCK_K)"),
        ("total = tl.dot(", "a = a * 2.0\n        total = tl.dot("),
        (
            "total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "total = tl.full((BLOCK_M, BLOCK_N), 1.0, tl.float32)",
        ),
        ("    matmul_kernel[", "    if True:\n        matmul_kernel["),
    ],
)
def test_what_is_not_surely_a_product_of_matrices_is_left_alone(old, new):
    assert old in PARTS
    assert not applies("split_ahead", PARTS.replace(old, new))
    assert not applies("split_ahead", seed("attention"))


def test_infinities_meet_no_rest_of_the_other_sign(assert_same):
    planted = "    a = torch.where(a > 1.0, float('inf'), a)\n    M, K = a.shape"
    before = small("matmul").replace("    M, K = a.shape", planted)
    after = rewritten("split_ahead", before.replace("b, total)", "b, total, input_precision='tf32x3')"))
    assert_same(before, after, "matmul")
