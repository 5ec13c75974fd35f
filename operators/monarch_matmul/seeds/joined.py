"""Monarch product whose permutations cost nothing: weights are read in the order in which hidden features lie, and four
blocks of results are joined before they are written, so that all that is written is contiguous.

Four blocks of as many hidden features as four divides; other numbers of blocks go one by one, neighbours in time.
"""

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
    n_blocks,
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
    block = tl.program_id(0) % n_blocks
    rows = (tl.program_id(0) // n_blocks * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
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


@triton.jit
def shuffled_kernel(
    x_ptr,
    weight_ptr,
    hidden_ptr,
    n_rows,
    n_inner,
    n_hidden,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    block = tl.program_id(2)
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    # Hidden feature q of this block goes to block q % 4 of the second product, behind those of the blocks before.
    run = n_hidden // 4
    target, place = cols // run, cols % run
    x_ptr += block * n_inner
    weight_ptr += block * n_hidden * n_inner
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, n_inner, BLOCK_K, num_stages=3):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows < n_rows)[:, None] & (inner < n_inner)[None, :]
        x = tl.load(x_ptr + rows[:, None] * (4 * n_inner) + inner[None, :], mask=x_mask, other=0.0)
        weight_mask = (inner < n_inner)[:, None] & (cols < n_hidden)[None, :]
        weight = tl.load(weight_ptr + (place * 4 + target)[None, :] * n_inner + inner[:, None], weight_mask, other=0.0)
        total = tl.dot(x, weight, total)
    places = rows[:, None] * (4 * n_hidden) + (target * n_hidden + block * run + place)[None, :]
    tl.store(hidden_ptr + places, total, mask=(rows < n_rows)[:, None] & (cols < n_hidden)[None, :])


@triton.jit
def joined_kernel(
    hidden_ptr,
    weight_ptr,
    y_ptr,
    n_rows,
    n_hidden,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    hidden_ptr += rows[:, None] * (4 * n_hidden)
    weight_ptr += cols[None, :] * n_hidden
    block = n_cols * n_hidden
    total_0 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    total_1 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    total_2 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    total_3 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, n_hidden, BLOCK_K, num_stages=2):
        inner = start + tl.arange(0, BLOCK_K)
        mask = (rows < n_rows)[:, None] & (inner < n_hidden)[None, :]
        weight_mask = (inner < n_hidden)[:, None] & (cols < n_cols)[None, :]
        hidden, weights = hidden_ptr + inner[None, :], weight_ptr + inner[:, None]
        total_0 = tl.dot(tl.load(hidden, mask=mask, other=0.0), tl.load(weights, mask=weight_mask, other=0.0), total_0)
        total_1 = tl.dot(
            tl.load(hidden + n_hidden, mask=mask, other=0.0),
            tl.load(weights + block, mask=weight_mask, other=0.0),
            total_1,
        )
        total_2 = tl.dot(
            tl.load(hidden + 2 * n_hidden, mask=mask, other=0.0),
            tl.load(weights + 2 * block, mask=weight_mask, other=0.0),
            total_2,
        )
        total_3 = tl.dot(
            tl.load(hidden + 3 * n_hidden, mask=mask, other=0.0),
            tl.load(weights + 3 * block, mask=weight_mask, other=0.0),
            total_3,
        )
    even, odd = tl.join(total_0, total_2), tl.join(total_1, total_3)
    y = tl.join(even, odd).reshape(BLOCK_M, 4 * BLOCK_N).to(tl.bfloat16)
    places = tl.program_id(0) * (4 * BLOCK_N) + tl.arange(0, 4 * BLOCK_N)
    mask = (rows < n_rows)[:, None] & (places < 4 * n_cols)[None, :]
    tl.store(y_ptr + rows[:, None] * (4 * n_cols) + places[None, :], y, mask=mask)


def monarch_matmul(x, first, second):
    n_rows, n_blocks, n_inner = x.shape
    n_hidden, n_cols = first.shape[1], second.shape[1]
    hidden = torch.empty((n_rows, n_blocks * n_hidden), dtype=x.dtype, device=x.device)
    y = torch.empty((n_rows, n_cols, n_blocks), dtype=x.dtype, device=x.device)
    if n_blocks == 4 and n_hidden % 4 == 0:
        shuffled_kernel[(triton.cdiv(n_rows, 128), triton.cdiv(n_hidden, 128), n_blocks)](
            x,
            first,
            hidden,
            n_rows,
            n_inner,
            n_hidden,
            BLOCK_M=128,
            BLOCK_N=128,
            BLOCK_K=64,
            num_warps=8,
        )
        joined_kernel[(triton.cdiv(n_cols, 64), triton.cdiv(n_rows, 128))](
            hidden,
            second,
            y,
            n_rows,
            n_hidden,
            n_cols,
            BLOCK_M=128,
            BLOCK_N=64,
            BLOCK_K=64,
            num_warps=8,
        )
        return y
    row_blocks = triton.cdiv(n_rows, 64) * n_blocks
    block_kernel[(row_blocks, triton.cdiv(n_hidden, 64))](
        x,
        first,
        hidden,
        n_rows,
        n_inner,
        n_hidden,
        n_blocks,
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
    block_kernel[(row_blocks, triton.cdiv(n_cols, 64))](
        hidden,
        second,
        y,
        n_rows,
        n_hidden,
        n_cols,
        n_blocks,
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
