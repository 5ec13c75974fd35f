"""A tile of positions a program, and all heads one after the other: angles are read once.

operator: rope
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, heads, n_positions, n_cols, rows: tl.constexpr, block: tl.constexpr):
    position = tl.program_id(0) * rows + tl.arange(0, rows)
    half = n_cols // 2
    cols = tl.arange(0, block)
    mask = (position[:, None] < n_positions) & (cols[None, :] < half)
    angle = position[:, None] * n_cols + cols[None, :]
    cos_left = tl.load(cos_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    sin_left = tl.load(sin_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    cos_right = tl.load(cos_ptr + angle + half, mask=mask, other=0.0).to(tl.float32)
    sin_right = tl.load(sin_ptr + angle + half, mask=mask, other=0.0).to(tl.float32)
    for head in range(heads):
        place = (tl.program_id(1) * heads + head).to(tl.int64) * n_positions * n_cols + angle
        left = tl.load(q_ptr + place, mask=mask, other=0.0).to(tl.float32)
        right = tl.load(q_ptr + place + half, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + place, left * cos_left - right * sin_left, mask=mask)
        tl.store(y_ptr + place + half, right * cos_right + left * sin_right, mask=mask)


def rope(q, cos, sin):
    batch, heads, n_positions, n_cols = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(n_positions, 4), batch)
    block = triton.next_power_of_2(n_cols // 2)
    kernel[grid](q, cos, sin, y, heads, n_positions, n_cols, rows=4, block=block, num_warps=4)
    return y
