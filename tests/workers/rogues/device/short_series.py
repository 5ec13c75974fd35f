"""Takes an exponential that is good near zero only: (1 + z / 1024) to the power of 1024.

operator: softmax
on a card: wrong_result, precision
at: check
stopped by: error_ratio on every draw with distant values
on model: wrong_result, precision
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = 1.0 + (x - tl.max(x, axis=0)) / 1024
    for _ in tl.static_range(10):
        numerator = numerator * numerator
    numerator = tl.where(mask, numerator, 0.0)
    tl.store(y_ptr + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
