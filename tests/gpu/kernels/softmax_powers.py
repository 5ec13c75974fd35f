"""Powers of two, one warp for short rows and more for long ones.

operator: softmax
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, block)
    mask = cols < n_cols
    x = tl.load(x_ptr + row + cols, mask=mask, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
    numerator = tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)
    tl.store(y_ptr + row + cols, numerator * (1.0 / tl.sum(numerator, axis=0)), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    kernel[(n_rows,)](x, y, n_cols, block=block, num_warps=min(16, max(1, block // 512)))
    return y
