"""Tiles moved by the tensor memory accelerator where rows are aligned for it.

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
def bulk_kernel(x_ptr, y_ptr, n_rows, n_cols, rows: tl.constexpr, block: tl.constexpr):
    row, col = tl.program_id(1) * rows, tl.program_id(0) * block
    x_tiles = tl.make_tensor_descriptor(x_ptr, (n_rows, n_cols), (n_cols, 1), (rows, block))
    y_tiles = tl.make_tensor_descriptor(y_ptr, (n_rows, n_cols), (n_cols, 1), (rows, block))
    x = x_tiles.load([row, col]).to(tl.float32)
    y_tiles.store([row, col], gelu_of(x).to(tl.bfloat16))


@triton.jit
def plain_kernel(x_ptr, y_ptr, n_elements, block: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, gelu_of(x), mask=mask)


def gelu(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 8 == 0:
        grid = (triton.cdiv(n_cols, 128), triton.cdiv(n_rows, 32))
        bulk_kernel[grid](x, y, n_rows, n_cols, rows=32, block=128, num_warps=4)
    else:
        plain_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), block=1024, num_warps=4)
    return y
