"""Needs more shared memory than the target has."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    rows = tl.arange(0, BLOCK)
    tile = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :])
    product = tl.dot(tile, tl.trans(tile))
    for step in range(0, n_cols, BLOCK):
        tile = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :] + step)
        product = tl.dot(tile, tl.trans(tile), product)
    tl.store(y_ptr + rows[:, None] * n_cols + cols[None, :], product)


def scale(x, w):
    y = torch.empty_like(x)
    scale_kernel[(1,)](x, w, y, x.shape[1], BLOCK=128, num_stages=8, num_warps=8)
    return y
