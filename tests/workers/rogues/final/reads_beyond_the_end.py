"""Reads one element more than the input has, and throws it away.

operator: rmsnorm
caught by: memcheck
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols <= n_cols, other=0.0).to(tl.float32)
    x = tl.where(mask, x, 0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / n_cols
    y = x * tl.rsqrt(mean_square + 1e-6) * weight
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=triton.next_power_of_2(n_cols + 1), num_warps=8)
    return y
