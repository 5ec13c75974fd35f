"""Tiles of rows and columns on a grid of two dimensions.

operator: gelu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_of(x):
    inner = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(inner)


@triton.jit
def kernel(x_ptr, y_ptr, n_rows, n_cols, rows: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    cols = tl.program_id(0) * block + tl.arange(0, block)
    mask = (row[:, None] < n_rows) & (cols[None, :] < n_cols)
    place = row[:, None].to(tl.int64) * n_cols + cols[None, :]
    x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + place, gelu_of(x), mask=mask)


def gelu(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(n_cols, 256), triton.cdiv(n_rows, 8))
    kernel[grid](x, y, n_rows, n_cols, rows=8, block=256, num_warps=4)
    return y
