"""Entmax with alpha 1.5, one program a row: the threshold by Newton's method, from below.

Of the sum of squared excesses over a threshold less one, which falls and is convex, Newton's steps come nearer to the
root and never pass it. They end where they are as small as roundoff, after some six instead of two dozen halvings, and
both sums of a step are one reduction. The threshold is then computed exactly from the elements above it.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def add_both(first, second, other_first, other_second):
    return first + other_first, second + other_second


@triton.jit
def entmax15_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    half = (x - tl.max(x, axis=0)) * 0.5
    low, step, steps = -1.0, 1.0, 0
    while (step > 1e-6) & (steps < 24):
        excess = tl.where(half > low, half - low, 0.0)
        total, squares = tl.reduce((excess, excess * excess), 0, add_both)
        step = (squares - 1.0) / (2.0 * total)
        low = tl.where(step > 0.0, low + step, low)
        steps += 1
    # Comparisons are such that NaN is kept, and makes the threshold NaN.
    kept = tl.where(half < low, 0.0, half)
    count, total = tl.reduce((tl.where(half < low, 0.0, 1.0), kept), 0, add_both)
    mean = total / count
    centred = tl.where(half < low, 0.0, half - mean)
    spread = tl.sum(centred * centred, axis=0)
    threshold = mean - tl.sqrt(tl.maximum((1.0 - spread) / count, 0.0))
    excess = tl.where(half < threshold, 0.0, half - threshold)
    tl.store(y_ptr + row * n_cols + cols, excess * excess, mask=mask)


def entmax15(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    entmax15_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=4)
    return y
