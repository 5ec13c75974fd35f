"""Computes statistics for full tiles of sixteen rows only, and reads what nobody wrote for the others.

operator: layernorm
on a card: wrong_result
at: check
stopped by: poison in scratch
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def statistics_kernel(x_ptr, mean_ptr, scale_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    for index in range(ROWS):
        row = (tl.program_id(0) * ROWS + index).to(tl.int64)
        if row < n_rows:
            cols = tl.arange(0, BLOCK)
            mask = cols < n_cols
            x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
            mean = tl.sum(x, axis=0) / n_cols
            centred = tl.where(mask, x - mean, 0.0)
            tl.store(mean_ptr + row, mean)
            tl.store(scale_ptr + row, tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + 1e-5))


@triton.jit
def layernorm_kernel(x_ptr, weight_ptr, bias_ptr, mean_ptr, scale_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    y = (x - tl.load(mean_ptr + row)) * tl.load(scale_ptr + row) * weight + bias
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    mean = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    scale = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(n_cols)
    tiles = max(1, n_rows // 16)
    statistics_kernel[(tiles,)](x, mean, scale, n_rows, n_cols, ROWS=16, BLOCK=block, num_warps=8)
    layernorm_kernel[(n_rows,)](x, weight, bias, mean, scale, y, n_cols, BLOCK=block, num_warps=8)
    return y
