"""The scales of rows in one kernel, results over tiles in another.

operator: rmsnorm
"""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, n_cols, block):
        cols = start + tl.arange(0, block)
        x = tl.load(x_ptr + row.to(tl.int64) * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        squares += x * x
    tl.store(scale_ptr + row, tl.rsqrt(tl.sum(squares, axis=0) / n_cols + 1e-6))


@triton.jit
def result_kernel(x_ptr, weight_ptr, scale_ptr, y_ptr, n_rows, n_cols, rows: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    cols = tl.program_id(0) * block + tl.arange(0, block)
    mask = (row[:, None] < n_rows) & (cols[None, :] < n_cols)
    place = row[:, None].to(tl.int64) * n_cols + cols[None, :]
    x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + row, mask=row < n_rows, other=0.0)
    tl.store(y_ptr + place, x * scale[:, None] * weight[None, :], mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    scale = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    scale_kernel[(n_rows,)](x, scale, n_cols, block=2048, num_warps=8)
    grid = (triton.cdiv(n_cols, 256), triton.cdiv(n_rows, 16))
    result_kernel[grid](x, weight, scale, y, n_rows, n_cols, rows=16, block=256, num_warps=4)
    return y
