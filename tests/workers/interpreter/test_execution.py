"""The interpreter against torch on whole operators, and its reasons for wrong kernels."""

import torch

from tests.workers.interpreter.stage import Out, interpret

BF16 = torch.bfloat16

RMSNORM = """
@triton.jit
def kernel(a0, a1, a2, a3, a4, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < a3
    x = tl.load(a0 + row * a3 + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / a3 + a4)
    weight = tl.load(a1 + cols, mask=mask).to(tl.float32)
    tl.store(a2 + row * a3 + cols, x * scale * weight, mask=mask)
"""


def test_rmsnorm_in_bfloat16_for_several_draws_at_once():
    torch.manual_seed(0)
    draws = [[torch.randn(33, 100, dtype=BF16), torch.randn(100, dtype=BF16)] for _ in range(3)]
    run = interpret(RMSNORM, *draws[0], Out((33, 100), BF16), 100, 1e-6, grid=(33,), draws=draws, BLOCK=128)
    for (x, weight), (got,) in zip(draws, run.outputs, strict=True):
        v = x.float()
        expected = (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()).to(BF16)
        torch.testing.assert_close(got, expected)
    done = run.reply.finished[0]
    assert done.moved_bytes == 33 * 100 * 2 * 3
    # Of each of 33 rows of 128: four products and what makes `x`, the weight and `y` of another dtype.
    assert 33 * 128 * 6 <= done.float_operations <= 33 * 128 * 8
    assert done.special_operations == 33 * 2
    assert run.inputs_after[2][1] == draws[2][1].view(torch.uint8).numpy().tobytes()


def test_online_softmax_with_a_loop():
    source = """
@triton.jit
def kernel(a0, a1, a2, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = float("-inf")
    total = 0.0
    for start in range(0, a2, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(a0 + row * a2 + cols, mask=cols < a2, other=float("-inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    for start in range(0, a2, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(a0 + row * a2 + cols, mask=cols < a2, other=float("-inf")).to(tl.float32)
        tl.store(a1 + row * a2 + cols, tl.exp(x - top) / total, mask=cols < a2)
"""
    x = torch.randn(17, 301, dtype=BF16) * 30
    got = interpret(source, x, Out((17, 301), BF16), 301, grid=(17,), BLOCK=64).only
    torch.testing.assert_close(got, torch.softmax(x.float(), -1).to(BF16))


MATMUL = (
    """
@triton.jit
def kernel(a0, a1, a2, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, tl.cdiv(K, BK)):
        ks = start * BK + tl.arange(0, BK)
        a = tl.load(a0 + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(a1 + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    out = a2 + rows[:, None] * N + cols[None, :]
    tl.store(out, acc.to(a2.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))
""".replace("M, N, K,", "a3, a4, a5,")
    .replace("* K", "* a5")
    .replace("< K", "< a5")
    .replace("cdiv(K", "cdiv(a5")
)
MATMUL = MATMUL.replace("* N", "* a4").replace("< N", "< a4").replace("< M", "< a3")


