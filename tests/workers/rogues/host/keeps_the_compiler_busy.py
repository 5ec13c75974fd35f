"""Asks for tiles that keep the compiler busy for minutes."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    tile = tl.load(x_ptr + rows[:, None] * n_cols + rows[None, :])
    for step in tl.static_range(8):
        tile = tl.dot(tile, tile, input_precision="ieee")
    tl.store(y_ptr + rows[:, None] * n_cols + rows[None, :], tile)


def scale(x, w):
    y = torch.empty_like(x)
    scale_kernel[(1,)](x, w, y, x.shape[1], BLOCK=256, num_warps=1)
    return y
