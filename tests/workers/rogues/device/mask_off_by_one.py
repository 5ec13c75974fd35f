"""Lets one element too many into every row whose block has room for it: that of the next row.

operator: softmax
on a card: wrong_result
at: check
stopped by: boundary shapes; behind the last row lies a red zone of random bytes
on model: out_of_bounds, wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols <= n_cols, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=cols < n_cols)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
