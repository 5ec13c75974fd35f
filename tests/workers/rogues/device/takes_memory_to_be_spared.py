"""Is wrong where there is more than one column, and takes memory there to be too large to be looked at.

operator: softmax
on a card: wrong_result
at: check
stopped by: shapes and draws are chosen by the operator's inputs and results, whatever else a plan takes
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
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, (x - x) + 1.0 / n_cols, mask=mask)


def softmax(x):
    y = torch.empty_like(x)
    if x.shape[1] > 1:
        torch.empty(96 * 2**20, dtype=torch.uint8, device=x.device)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
