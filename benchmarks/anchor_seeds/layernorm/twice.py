"""As many warps as fit: 32 registers a thread, a row in one or few pieces, read twice, the second time from a cache.

Values are summed less the row's first one, so that little of the sums cancels. Results leave past the caches, where
they would take the place of the row.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def twice_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * N
    first = tl.load(x_ptr + begin).to(tl.float32)
    shift = tl.where(tl.abs(first) < float("inf"), first, 0.0)
    totals = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + begin + cols, mask=cols < N, other=0.0, eviction_policy="evict_last").to(tl.float32)
        away = tl.where(cols < N, x - shift, 0.0)
        totals += away
        squares += away * away
    moved = tl.sum(totals, axis=0) * (1.0 / N)
    variance = tl.sum(squares, axis=0) * (1.0 / N) - moved * moved
    scale = tl.rsqrt(tl.maximum(variance, 0.0, propagate_nan=tl.PropagateNan.ALL) + 1e-5)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        y = (x - shift - moved) * scale * weight + bias
        tl.store(y_ptr + begin + cols, y, mask=mask, cache_modifier=".cs")


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols <= 8192:
        block = max(triton.next_power_of_2(n_cols), 1024)
        twice_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, BLOCK=block, num_warps=max(2, block // 512))
    else:
        twice_kernel[(n_rows,)](x, weight, bias, y, N=n_cols, BLOCK=16384, num_warps=32, maxnreg=32)
    return y
