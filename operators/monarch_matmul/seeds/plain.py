"""Monarch product in two launches, one a block-diagonal matrix; the permutations are addresses."""

import torch
import triton
import triton.language as tl


@triton.jit
def block_kernel(
    x_ptr,
    weight_ptr,
    y_ptr,
    n_rows,
    n_inner,
    n_cols,
    stride_x_row,
    stride_x_block,
    stride_x_inner,
    stride_y_row,
    stride_y_block,
    stride_y_col,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    block = tl.program_id(2)
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_ptr += block * stride_x_block
    weight_ptr += block * n_cols * n_inner
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n_inner, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows < n_rows)[:, None] & (inner < n_inner)[None, :]
        x = tl.load(x_ptr + rows[:, None] * stride_x_row + inner[None, :] * stride_x_inner, mask=x_mask, other=0.0)
        weight_mask = (inner < n_inner)[:, None] & (cols < n_cols)[None, :]
        weight = tl.load(weight_ptr + cols[None, :] * n_inner + inner[:, None], mask=weight_mask, other=0.0)
        total = tl.dot(x, weight, total)
    places = rows[:, None] * stride_y_row + block * stride_y_block + cols[None, :] * stride_y_col
    tl.store(y_ptr + places, total, mask=(rows < n_rows)[:, None] & (cols < n_cols)[None, :])


def monarch_matmul(x, first, second):
    n_rows, n_blocks, n_inner = x.shape
    n_hidden, n_cols = first.shape[1], second.shape[1]
    hidden = torch.empty((n_rows, n_blocks * n_hidden), dtype=x.dtype, device=x.device)
    y = torch.empty((n_rows, n_cols, n_blocks), dtype=x.dtype, device=x.device)
    row_blocks = triton.cdiv(n_rows, 64)
    block_kernel[(row_blocks, triton.cdiv(n_hidden, 64), n_blocks)](
        x,
        first,
        hidden,
        n_rows,
        n_inner,
        n_hidden,
        n_blocks * n_inner,
        n_inner,
        1,
        n_blocks * n_hidden,
        n_hidden,
        1,
        BLOCK_M=64,
        BLOCK_N=64,
        BLOCK_K=32,
        num_warps=4,
    )
    block_kernel[(row_blocks, triton.cdiv(n_cols, 64), n_blocks)](
        hidden,
        second,
        y,
        n_rows,
        n_hidden,
        n_cols,
        n_blocks * n_hidden,
        1,
        n_blocks,
        n_blocks * n_cols,
        1,
        n_blocks,
        BLOCK_M=64,
        BLOCK_N=64,
        BLOCK_K=32,
        num_warps=4,
    )
    return y
