"""Lets every position attend to the last 256 positions only.

operator: attention
on a card: wrong_result
at: check
stopped by: error_ratio at benchmark shapes, where rows are longer
on model: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, y_ptr, n_positions, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64) * n_positions * D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, D)
    q_mask = rows[:, None] < n_positions
    q = tl.load(q_ptr + head + rows[:, None] * D + dims[None, :], mask=q_mask, other=0.0)
    peak = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    begin = tl.maximum(tl.program_id(0) * BLOCK_M - 256, 0)
    for start in range(begin, tl.minimum((tl.program_id(0) + 1) * BLOCK_M, n_positions), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + cols[None, :] * D + dims[:, None], mask=cols[None, :] < n_positions, other=0.0)
        v = tl.load(v_ptr + head + cols[:, None] * D + dims[None, :], mask=cols[:, None] < n_positions, other=0.0)
        seen = (cols[None, :] < n_positions) & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        shrink = tl.exp(peak - new_peak)
        weights = tl.exp(scores - new_peak[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        peak = new_peak
    tl.store(y_ptr + head + rows[:, None] * D + dims[None, :], mixed / total[:, None], mask=q_mask)


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(n_positions, 64), batch * heads)
    scale = head_dim**-0.5
    attention_kernel[grid](q, k, v, y, n_positions, scale, D=head_dim, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2)
    return y
