"""Keys and values moved in bulk, the causal mask only on the diagonal, the longest rows of all heads first.

The scale goes into the exponent, where a product and a difference are one instruction. At 128 registers a thread, two
programs share a multiprocessor.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    y_ptr,
    n_positions,
    scale,
    causal: tl.constexpr,
    d: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64) * n_positions * d
    block = tl.num_programs(1) - 1 - tl.program_id(1)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    q_tiles = tl.make_tensor_descriptor(q_ptr + head, (n_positions, d), (d, 1), (BLOCK_M, d))
    k_tiles = tl.make_tensor_descriptor(k_ptr + head, (n_positions, d), (d, 1), (BLOCK_N, d))
    v_tiles = tl.make_tensor_descriptor(v_ptr + head, (n_positions, d), (d, 1), (BLOCK_N, d))
    y_tiles = tl.make_tensor_descriptor(y_ptr + head, (n_positions, d), (d, 1), (BLOCK_M, d))
    q = q_tiles.load([block * BLOCK_M, 0])
    peak = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_M, d), dtype=tl.float32)
    begin = block * BLOCK_M if causal else n_positions // BLOCK_N * BLOCK_N
    for start in range(0, begin, BLOCK_N):
        scores = tl.dot(q, k_tiles.load([start, 0]).T)
        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        shrink = tl.exp2(peak - new_peak)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v_tiles.dtype), v_tiles.load([start, 0]), mixed * shrink[:, None])
        peak = new_peak
    for start in range(begin, tl.minimum(begin + BLOCK_M, n_positions), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        seen = cols[None, :] < n_positions
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, k_tiles.load([start, 0]).T), -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        shrink = tl.exp2(peak - new_peak)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v_tiles.dtype), v_tiles.load([start, 0]), mixed * shrink[:, None])
        peak = new_peak
    y_tiles.store([block * BLOCK_M, 0], (mixed / total[:, None]).to(y_tiles.dtype))


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    grid = (batch * heads, triton.cdiv(n_positions, 128))
    scale = head_dim**-0.5 * 1.4426950408889634
    attention_kernel[grid](
        q,
        k,
        v,
        y,
        n_positions,
        scale,
        causal=causal,
        d=head_dim,
        BLOCK_M=128,
        BLOCK_N=64,
        num_warps=8,
        num_stages=2,
        maxnreg=128,
    )
    return y
