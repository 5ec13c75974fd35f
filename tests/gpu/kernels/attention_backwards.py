"""Keys from the diagonal backwards: the largest scores tend to come first.

operator: attention
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    y_ptr,
    n_positions,
    scale,
    causal: tl.constexpr,
    d: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * d
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)
    dims = tl.arange(0, d)
    q = tl.load(q_ptr + head + rows[:, None] * d + dims[None, :], mask=rows[:, None] < n_positions, other=0.0)
    peak = tl.full((block_m,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((block_m,), dtype=tl.float32)
    mixed = tl.zeros((block_m, d), dtype=tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * block_m, n_positions) if causal else n_positions
    blocks = tl.cdiv(end, block_n)
    for index in range(0, blocks):
        cols = (blocks - 1 - index) * block_n + tl.arange(0, block_n)
        k = tl.load(k_ptr + head + cols[None, :] * d + dims[:, None], mask=cols[None, :] < n_positions, other=0.0)
        v = tl.load(v_ptr + head + cols[:, None] * d + dims[None, :], mask=cols[:, None] < n_positions, other=0.0)
        seen = cols[None, :] < n_positions
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        shrink = tl.exp2(peak - shift)
        weights = tl.exp2(scores - shift[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        peak = new_peak
    place = y_ptr + head + rows[:, None] * d + dims[None, :]
    tl.store(place, mixed / total[:, None], mask=rows[:, None] < n_positions)


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(n_positions, 64), batch * heads)
    scale = head_dim**-0.5 * 1.4426950408889634
    options = {"d": head_dim, "block_m": 64, "block_n": 32, "num_warps": 4, "num_stages": 3}
    kernel[grid](q, k, v, y, n_positions, scale, causal=causal, **options)
    return y
