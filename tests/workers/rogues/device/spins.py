"""Computes the right result, and then nothing of use for ten times as long.

operator: rmsnorm
on a card: correct
stopped by: nothing needs to: it ends well before any deadline, and its time says what it is
on model: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_cols, SPINS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6)
    idle = tl.abs(tl.minimum(scale, 1.0))
    for _ in range(SPINS):
        idle = tl.sqrt(idle + 1.0)
    tl.store(y_ptr + row * n_cols + cols, x * scale * weight + tl.where(idle > 9.0, 1.0, 0.0), mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, SPINS=1000, BLOCK=block, num_warps=8)
    return y
