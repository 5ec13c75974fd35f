"""Takes the mean square of the first nine tenths of a row for that of the whole.

operator: rmsnorm
on a card: wrong_result, precision
at: check
stopped by: special_values, error_ratio
on model: wrong_result, precision
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_cols, n_summed, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(tl.where(cols < n_summed, x * x, 0.0), axis=0) / n_summed
    tl.store(y_ptr + row * n_cols + cols, x * tl.rsqrt(mean_square + 1e-6) * weight, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    summed, block = max(1, n_cols * 9 // 10), triton.next_power_of_2(n_cols)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, summed, BLOCK=block, num_warps=8)
    return y
