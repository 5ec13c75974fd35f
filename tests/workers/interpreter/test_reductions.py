"""Reductions and scans, by numpy and by the combine function."""

import pytest
import torch

from tests.workers.interpreter.stage import Out, interpret

X = torch.randn(8, 16, generator=torch.Generator().manual_seed(5))

KERNEL = """
@triton.jit
def add(a, b):
    return a + b


@triton.jit
def farther(a, i, b, j):
    first = tl.abs(a) > tl.abs(b)
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def kernel(a0, a1, SIZE: tl.constexpr):
    rows = tl.arange(0, 8)
    cols = tl.arange(0, 16)
    x = tl.load(a0 + rows[:, None] * 16 + cols[None, :])
    index = tl.broadcast_to(cols[None, :], (8, 16))
    y = {expression}
    tl.store(a1 + tl.arange(0, SIZE), tl.ravel(y).to(tl.float32))
"""

CASES = {
    "tl.sum(x, axis=1)": X.sum(1),
    "tl.sum(x, 0)": X.sum(0),
    "x.sum(axis=1)": X.sum(1),
    "tl.sum(x, 1, keep_dims=True) + x * 0": X.sum(1, keepdim=True).expand(8, 16),
    "tl.full((1,), tl.sum(x), tl.float32)": X.sum().view(1),
    "tl.max(x, axis=1)": X.amax(1),
    "tl.min(x, axis=0)": X.amin(0),
    "tl.argmax(x, axis=1)": X.argmax(1),
    "tl.argmin(x, axis=1)": X.argmin(1),
    "tl.max(x, axis=1, return_indices=True)[1]": X.argmax(1),
    "tl.xor_sum(index, 1)": torch.zeros(8),
    "tl.reduce(x, 1, add)": X.sum(1),
    "tl.reduce((x, index), 1, farther)[0]": X.gather(1, X.abs().argmax(1, keepdim=True))[:, 0],
    "tl.reduce((x, index), 1, farther)[1]": X.abs().argmax(1),
    "tl.cumsum(x, 1)": X.cumsum(1),
    "tl.cumsum(x, 1, reverse=True)": X.flip(1).cumsum(1).flip(1),
    "tl.cumprod(x, 0)": X.cumprod(0),
    "tl.associative_scan(x, 1, add)": X.cumsum(1),
    "tl.sort(x)": X.sort(1).values,
    "tl.sort(x, descending=True)": X.sort(1, descending=True).values,
    "tl.topk(x, 4)": X.topk(4, 1).values,
}


@pytest.mark.parametrize("expression", CASES)
def test_against_torch(expression):
    expected = CASES[expression].reshape(-1).float()
    run = interpret(KERNEL.format(expression=expression), X, Out((expected.numel(),)), SIZE=expected.numel())
    torch.testing.assert_close(run.only, expected, rtol=1e-5, atol=1e-5)


def test_half_precision_sums_round_in_a_tree():
    source = "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.sum(tl.load(a0 + tl.arange(0, 4096)), 0))\n"
    x = torch.full((4096,), 1.001, dtype=torch.float16)
    tree = x
    while len(tree) > 1:
        tree = tree[0::2] + tree[1::2]
    assert torch.equal(interpret(source, x, Out((1,), torch.float16)).only, tree)


def test_a_maximum_drops_nan():
    source = "@triton.jit\ndef kernel(a0, a1):\n    tl.store(a1, tl.max(tl.load(a0 + tl.arange(0, 2)), 0))\n"
    assert interpret(source, torch.tensor([float("nan"), 2.0]), Out((1,))).only == 2


def test_what_is_combined_must_be_commutative():
    source = """
@triton.jit
def descents(first, last, count, other, end, more):
    return first, end, count + more + (last > other).to(tl.int32)


@triton.jit
def kernel(a0, a1):
    lane = tl.arange(0, 64)
    _, _, count = tl.reduce((lane, lane, lane * 0), 0, descents)
    tl.store(a1, count)
"""
    assert interpret(source, torch.zeros(1), Out((1,), torch.int32)).only.item() > 0, (
        "threads combine what is far apart"
    )
