"""Queries, keys and values moved by the tensor memory accelerator, one descriptor each a head.

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
    q_tiles = tl.make_tensor_descriptor(q_ptr + head, (n_positions, d), (d, 1), (block_m, d))
    k_tiles = tl.make_tensor_descriptor(k_ptr + head, (n_positions, d), (d, 1), (block_n, d))
    v_tiles = tl.make_tensor_descriptor(v_ptr + head, (n_positions, d), (d, 1), (block_n, d))
    y_tiles = tl.make_tensor_descriptor(y_ptr + head, (n_positions, d), (d, 1), (block_m, d))
    q = q_tiles.load([row, 0])
    peak = tl.full((block_m,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((block_m,), dtype=tl.float32)
    mixed = tl.zeros((block_m, d), dtype=tl.float32)
    end = tl.minimum(row + block_m, n_positions) if causal else n_positions
    for start in range(0, end, block_n):
        cols = start + tl.arange(0, block_n)
        seen = cols[None, :] < n_positions
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, k_tiles.load([start, 0]).T) * scale, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        shrink = tl.exp2(peak - new_peak)
        weights = tl.exp2(scores - new_peak[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(tl.bfloat16), v_tiles.load([start, 0]), mixed * shrink[:, None])
        peak = new_peak
    y_tiles.store([row, 0], (mixed / total[:, None]).to(tl.bfloat16))


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(n_positions, 64), batch * heads)
    scale = head_dim**-0.5 * 1.4426950408889634
    options = {"d": head_dim, "block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 3}
    kernel[grid](q, k, v, y, n_positions, scale, causal=causal, **options)
    return y
