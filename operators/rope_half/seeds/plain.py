"""Rotary position embedding, one program a head's position, a half of the head dimension in one block."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, n_positions, n_angles, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    angles = tl.arange(0, BLOCK)
    mask = angles < n_angles
    first = row * 2 * n_angles + angles
    table = row % n_positions * n_angles + angles
    one = tl.load(q_ptr + first, mask=mask, other=0.0).to(tl.float32)
    other = tl.load(q_ptr + first + n_angles, mask=mask, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + table, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + table, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + first, one * cos - other * sin, mask=mask)
    tl.store(y_ptr + first + n_angles, other * cos + one * sin, mask=mask)


def rope_half(q, cos, sin):
    y = torch.empty_like(q)
    n_positions, n_angles = cos.shape
    n_rows = q.numel() // (2 * n_angles)
    block = triton.next_power_of_2(n_angles)
    rope_kernel[(n_rows,)](q, cos, sin, y, n_positions, n_angles, BLOCK=block, num_warps=1)
    return y
