"""Several short rows per program, each within one warp; a long row in pieces, with a maximum and a sum per lane.

Rows within warps exchange nothing through shared memory. Powers of two, and one division per row.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x_ptr, y_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    place = rows[:, None] * n_cols + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + place, mask=mask, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
    numerator = tl.exp2((x - tl.max(x, axis=1)[:, None]) * 1.4426950408889634)
    scale = 1.0 / tl.sum(numerator, axis=1)
    tl.store(y_ptr + place, numerator * scale[:, None], mask=mask)


@triton.jit
def pieces_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * n_cols
    lanes = tl.arange(0, BLOCK)
    peaks = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + lanes
        x = tl.load(x_ptr + begin + cols, mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_last")
        x = x.to(tl.float32) * 1.4426950408889634
        new_peaks = tl.maximum(peaks, x)
        shift = tl.where(new_peaks == -float("inf"), 0.0, new_peaks)
        sums = sums * tl.exp2(peaks - shift) + tl.exp2(x - shift)
        peaks = new_peaks
    peak = tl.max(peaks, axis=0)
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    scale = 1.0 / tl.sum(sums * tl.exp2(peaks - shift), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + lanes
        mask = cols < n_cols
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        tl.store(y_ptr + begin + cols, tl.exp2(x * 1.4426950408889634 - peak) * scale, mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols <= 1024:
        block = triton.next_power_of_2(n_cols)
        rows_kernel[(triton.cdiv(n_rows, 4),)](x, y, n_rows, n_cols, ROWS=4, BLOCK=block, num_warps=4)
    elif n_cols <= 16384:
        block = triton.next_power_of_2(n_cols)
        rows_kernel[(n_rows,)](x, y, n_rows, n_cols, ROWS=1, BLOCK=block, num_warps=8)
    else:
        pieces_kernel[(n_rows,)](x, y, n_cols, BLOCK=8192, num_warps=16)
    return y