def matmul(
    dtype: torch.dtype, precision: str, target: str = "sm_90"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    a, b = torch.randn(50, 70, dtype=dtype), torch.randn(70, 37, dtype=dtype)
    tiles = {"BM": 16, "BN": 16, "BK": 32, "PRECISION": precision}
    got = interpret(MATMUL, a, b, Out((50, 37), dtype), 50, 37, 70, grid=(4, 3), target=target, **tiles).only
    return got, a, b


def test_matmul_accumulates_bfloat16_in_float32():
    got, a, b = matmul(BF16, "ieee")
    torch.testing.assert_close(got, (a.float() @ b.float()).to(BF16))


def test_matmul_of_float16():
    got, a, b = matmul(torch.float16, "ieee")
    torch.testing.assert_close(got, (a.float() @ b.float()).half())


def test_tf32_is_the_matrix_units_and_ieee_is_exact():
    exact, a, b = matmul(torch.float32, "ieee")
    coarse, _, _ = matmul(torch.float32, "tf32")
    expected = a.double() @ b.double()
    assert (exact - expected).abs().max() < 1e-5
    assert 1e-4 < (coarse - expected).abs().max() < 1e-1


def test_a_matrix_unit_without_tf32_multiplies_float32_as_it_is():
    source = MATMUL.replace(", input_precision=PRECISION", "")
    torch.manual_seed(1)
    a, b = torch.randn(16, 32), torch.randn(32, 16)
    args = (a, b, Out((16, 16)), 16, 16, 32)
    tiles = {"BM": 16, "BN": 16, "BK": 32, "PRECISION": None}
    errors = {
        target: (interpret(source, *args, target=target, **tiles).only - a.double() @ b.double()).abs().max()
        for target in ("sm_90", "gfx90a")
    }
    assert errors["gfx90a"] < 1e-5 < errors["sm_90"]


def test_a_missing_mask_is_out_of_bounds_with_the_line():
    source = RMSNORM.replace("a0 + row * a3 + cols, mask=mask, other=0.0", "a0 + row * a3 + cols")
    x, weight = torch.randn(3, 100, dtype=BF16), torch.randn(100, dtype=BF16)
    reply = interpret(source, x, weight, Out((3, 100), BF16), 100, 1e-6, grid=(3,), BLOCK=128).reply
    assert (reply.outcome, reply.line, reply.finished) == ("out_of_bounds", 12, ())
    assert "element 300 of 'x0', which holds 300" in reply.reason


def test_a_grid_that_is_too_large_stores_out_of_bounds():
    x, weight = torch.randn(3, 100, dtype=BF16), torch.randn(100, dtype=BF16)
    source = RMSNORM.replace("x = tl.load(a0 + row", "x = tl.load(a0 + 0")
    reply = interpret(source, x, weight, Out((3, 100), BF16), 100, 1e-6, grid=(4,), BLOCK=128).reply
    assert (reply.outcome, reply.line) == ("out_of_bounds", 15)
    assert "element 300 of output 0" in reply.reason


def test_a_negative_index_names_the_buffer_behind_it():
    reply = interpret(
        "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.load(a0 - 2))\n", torch.ones(4), Out((1,))
    ).reply
    assert "element -2 of 'x0', which holds 4" in reply.reason


def test_an_access_across_elements_is_refused():
    source = """
@triton.jit
def kernel(a0, a1):
    p = a0.to(tl.pointer_type(tl.int8)) + 2
    tl.store(a1, tl.load(p.to(tl.pointer_type(tl.float32))))
"""
    reply = interpret(source, torch.ones(4), Out((1,))).reply
    assert reply.outcome == "out_of_bounds"
    assert "no multiple of 4" in reply.reason


def test_what_is_never_written_stays_poisoned():
    source = "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.load(a0))\n"
    got = interpret(source, torch.ones(4), Out((3,))).only
    assert got[0] == 1
    assert got[1:].isnan().all()


def test_inputs_that_are_written_come_back_changed():
    source = "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.load(a0))\n    tl.store(a0, 7.0)\n"
    run = interpret(source, torch.ones(2), Out((1,)))
    assert torch.frombuffer(bytearray(run.inputs_after[0][0]), dtype=torch.float32).tolist() == [7.0, 1.0]


def test_a_race_between_programs_loses_updates():
    source = "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a0, tl.load(a0) + 1)\n    tl.store(a1, tl.load(a0))\n"
    assert interpret(source, torch.zeros(1), Out((1,)), grid=(64,)).only < 64


NOT_KNOWN = {
    "inline assembly": (
        "@triton.jit\ndef kernel(a0, a1):\n"
        "    x = tl.load(a0)\n"
        "    y = tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [x], dtype=tl.float32, is_pure=True, pack=1)\n"
        "    tl.store(a1, y)\n",
        "does not know the inline assembly `mov.b32 $0, $1;`",
        9,
    ),
    "a global that host code makes": (
        "def host():\n    return 3.0\n\n\nFACTOR = host()\n\n\n"
        "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.load(a0) * FACTOR)\n",
        "host code computes 'FACTOR'",
        15,
    ),
    "a block as a condition": (
        "@triton.jit\ndef kernel(a0, a1):\n"
        "    x = tl.load(a0 + tl.arange(0, 2))\n    if x > 0:\n        tl.store(a1, 1.0)\n",
        "whole block",
        9,
    ),
    "no function of that name": ("other = 3\n", "top level", 1),
    "an error in the front end": (
        "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.trans(tl.load(a0)))\n",
        "stopped with",
        8,
    ),
}


def test_what_the_interpreter_does_not_know_is_not_called_wrong():
    for name, (source, hint, line) in NOT_KNOWN.items():
        reply = interpret(source, torch.ones(2), Out((1,))).reply
        assert (reply.outcome, reply.line) == ("not_interpretable", line), (name, reply)
        assert hint in reply.reason, name


def test_host_code_does_not_run_again():
    source = (
        "import triton\nimport triton.language as tl\n\n"
        "raise RuntimeError('host code ran')\n\n\n"
        "@triton.autotune(configs=[triton.Config({'BLOCK': 2})], key=['n'])\n"
        "@triton.heuristics({'EVEN': lambda args: True})\n"
        "@triton.jit\ndef kernel(a0, a1, BLOCK: tl.constexpr, EVEN: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n    tl.store(a1 + i, tl.load(a0 + i) + 1)\n"
    )
    assert interpret(source, torch.ones(2), Out((2,)), BLOCK=2, EVEN=True).only.tolist() == [2.0, 2.0]


def test_a_kernel_whose_machine_code_writes_nothing_leaves_what_was_there():
    source = "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.load(a0))\n"
    x = torch.tensor([7.0])
    found = [
        [out.item() for (out,) in interpret(source, x, Out((1,)), draws=[[x]] * 3, assembly=text).outputs]
        for text in ("st.global.b32 [%rd1], %r1;", "ld.global.b32 %r1, [%rd1];")
    ]
    assert found[0] == [7.0] * 3
    assert 7.0 not in found[1] and 0.0 in found[1]


def test_false_hints_are_held_against_the_machine_code():
    """As Triton's tutorial of persistent products has it: columns outside become the first."""
    source = """
@triton.jit
def kernel(a0, a1, a2):
    i = tl.arange(0, 16)
    cols = tl.where(i < a2, i, 0)
    x = tl.load(a0 + tl.max_contiguous(tl.multiple_of(cols, 16), 16))
    tl.store(a1 + i, x)
"""
    x = torch.arange(16, dtype=torch.float16)
    codes = {bits: f"ld.global.{bits} %r1, [%rd1]; st.global.b16 [%rd1], %r1;" for bits in ("b16", "v2.b16")}
    taken, spoilt = (interpret(source, x, Out((16,), x.dtype), 11, assembly=text) for text in codes.values())
    assert taken.only.tolist() == [*range(11), 0, 0, 0, 0, 0] and not taken.reply.note
    assert [i for i, value in enumerate(spoilt.only.tolist()) if value != taken.only[i]] == [11, 13, 15]
    assert "because of a false hint" in spoilt.reply.note


def test_buffers_are_near_each_other_in_every_other_plan():
    """A kernel that is right only if they are far apart is wrong."""
    source = """
@triton.jit
def kernel(a0, a1):
    tl.store(a1, tl.abs(a1.to(tl.int64) - a0.to(tl.int64)) >= 2147483648)
"""
    run = interpret(source, torch.zeros(4), Out((1,), torch.int8), times=4)
    assert [out.item() for (out,) in run.outputs] in ([0, 1, 0, 1], [1, 0, 1, 0])
