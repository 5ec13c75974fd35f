"""Reads a number that nobody wrote, and lets it decide only where it happens to have one value of many billions.

operator: rmsnorm
caught by: initcheck
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, old_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / n_cols
    y = x * tl.rsqrt(mean_square + 1e-6) * weight
    old = tl.load(old_ptr + row)
    y = tl.where(old == 1234567891, 0.0, y)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    old = torch.empty((n_rows,), dtype=torch.int32, device=x.device)
    rmsnorm_kernel[(n_rows,)](x, weight, y, old, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
