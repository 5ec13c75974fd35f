"""RMSNorm and rotation, one program a position with all heads of queries and keys, two launches."""

import torch
import triton
import triton.language as tl


@triton.jit
def norm_rope_kernel(
    x_ptr,
    weight_ptr,
    cos_ptr,
    sin_ptr,
    y_ptr,
    n_positions,
    n_heads,
    HALF: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    cols = tl.arange(0, BLOCK)
    angles = (token % n_positions) * 2 * HALF + cols
    lanes = cols < HALF
    offsets = (token * n_heads + heads[:, None]) * 2 * HALF + cols[None, :]
    mask = (heads[:, None] < n_heads) & lanes[None, :]
    first = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + offsets + HALF, mask=mask, other=0.0).to(tl.float32)
    mean_square = (tl.sum(first * first, axis=1) + tl.sum(second * second, axis=1)) / (2 * HALF)
    scale = tl.rsqrt(mean_square + 1e-6)[:, None]
    first = first * scale * tl.load(weight_ptr + cols, mask=lanes, other=0.0).to(tl.float32)[None, :]
    second = second * scale * tl.load(weight_ptr + HALF + cols, mask=lanes, other=0.0).to(tl.float32)[None, :]
    cos = tl.load(cos_ptr + angles, mask=lanes, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + angles, mask=lanes, other=0.0).to(tl.float32)[None, :]
    tl.store(y_ptr + offsets, first * cos - second * sin, mask=mask)
    cos = tl.load(cos_ptr + HALF + angles, mask=lanes, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + HALF + angles, mask=lanes, other=0.0).to(tl.float32)[None, :]
    tl.store(y_ptr + offsets + HALF, second * cos + first * sin, mask=mask)


def qk_norm_rope(q, k, q_weight, k_weight, cos, sin):
    batch, positions, heads, head_dim = q.shape
    groups = k.shape[2]
    half = head_dim // 2
    q_turned = torch.empty_like(q)
    k_turned = torch.empty_like(k)
    norm_rope_kernel[(batch * positions, triton.cdiv(heads, 8))](
        q,
        q_weight,
        cos,
        sin,
        q_turned,
        positions,
        heads,
        HALF=half,
        BLOCK_H=8,
        BLOCK=triton.next_power_of_2(half),
        num_warps=2,
    )
    norm_rope_kernel[(batch * positions, triton.cdiv(groups, 8))](
        k,
        k_weight,
        cos,
        sin,
        k_turned,
        positions,
        groups,
        HALF=half,
        BLOCK_H=8,
        BLOCK=triton.next_power_of_2(half),
        num_warps=2,
    )
    return q_turned, k_turned
