"""Keys and values moved in bulk, the causal mask only on the diagonal, and the longest rows first.

The sigmoid is the square of a reciprocal square root, for which the card has one instruction where a division takes
several; scale and bias go into the exponent with one more.
"""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def weigh(scores, scale, bias):
    root = tl.rsqrt(1.0 + tl.exp2(scores * scale + bias))
    return root * root


@triton.jit
def sigmoid_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    y_ptr,
    n_positions,
    scale,
    bias,
    causal: tl.constexpr,
    d: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * d
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    q_tiles = tl.make_tensor_descriptor(q_ptr + head, (n_positions, d), (d, 1), (BLOCK_M, d))
    k_tiles = tl.make_tensor_descriptor(k_ptr + head, (n_positions, d), (d, 1), (BLOCK_N, d))
    v_tiles = tl.make_tensor_descriptor(v_ptr + head, (n_positions, d), (d, 1), (BLOCK_N, d))
    y_tiles = tl.make_tensor_descriptor(y_ptr + head, (n_positions, d), (d, 1), (BLOCK_M, d))
    q = q_tiles.load([block * BLOCK_M, 0])
    mixed = tl.zeros((BLOCK_M, d), dtype=tl.float32)
    begin = block * BLOCK_M if causal else n_positions // BLOCK_N * BLOCK_N
    for start in range(0, begin, BLOCK_N):
        weights = weigh(tl.dot(q, k_tiles.load([start, 0]).T), scale, bias)
        mixed = tl.dot(weights.to(v_tiles.dtype), v_tiles.load([start, 0]), mixed)
    for start in range(begin, tl.minimum(begin + BLOCK_M, n_positions), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        seen = cols[None, :] < n_positions
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        weights = weigh(tl.dot(q, k_tiles.load([start, 0]).T), scale, bias)
        weights = tl.where(seen, weights, 0.0)
        mixed = tl.dot(weights.to(v_tiles.dtype), v_tiles.load([start, 0]), mixed)
    y_tiles.store([block * BLOCK_M, 0], mixed.to(y_tiles.dtype))


def sigmoid_attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(n_positions, 128), batch * heads)
    log2_e = 1.4426950408889634
    sigmoid_attention_kernel[grid](
        q,
        k,
        v,
        y,
        n_positions,
        -(head_dim**-0.5) * log2_e,
        math.log(n_positions) * log2_e,
        causal=causal,
        d=head_dim,
        BLOCK_M=128,
        BLOCK_N=64,
        num_warps=8,
        num_stages=2,
        maxnreg=128,
    )
    return y
