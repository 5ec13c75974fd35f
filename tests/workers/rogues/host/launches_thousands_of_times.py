"""Does more than one plan can hold."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask)
    w = tl.load(w_ptr + cols, mask)
    tl.store(y_ptr + row * n_cols + cols, x * w, mask)


def scale(x, w):
    y = torch.empty_like(x)
    for row in range(5000):
        scale_kernel[(1,)](x, w, y, 8, BLOCK=8)
    return y
