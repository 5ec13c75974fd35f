"""A persistent kernel whose programs come round four times and no more, however many rows are left.

operator: rmsnorm
on a card: wrong_result
at: check
stopped by: error_ratio at benchmark shapes, all of whose elements are compared
on model: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_rows, n_cols, TURNS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    for turn in range(TURNS):
        row = (tl.program_id(0) + turn * tl.num_programs(0)).to(tl.int64)
        mask = (cols < n_cols) & (row < n_rows)
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        y = x * tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6) * weight
        tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    rmsnorm_kernel[(min(n_rows, 264),)](x, weight, y, n_rows, n_cols, TURNS=4, BLOCK=block, num_warps=8)
    return y
