"""Where TF32 is allowed, products may be TF32, and nothing may be coarser."""

import pytest

from tests.workers.rogues.modelled import DEVICE, model_job, trace_of
from tests.workers.rogues.ordered import HEADER, operator, tensor
from workers.devices import ModelDevice
from workers.protocol import Outcome

OPERATOR = operator(
    "gated",
    "def gated(a, b):\n    return torch.sigmoid(torch.relu(a @ b)) + 1.0\n",
    [tensor("a", "M", "K"), tensor("b", "K", "N")],
    shapes=[{"dims": {"M": 64, "N": 64, "K": 64}}],
    ranges={"M": (1, 64), "N": (1, 128), "K": (1, 64)},
    precision={"allow_tf32": True},
)
"""Results are near one, where a bound by their scale alone lets bfloat16 through."""
KERNEL = (
    HEADER
    + """@triton.jit
def kernel(a_ptr, b_ptr, y_ptr, M, N, K, R: tl.constexpr):
    rows, cols = tl.program_id(0) * R + tl.arange(0, R), tl.program_id(1) * R + tl.arange(0, R)
    total = tl.zeros((R, R), tl.float32)
    for start in range(0, K, R):
        ks = start + tl.arange(0, R)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        total = tl.dot({a}, {b}, total)
    y = 1 / (1 + tl.exp(-tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL))) + 1.0
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], {y}, mask=(rows[:, None] < M) & (cols[None, :] < N))


def gated(a, b):
    y = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(a.shape[0], 32), triton.cdiv(b.shape[1], 32))
    kernel[grid](a, b, y, a.shape[0], b.shape[1], a.shape[1], R=32)
    return y
"""
)
PARTS = {"a": "a", "b": "b", "y": "y"}
HALF = "{}.to(tl.bfloat16)"
WRONG = {
    "factors": {"a": HALF.format("a"), "b": HALF.format("b")},
    "one factor": {"a": HALF.format("a") + ".to(tl.float32)"},
    "results": {"y": HALF.format("y") + ".to(tl.float32)"},
}
"""Parts that are bfloat16."""


def outcome(**parts: str) -> Outcome:
    source = KERNEL.format(**PARTS | parts)
    job = model_job(OPERATOR, source, trace_of(OPERATOR, source), trace_of(OPERATOR, None).graphs)
    return ModelDevice(DEVICE, "tester").measure(job).outcome


def test_products_in_tf32_are_right() -> None:
    assert outcome() is Outcome.CORRECT


@pytest.mark.parametrize("what", WRONG)
def test_what_is_bfloat16_is_refused(what: str) -> None:
    assert outcome(**WRONG[what]) in (Outcome.PRECISION, Outcome.WRONG_RESULT)
