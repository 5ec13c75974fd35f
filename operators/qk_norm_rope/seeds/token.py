"""RMSNorm and rotation of queries and keys in one launch, a program a position, everything loaded before it is used."""

import torch
import triton
import triton.language as tl


@triton.jit
def places(token, n_heads, HALF: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK: tl.constexpr):
    heads, cols = tl.arange(0, BLOCK_H)[:, None], tl.arange(0, BLOCK)[None, :]
    return (token * n_heads + heads) * 2 * HALF + cols, (heads < n_heads) & (cols < HALF)


@triton.jit
def norm_rope(first, second, weight_ptr, angles, y_ptr, offsets, inside, HALF: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    lanes = cols < HALF
    first_cos, first_sin, second_cos, second_sin = angles
    first_weight = tl.load(weight_ptr + cols, mask=lanes, other=0.0).to(tl.float32)[None, :]
    second_weight = tl.load(weight_ptr + HALF + cols, mask=lanes, other=0.0).to(tl.float32)[None, :]
    first, second = first.to(tl.float32), second.to(tl.float32)
    scale = tl.rsqrt(tl.sum(first * first + second * second, axis=1) / (2 * HALF) + 1e-6)[:, None]
    first, second = first * scale * first_weight, second * scale * second_weight
    tl.store(y_ptr + offsets, first * first_cos - second * first_sin, mask=inside)
    tl.store(y_ptr + offsets + HALF, second * second_cos + first * second_sin, mask=inside)


@triton.jit
def norm_rope_kernel(
    q_ptr,
    k_ptr,
    q_weight_ptr,
    k_weight_ptr,
    cos_ptr,
    sin_ptr,
    q_turned_ptr,
    k_turned_ptr,
    n_positions,
    n_heads,
    n_groups,
    HALF: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_G: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    q_offsets, q_mask = places(token, n_heads, HALF, BLOCK_H, BLOCK)
    k_offsets, k_mask = places(token, n_groups, HALF, BLOCK_G, BLOCK)
    q_first = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
    q_second = tl.load(q_ptr + q_offsets + HALF, mask=q_mask, other=0.0)
    k_first = tl.load(k_ptr + k_offsets, mask=k_mask, other=0.0)
    k_second = tl.load(k_ptr + k_offsets + HALF, mask=k_mask, other=0.0)
    cols = tl.arange(0, BLOCK)
    lanes, turn = cols < HALF, (token % n_positions) * 2 * HALF + cols
    first_cos = tl.load(cos_ptr + turn, mask=lanes, other=0.0).to(tl.float32)[None, :]
    first_sin = tl.load(sin_ptr + turn, mask=lanes, other=0.0).to(tl.float32)[None, :]
    second_cos = tl.load(cos_ptr + HALF + turn, mask=lanes, other=0.0).to(tl.float32)[None, :]
    second_sin = tl.load(sin_ptr + HALF + turn, mask=lanes, other=0.0).to(tl.float32)[None, :]
    angles = (first_cos, first_sin, second_cos, second_sin)
    norm_rope(q_first, q_second, q_weight_ptr, angles, q_turned_ptr, q_offsets, q_mask, HALF, BLOCK)
    norm_rope(k_first, k_second, k_weight_ptr, angles, k_turned_ptr, k_offsets, k_mask, HALF, BLOCK)


def qk_norm_rope(q, k, q_weight, k_weight, cos, sin):
    batch, positions, heads, head_dim = q.shape
    groups, half = k.shape[2], head_dim // 2
    q_turned = torch.empty_like(q)
    k_turned = torch.empty_like(k)
    norm_rope_kernel[(batch * positions,)](
        q,
        k,
        q_weight,
        k_weight,
        cos,
        sin,
        q_turned,
        k_turned,
        positions,
        heads,
        groups,
        HALF=half,
        BLOCK_H=triton.next_power_of_2(heads),
        BLOCK_G=triton.next_power_of_2(groups),
        BLOCK=triton.next_power_of_2(half),
        num_warps=4,
    )
    return q_turned, k_turned
