"""Few warps for narrow rows, more for wide ones, the row in one block; the widest in pieces, read twice.

Lanes of a piece add up what is left when the row's first value is taken away, so that little of the sums cancels.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    centred = tl.where(mask, x - tl.sum(x, axis=0) * (1.0 / N), 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) * (1.0 / N) + 1e-5)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * N + cols, centred * scale * weight + bias, mask=mask)


@triton.jit
def pieces_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * N
    lanes = tl.arange(0, ROWS)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    first = tl.load(x_ptr + begin).to(tl.float32)
    shift = tl.where(tl.abs(first) < float("inf"), first, 0.0)
    totals = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, ROWS * BLOCK):
        mask = start + lanes < N
        x = tl.load(x_ptr + begin + start + lanes, mask=mask, other=0.0, eviction_policy="evict_last")
        away = tl.where(mask, x.to(tl.float32) - shift, 0.0)
        totals += tl.sum(away, axis=0)
        squares += tl.sum(away * away, axis=0)
    moved = tl.sum(totals, axis=0) * (1.0 / N)
    variance = tl.sum(squares, axis=0) * (1.0 / N) - moved * moved
    scale = tl.rsqrt(tl.maximum(variance, 0.0, propagate_nan=tl.PropagateNan.ALL) + 1e-5)
    for start in range(0, N, ROWS * BLOCK):
        cols = start + lanes
        mask = cols < N
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        y = (x - shift - moved) * scale * weight + bias
        tl.store(y_ptr + begin + cols, y, mask=mask, eviction_policy="evict_first")


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    if n_cols <= 2048:
        row_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, BLOCK=block, num_warps=4)
    elif n_cols <= 8192:
        row_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, BLOCK=block, num_warps=8)
    else:
        pieces_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, ROWS=4, BLOCK=4096, num_warps=16)
    return y
