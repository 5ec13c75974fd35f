"""Attention with an online softmax over the keys of a window only, one program a block of queries of one head."""

import torch
import triton
import triton.language as tl


@triton.jit
def sliding_window_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    y_ptr,
    n_positions,
    window,
    scale,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * D
    first = tl.program_id(0) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_mask = (rows[:, None] < n_positions) & (dims[None, :] < D)
    q = tl.load(q_ptr + head + rows[:, None] * D + dims[None, :], mask=q_mask, other=0.0)
    peak = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    begin = tl.maximum(first - window + 1, 0) // BLOCK_N * BLOCK_N
    end = tl.minimum(first + BLOCK_M, n_positions)
    for start in range(begin, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_mask = (dims[:, None] < D) & (cols[None, :] < n_positions)
        v_mask = (cols[:, None] < n_positions) & (dims[None, :] < D)
        k = tl.load(k_ptr + head + cols[None, :] * D + dims[:, None], mask=k_mask, other=0.0)
        v = tl.load(v_ptr + head + cols[:, None] * D + dims[None, :], mask=v_mask, other=0.0)
        behind = rows[:, None] - cols[None, :]
        seen = (behind >= 0) & (behind < window) & (cols[None, :] < n_positions)
        scores = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        # While a row has seen no key, there is no maximum to shift by.
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        shrink = tl.exp(peak - shift)
        weights = tl.exp(scores - shift[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        peak = new_peak
    tl.store(y_ptr + head + rows[:, None] * D + dims[None, :], mixed / total[:, None], mask=q_mask)


def sliding_window_attention(q, k, v, window):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    block_d = max(16, triton.next_power_of_2(head_dim))
    grid = (triton.cdiv(n_positions, 64), batch * heads)
    sliding_window_attention_kernel[grid](
        q,
        k,
        v,
        y,
        n_positions,
        window,
        head_dim**-0.5,
        D=head_dim,
        BLOCK_D=block_d,
        BLOCK_M=64,
        BLOCK_N=64,
        num_warps=4,
        num_stages=2,
    )
    return y
