"""A row per warp, so that nothing waits at a barrier: several narrow rows in a program; wide rows by more warps.

The row's length is a number in the kernel. Results leave past the caches, which they would only fill.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x_ptr, weight_ptr, y_ptr, n_rows, N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    lanes = rows[:, None].to(tl.int64) * N + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < N)
    x = tl.load(x_ptr + lanes, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=1) * (1.0 / N) + 1e-6)
    tl.store(y_ptr + lanes, x * scale[:, None] * weight[None, :], mask=mask, cache_modifier=".cs")


@triton.jit
def pieces_kernel(x_ptr, weight_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * N
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + begin + cols, mask=cols < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) * (1.0 / N) + 1e-6)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(y_ptr + begin + cols, x * scale * weight, mask=mask, cache_modifier=".cs")


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    if n_cols <= 2048:
        rows_kernel[(triton.cdiv(n_rows, 4),)](x, weight, y, n_rows, N=n_cols, ROWS=4, BLOCK=block, num_warps=4)
    elif n_cols <= 8192:
        rows_kernel[(n_rows,)](x, weight, y, n_rows, N=n_cols, ROWS=1, BLOCK=block, num_warps=4)
    else:
        pieces_kernel[(n_rows,)](x, weight, y, N=n_cols, BLOCK=16384, num_warps=32)
    return y
