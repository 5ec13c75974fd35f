"""Queries, keys, values and results addressed by block pointers.

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
    row = tl.program_id(0) * block_m
    rows = row + tl.arange(0, block_m)
    q_tile = tl.make_block_ptr(q_ptr + head, (n_positions, d), (d, 1), (row, 0), (block_m, d), (1, 0))
    k_tile = tl.make_block_ptr(k_ptr + head, (d, n_positions), (1, d), (0, 0), (d, block_n), (0, 1))
    v_tile = tl.make_block_ptr(v_ptr + head, (n_positions, d), (d, 1), (0, 0), (block_n, d), (1, 0))
    y_tile = tl.make_block_ptr(y_ptr + head, (n_positions, d), (d, 1), (row, 0), (block_m, d), (1, 0))
    q = tl.load(q_tile, boundary_check=(0,), padding_option="zero")
    peak = tl.full((block_m,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((block_m,), dtype=tl.float32)
    mixed = tl.zeros((block_m, d), dtype=tl.float32)
    end = tl.minimum(row + block_m, n_positions) if causal else n_positions
    for start in range(0, end, block_n):
        cols = start + tl.arange(0, block_n)
        seen = cols[None, :] < n_positions
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        k = tl.load(k_tile, boundary_check=(1,), padding_option="zero")
        v = tl.load(v_tile, boundary_check=(0,), padding_option="zero")
        scores = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        shrink = tl.exp2(peak - new_peak)
        weights = tl.exp2(scores - new_peak[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        peak = new_peak
        k_tile = tl.advance(k_tile, (0, block_n))
        v_tile = tl.advance(v_tile, (block_n, 0))
    tl.store(y_tile, (mixed / total[:, None]).to(tl.bfloat16), boundary_check=(0,))


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(n_positions, 64), batch * heads)
    scale = head_dim**-0.5 * 1.4426950408889634
    options = {"d": head_dim, "block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 2}
    kernel[grid](q, k, v, y, n_positions, scale, causal=causal, **options)
    return y
