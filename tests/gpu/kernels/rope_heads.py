"""All heads of a position by one program, which reads cosines and sines once and turns both halves together.

operator: rope
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, n_heads, n_positions, half, block: tl.constexpr, heads: tl.constexpr):
    position, batch = tl.program_id(0), tl.program_id(1)
    cols = tl.arange(0, block)[None, :]
    head = tl.arange(0, heads)[:, None]
    angle = position * 2 * half + cols
    near = cols < half
    first_cos = tl.load(cos_ptr + angle, mask=near, other=0.0).to(tl.float32)
    first_sin = tl.load(sin_ptr + angle, mask=near, other=0.0).to(tl.float32)
    second_cos = tl.load(cos_ptr + angle + half, mask=near, other=0.0).to(tl.float32)
    second_sin = tl.load(sin_ptr + angle + half, mask=near, other=0.0).to(tl.float32)
    mask = near & (head < n_heads)
    place = ((batch.to(tl.int64) * n_heads + head) * n_positions + position) * 2 * half + cols
    first = tl.load(q_ptr + place, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(q_ptr + place + half, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + place, first * first_cos - second * first_sin, mask=mask)
    tl.store(y_ptr + place + half, second * second_cos + first * second_sin, mask=mask)


def rope(q, cos, sin):
    batch, n_heads, n_positions, n_cols = q.shape
    y = torch.empty_like(q)
    block, heads = triton.next_power_of_2(n_cols // 2), triton.next_power_of_2(n_heads)
    grid = (n_positions, batch)
    kernel[grid](q, cos, sin, y, n_heads, n_positions, n_cols // 2, block=block, heads=heads, num_warps=4)
    return y
