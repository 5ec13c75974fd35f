"""Leaves out the columns beyond the largest power of two, whose block would have idle lanes.

operator: rmsnorm
on a card: wrong_result
at: check
stopped by: boundary shapes, and poison in the output
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols).to(tl.float32)
    weight = tl.load(weight_ptr + cols).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / BLOCK + 1e-6) * weight
    tl.store(y_ptr + row * n_cols + cols, y)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols + 1) // 2
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=block, num_warps=8)
    return y
