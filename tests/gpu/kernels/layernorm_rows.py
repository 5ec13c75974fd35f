"""As many rows a program as make a tile of 4096 elements.

operator: layernorm
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_rows, n_cols, rows: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    cols = tl.arange(0, block)
    mask = (row[:, None] < n_rows) & (cols[None, :] < n_cols)
    place = row[:, None].to(tl.int64) * n_cols + cols[None, :]
    x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1) / n_cols
    centred = tl.where(mask, x - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / n_cols + 1e-5)
    tl.store(y_ptr + place, centred * scale[:, None] * weight[None, :] + bias[None, :], mask=mask)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    rows = max(1, 4096 // block)
    kernel[(triton.cdiv(n_rows, rows),)](x, weight, bias, y, n_rows, n_cols, rows=rows, block=block, num_warps=8)
    return y
