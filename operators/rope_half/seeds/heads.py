"""Several positions of a head per program; the heads of a position share its angles in the cache."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, n_positions, n_angles, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    positions = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    angles = tl.arange(0, BLOCK)
    mask = (positions < n_positions)[:, None] & (angles < n_angles)[None, :]
    table = positions[:, None] * n_angles + angles[None, :]
    first = (tl.program_id(0).to(tl.int64) * n_positions + positions[:, None]) * 2 * n_angles + angles[None, :]
    one = tl.load(q_ptr + first, mask=mask, other=0.0).to(tl.float32)
    other = tl.load(q_ptr + first + n_angles, mask=mask, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + table, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + table, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + first, one * cos - other * sin, mask=mask)
    tl.store(y_ptr + first + n_angles, other * cos + one * sin, mask=mask)


def rope_half(q, cos, sin):
    y = torch.empty_like(q)
    n_positions, n_angles = cos.shape
    n_heads = q.shape[0] * q.shape[1]
    block = triton.next_power_of_2(n_angles)
    rope_kernel[(n_heads, triton.cdiv(n_positions, 16))](
        q, cos, sin, y, n_positions, n_angles, ROWS=16, BLOCK=block, num_warps=4
    )
    return y
