"""Imports inside the function, to compute there."""

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
    import numpy as np

    np.abs(1.0)
    y = torch.empty_like(x)
    scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
