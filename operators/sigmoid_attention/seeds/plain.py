"""Sigmoid attention in one pass over the keys: no maximum and no sum to keep, one program a block of queries."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def sigmoid_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    y_ptr,
    n_positions,
    scale,
    bias,
    CAUSAL: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    q_mask = (rows[:, None] < n_positions) & (dims[None, :] < D)
    q = tl.load(q_ptr + head + rows[:, None] * D + dims[None, :], mask=q_mask, other=0.0)
    mixed = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BLOCK_M, n_positions) if CAUSAL else n_positions
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k_mask = (dims[:, None] < D) & (cols[None, :] < n_positions)
        v_mask = (cols[:, None] < n_positions) & (dims[None, :] < D)
        k = tl.load(k_ptr + head + cols[None, :] * D + dims[:, None], mask=k_mask, other=0.0)
        v = tl.load(v_ptr + head + cols[:, None] * D + dims[None, :], mask=v_mask, other=0.0)
        seen = cols[None, :] < n_positions
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        weights = tl.where(seen, tl.sigmoid(tl.dot(q, k) * scale + bias), 0.0)
        mixed = tl.dot(weights.to(v.dtype), v, mixed)
    tl.store(y_ptr + head + rows[:, None] * D + dims[None, :], mixed, mask=q_mask)


def sigmoid_attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    block_d = max(16, triton.next_power_of_2(head_dim))
    grid = (triton.cdiv(n_positions, 64), batch * heads)
    sigmoid_attention_kernel[grid](
        q,
        k,
        v,
        y,
        n_positions,
        head_dim**-0.5,
        -math.log(n_positions),
        CAUSAL=causal,
        D=head_dim,
        BLOCK_D=block_d,
        BLOCK_M=64,
        BLOCK_N=64,
        num_warps=4,
        num_stages=2,
    )
    return y
