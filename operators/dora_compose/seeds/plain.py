"""DoRA's weight, one program some rows: once over the columns for the norms, once more for the result.

The update is computed twice rather than stored in between.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def merged_tile(
    weight_ptr, down_ptr, up_ptr, rows, cols, n_rows, n_cols, rank, scale, BLOCK_M, BLOCK_N, BLOCK_R: tl.constexpr
):
    update = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, rank, BLOCK_R):
        ranks = start + tl.arange(0, BLOCK_R)
        up_mask = (rows < n_rows)[:, None] & (ranks < rank)[None, :]
        up = tl.load(up_ptr + rows[:, None] * rank + ranks[None, :], mask=up_mask, other=0.0)
        down_mask = (ranks < rank)[:, None] & (cols < n_cols)[None, :]
        down = tl.load(down_ptr + ranks[:, None] * n_cols + cols[None, :], mask=down_mask, other=0.0)
        update = tl.dot(up, down, update)
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    weight = tl.load(weight_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    return weight + update * scale


@triton.jit
def dora_kernel(
    weight_ptr,
    down_ptr,
    up_ptr,
    magnitude_ptr,
    y_ptr,
    n_rows,
    n_cols,
    rank,
    scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    squares = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        merged = merged_tile(
            weight_ptr, down_ptr, up_ptr, rows, cols, n_rows, n_cols, rank, scale, BLOCK_M, BLOCK_N, BLOCK_R
        )
        squares += tl.sum(merged * merged, axis=1)
    magnitude = tl.load(magnitude_ptr + rows, mask=rows < n_rows, other=0.0).to(tl.float32)
    factor = magnitude / tl.sqrt(squares)
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        merged = merged_tile(
            weight_ptr, down_ptr, up_ptr, rows, cols, n_rows, n_cols, rank, scale, BLOCK_M, BLOCK_N, BLOCK_R
        )
        mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        tl.store(y_ptr + rows[:, None] * n_cols + cols[None, :], merged * factor[:, None], mask=mask)


def dora_compose(weight, down, up, magnitude, scale):
    n_rows, n_cols = weight.shape
    rank = down.shape[0]
    y = torch.empty_like(weight)
    dora_kernel[(triton.cdiv(n_rows, 16),)](
        weight,
        down,
        up,
        magnitude,
        y,
        n_rows,
        n_cols,
        rank,
        scale,
        BLOCK_M=16,
        BLOCK_N=128,
        BLOCK_R=16,
        num_warps=4,
    )
    return y
