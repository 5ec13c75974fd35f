"""The width of a row as a constant: no mask where it is a power of two.

operator: rmsnorm
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, weight_ptr, y_ptr, n_cols: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, block)
    if n_cols == block:
        x = tl.load(x_ptr + row + cols).to(tl.float32)
        weight = tl.load(weight_ptr + cols, eviction_policy="evict_last").to(tl.float32)
        tl.store(y_ptr + row + cols, x * tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6) * weight)
    else:
        mask = cols < n_cols
        x = tl.load(x_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(y_ptr + row + cols, x * tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6) * weight, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    kernel[(n_rows,)](x, weight, y, n_cols=n_cols, block=triton.next_power_of_2(n_cols), num_warps=4)
    return y
