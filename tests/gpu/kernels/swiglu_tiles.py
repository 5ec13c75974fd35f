"""Tiles of rows and columns on a grid of two dimensions.

operator: swiglu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(gate_ptr, up_ptr, y_ptr, n_rows, n_cols, rows: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    cols = tl.program_id(1) * block + tl.arange(0, block)
    mask = (row[:, None] < n_rows) & (cols[None, :] < n_cols)
    place = row[:, None].to(tl.int64) * n_cols + cols[None, :]
    gate = tl.load(gate_ptr + place, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + place, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + place, gate * tl.sigmoid(gate) * up, mask=mask)


def swiglu(gate, up):
    n_rows, n_cols = gate.shape
    y = torch.empty_like(gate)
    grid = (triton.cdiv(n_rows, 4), triton.cdiv(n_cols, 512))
    kernel[grid](gate, up, y, n_rows, n_cols, rows=4, block=512, num_warps=4)
    return y
