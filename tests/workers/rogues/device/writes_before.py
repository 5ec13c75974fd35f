"""The first program writes one element in front of the output.

operator: softmax
on a card: out_of_bounds
at: check
stopped by: red zones around every buffer
on model: out_of_bounds
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
    numerator = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * n_cols + cols, numerator / total, mask=mask)
    if row == 0:
        tl.store(y_ptr - 1, total)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
