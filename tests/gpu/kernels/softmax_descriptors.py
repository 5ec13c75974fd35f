"""Rows of 1024 columns and more moved by the tensor memory accelerator, a tile of columns at a time.

operator: softmax
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bulk_kernel(x_ptr, y_ptr, n_rows, n_cols, rows: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0) * rows
    x_tiles = tl.make_tensor_descriptor(x_ptr, (n_rows, n_cols), (n_cols, 1), (rows, block))
    y_tiles = tl.make_tensor_descriptor(y_ptr, (n_rows, n_cols), (n_cols, 1), (rows, block))
    peak = tl.full((rows,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((rows,), dtype=tl.float32)
    for start in range(0, n_cols, block):
        seen = start + tl.arange(0, block)[None, :] < n_cols
        x = tl.where(seen, x_tiles.load([row, start]).to(tl.float32), -float("inf"))
        new_peak = tl.maximum(peak, tl.max(x, axis=1))
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(x - shift[:, None]), axis=1)
        peak = new_peak
    for start in range(0, n_cols, block):
        x = x_tiles.load([row, start]).to(tl.float32)
        y_tiles.store([row, start], (tl.exp(x - peak[:, None]) / total[:, None]).to(tl.bfloat16))


@triton.jit
def plain_kernel(x_ptr, y_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, block)
    mask = cols < n_cols
    x = tl.load(x_ptr + row + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 8 == 0:
        bulk_kernel[(triton.cdiv(n_rows, 8),)](x, y, n_rows, n_cols, rows=8, block=256, num_warps=4)
    else:
        plain_kernel[(n_rows,)](x, y, n_cols, block=triton.next_power_of_2(n_cols), num_warps=8)
    return y
