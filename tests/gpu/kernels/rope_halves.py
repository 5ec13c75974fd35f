"""Both halves of a head loaded apart, and both results stored from them.

operator: rope
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, n_positions, n_cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    half = n_cols // 2
    cols = tl.arange(0, block)
    mask = cols < half
    place = row * n_cols + cols
    angle = (row % n_positions) * n_cols + cols
    left = tl.load(q_ptr + place, mask=mask, other=0.0).to(tl.float32)
    right = tl.load(q_ptr + place + half, mask=mask, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + place, left * cos - right * sin, mask=mask)
    cos = tl.load(cos_ptr + angle + half, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + angle + half, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + place + half, right * cos + left * sin, mask=mask)


def rope(q, cos, sin):
    batch, heads, n_positions, n_cols = q.shape
    y = torch.empty_like(q)
    block = triton.next_power_of_2(n_cols // 2)
    kernel[(batch * heads * n_positions,)](q, cos, sin, y, n_positions, n_cols, block=block, num_warps=1)
    return y
