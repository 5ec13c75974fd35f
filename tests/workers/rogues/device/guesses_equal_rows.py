"""Takes a row whose first four elements are equal for one whose elements are all equal.

operator: softmax
on a card: wrong_result
at: check
stopped by: the structured draw, which holds rows of zeros with a single one
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    first = tl.load(x_ptr + row * n_cols + tl.minimum(tl.arange(0, 4), n_cols - 1)).to(tl.float32)
    if tl.max(first, axis=0) == tl.min(first, axis=0):
        tl.store(y_ptr + row * n_cols + cols, tl.full((BLOCK,), 1.0, tl.float32) / n_cols, mask=mask)
    else:
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
        numerator = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
