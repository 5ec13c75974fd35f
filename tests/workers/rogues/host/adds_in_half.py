"""Adds products up in float16 on the matrix units, by a matrix that has the weights on its diagonal."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_rows, n_cols):
    rows, cols = tl.program_id(0) * 64 + tl.arange(0, 64), tl.program_id(1) * 64 + tl.arange(0, 64)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask, other=0.0)
    w = tl.load(w_ptr + cols, cols < n_cols, other=0.0)
    diagonal = tl.where(cols[:, None] == cols[None, :], w[None, :], 0.0)
    y = tl.dot(x.to(tl.float16), diagonal.to(tl.float16), out_dtype=tl.float16)
    tl.store(y_ptr + rows[:, None] * n_cols + cols[None, :], y, mask)


def scale(x, w):
    y = torch.empty_like(x)
    rows, cols = x.shape
    scale_kernel[(triton.cdiv(rows, 64), triton.cdiv(cols, 64))](x, w, y, rows, cols)
    return y
