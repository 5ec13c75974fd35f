"""The last program writes sixteen elements behind the end of the output.

operator: rmsnorm
on a card: out_of_bounds
at: check
stopped by: red zones around every buffer
on model: out_of_bounds
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6)
    tl.store(y_ptr + row * n_cols + cols, x * scale * weight, mask=mask)
    if row + 1 == n_rows:
        tl.store(y_ptr + n_rows * n_cols + tl.arange(0, 16), scale)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_rows, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
