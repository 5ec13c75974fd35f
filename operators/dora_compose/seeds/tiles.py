"""DoRA's weight in two launches over tiles: squares of parts of rows first, then the result, the weight read twice.

Both have thousands of programs that need nothing of each other; the second finds much of the weight in the cache. The
update is computed twice rather than stored in between.
"""

import torch
import triton
import triton.language as tl

PART = 512


@triton.jit
def merged_tile(weight_ptr, down_ptr, up_ptr, rows, cols, n_rows, n_cols, rank, scale, BLOCK_R: tl.constexpr):
    update = tl.zeros((rows.shape[0], cols.shape[0]), dtype=tl.float32)
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
def squares_kernel(
    weight_ptr,
    down_ptr,
    up_ptr,
    squares_ptr,
    n_rows,
    n_cols,
    rank,
    scale,
    PART: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    part = tl.program_id(1)
    squares = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(part * PART, tl.minimum((part + 1) * PART, n_cols), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        merged = merged_tile(weight_ptr, down_ptr, up_ptr, rows, cols, n_rows, n_cols, rank, scale, BLOCK_R)
        squares += tl.sum(merged * merged, axis=1)
    tl.store(squares_ptr + part * n_rows + rows, squares, mask=rows < n_rows)


@triton.jit
def compose_kernel(
    weight_ptr,
    down_ptr,
    up_ptr,
    magnitude_ptr,
    squares_ptr,
    y_ptr,
    n_rows,
    n_cols,
    rank,
    n_parts,
    scale,
    PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    parts = tl.arange(0, PARTS)
    known = (parts < n_parts)[:, None] & (rows < n_rows)[None, :]
    squares = tl.load(squares_ptr + parts[:, None] * n_rows + rows[None, :], mask=known, other=0.0)
    magnitude = tl.load(magnitude_ptr + rows, mask=rows < n_rows, other=0.0).to(tl.float32)
    factor = magnitude / tl.sqrt(tl.sum(squares, axis=0))
    merged = merged_tile(weight_ptr, down_ptr, up_ptr, rows, cols, n_rows, n_cols, rank, scale, BLOCK_R)
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    tl.store(y_ptr + rows[:, None] * n_cols + cols[None, :], merged * factor[:, None], mask=mask)


def dora_compose(weight, down, up, magnitude, scale):
    n_rows, n_cols = weight.shape
    rank = down.shape[0]
    y = torch.empty_like(weight)
    n_parts = triton.cdiv(n_cols, PART)
    squares = torch.empty((n_parts, n_rows), dtype=torch.float32, device=weight.device)
    block_r = min(64, max(16, triton.next_power_of_2(rank)))
    squares_kernel[(triton.cdiv(n_rows, 64), n_parts)](
        weight,
        down,
        up,
        squares,
        n_rows,
        n_cols,
        rank,
        scale,
        PART=PART,
        BLOCK_M=64,
        BLOCK_N=128,
        BLOCK_R=block_r,
        num_warps=8,
        num_stages=1,
    )
    compose_kernel[(triton.cdiv(n_rows, 64), triton.cdiv(n_cols, 128))](
        weight,
        down,
        up,
        magnitude,
        squares,
        y,
        n_rows,
        n_cols,
        rank,
        n_parts,
        scale,
        PARTS=triton.next_power_of_2(n_parts),
        BLOCK_M=64,
        BLOCK_N=128,
        BLOCK_R=block_r,
        num_warps=8,
        num_stages=1,
    )
    return y
