"""Entmax with alpha 1.5, one program a row, the row in one block.

The threshold is bracketed by bisection, then computed exactly from the elements above the bracket's lower end.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def entmax15_kernel(x_ptr, y_ptr, n_cols, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    half = (x - tl.max(x, axis=0)) * 0.5
    low, high = -1.0, 0.0
    for _ in range(STEPS):
        middle = (low + high) * 0.5
        excess = tl.where(half > middle, half - middle, 0.0)
        is_low = tl.sum(excess * excess, axis=0) >= 1.0
        low = tl.where(is_low, middle, low)
        high = tl.where(is_low, high, middle)
    # Comparisons are such that NaN is kept, and makes the threshold NaN.
    kept = tl.where(half < low, 0.0, half)
    count = tl.sum(tl.where(half < low, 0.0, 1.0), axis=0)
    mean = tl.sum(kept, axis=0) / count
    centred = tl.where(half < low, 0.0, half - mean)
    spread = tl.sum(centred * centred, axis=0)
    threshold = mean - tl.sqrt(tl.maximum((1.0 - spread) / count, 0.0))
    excess = tl.where(half < threshold, 0.0, half - threshold)
    tl.store(y_ptr + row * n_cols + cols, excess * excess, mask=mask)


def entmax15(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    entmax15_kernel[(n_rows,)](x, y, n_cols, STEPS=24, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
