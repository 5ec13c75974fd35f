"""Few warps for narrow rows, more for wide ones, the row in one block; the widest in blocks, read twice.

Of the widest as many warps run as fit, with 32 registers a thread; the second time a row comes from a cache, and
results leave past it. Lanes add up what is left when the row's first value is taken away, so that little of the sums
cancels.
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
def twice_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * N
    first = tl.load(x_ptr + begin).to(tl.float32)
    shift = tl.where(tl.abs(first) < float("inf"), first, 0.0)
    totals = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = (cols < N) | EVEN
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        away = tl.where(mask, x - shift, 0.0)
        totals += away
        squares += away * away
    moved = tl.sum(totals, axis=0) * (1.0 / N)
    variance = tl.sum(squares, axis=0) * (1.0 / N) - moved * moved
    scale = tl.rsqrt(tl.maximum(variance, 0.0, propagate_nan=tl.PropagateNan.ALL) + 1e-5)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = (cols < N) | EVEN
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        y = (x - shift - moved) * scale * weight + bias
        tl.store(y_ptr + begin + cols, y, mask=mask, cache_modifier=".cs")


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    if n_cols <= 2048:
        row_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, BLOCK=block, num_warps=4)
    elif n_cols <= 8192:
        row_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, BLOCK=block, num_warps=8)
    else:
        even = n_cols % 16384 == 0
        twice_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, BLOCK=16384, EVEN=even, num_warps=32, maxnreg=32)
    return y
