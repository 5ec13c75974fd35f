"""Maxima and sums of rows in one kernel, results over tiles in another.

operator: softmax
"""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, peak_ptr, total_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0)
    peak = -float("inf")
    total = 0.0
    for start in range(0, n_cols, block):
        cols = start + tl.arange(0, block)
        place = x_ptr + row.to(tl.int64) * n_cols + cols
        x = tl.load(place, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(x - shift), axis=0)
        peak = new_peak
    tl.store(peak_ptr + row, peak)
    tl.store(total_ptr + row, total)


@triton.jit
def result_kernel(x_ptr, peak_ptr, total_ptr, y_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * block + tl.arange(0, block)
    mask = cols < n_cols
    place = row.to(tl.int64) * n_cols + cols
    x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + place, tl.exp(x - tl.load(peak_ptr + row)) / tl.load(total_ptr + row), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    peak = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    total = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    sum_kernel[(n_rows,)](x, peak, total, n_cols, block=2048, num_warps=8)
    result_kernel[(n_rows, triton.cdiv(n_cols, 2048))](x, peak, total, y, n_cols, block=2048, num_warps=4)
    return y
