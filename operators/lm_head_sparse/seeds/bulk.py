"""Tiles of 128 tokens by 256 entries, moved in bulk where rows are aligned for that; tiles run on into the next.

Maxima carry NaN on, which `tl.max` would drop.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def bulk_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    mask_ptr,
    y_ptr,
    n_tokens,
    V,
    K,
    BLOCK_T: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    text = tl.program_id(0).to(tl.int64)
    entry = tl.program_id(1) * BLOCK_V
    entries = entry + tl.arange(0, BLOCK_V)
    x_tiles = tl.make_tensor_descriptor(x_ptr + text * n_tokens * K, (n_tokens, K), (K, 1), (BLOCK_T, BLOCK_K))
    weight_tiles = tl.make_tensor_descriptor(weight_ptr, (V, K), (K, 1), (BLOCK_V, BLOCK_K))
    bias = tl.load(bias_ptr + entries, mask=entries < V, other=0.0).to(tl.float32)
    peak = tl.full((BLOCK_V,), -float("inf"), dtype=tl.float32)
    for first in tl.range(0, n_tokens, BLOCK_T, flatten=True):
        logits = tl.zeros((BLOCK_T, BLOCK_V), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            logits = tl.dot(x_tiles.load([first, start]), weight_tiles.load([entry, start]).T, logits)
        tokens = first + tl.arange(0, BLOCK_T)
        counts = tl.load(mask_ptr + text * n_tokens + tokens, mask=tokens < n_tokens, other=0) != 0
        # Not after the maximum: -Inf + Inf would be NaN where no token counts, and Inf hide a NaN of another token.
        logits = tl.where(counts[:, None], logits + bias[None, :], -float("inf"))
        peak = larger(peak, tl.reduce(logits, 0, larger))
    y = tl.log(1.0 + tl.maximum(peak, 0.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(y_ptr + text * V + entries, y, mask=entries < V)


@triton.jit
def plain_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    mask_ptr,
    y_ptr,
    n_tokens,
    V,
    K,
    BLOCK_T: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    text = tl.program_id(0).to(tl.int64)
    entries = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    bias = tl.load(bias_ptr + entries, mask=entries < V, other=0.0).to(tl.float32)
    peak = tl.full((BLOCK_V,), -float("inf"), dtype=tl.float32)
    for first in range(0, n_tokens, BLOCK_T):
        tokens = first + tl.arange(0, BLOCK_T)
        rows = text * n_tokens + tokens
        logits = tl.zeros((BLOCK_T, BLOCK_V), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            inner = start + tl.arange(0, BLOCK_K)
            x_mask = (tokens[:, None] < n_tokens) & (inner[None, :] < K)
            w_mask = (inner[:, None] < K) & (entries[None, :] < V)
            x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
            weight = tl.load(weight_ptr + entries[None, :] * K + inner[:, None], mask=w_mask, other=0.0)
            logits = tl.dot(x, weight, logits)
        counts = tl.load(mask_ptr + rows, mask=tokens < n_tokens, other=0) != 0
        logits = tl.where(counts[:, None], logits + bias[None, :], -float("inf"))
        peak = larger(peak, tl.reduce(logits, 0, larger))
    y = tl.log(1.0 + tl.maximum(peak, 0.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(y_ptr + text * V + entries, y, mask=entries < V)


def lm_head_sparse(x, weight, bias, mask):
    batch, n_tokens, K = x.shape
    V = weight.shape[0]
    y = torch.empty((batch, V), dtype=x.dtype, device=x.device)
    block_v = 256
    grid = (batch, triton.cdiv(V, block_v))
    if K % 8:
        plain_kernel[grid](
            x,
            weight,
            bias,
            mask,
            y,
            n_tokens,
            V,
            K,
            BLOCK_T=128,
            BLOCK_V=block_v,
            BLOCK_K=64,
            num_warps=8,
            num_stages=4,
        )
        return y
    bulk_kernel[grid](
        x,
        weight,
        bias,
        mask,
        y,
        n_tokens,
        V,
        K,
        BLOCK_T=128,
        BLOCK_V=block_v,
        BLOCK_K=64,
        num_warps=8,
        num_stages=4,
    )
    return y
