"""Written in Gluon, a head of several positions per program.

operator: rope
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def rope_kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, positions, d_size: gl.constexpr, step_count: gl.constexpr):
    half_size: gl.constexpr = d_size // 2
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    step = gl.program_id(0) * step_count + gl.arange(0, step_count, gl.SliceLayout(1, layout))
    lane = gl.expand_dims(gl.arange(0, half_size, gl.SliceLayout(0, layout)), 0)
    head = gl.program_id(1).to(gl.int64) * positions * d_size
    at = gl.expand_dims(step, 1) * d_size + lane
    mask = gl.expand_dims(step < positions, 1) & (lane < half_size)
    low = gl.load(q_ptr + head + at, mask=mask).to(gl.float32)
    high = gl.load(q_ptr + head + at + half_size, mask=mask).to(gl.float32)
    cos_low = gl.load(cos_ptr + at, mask=mask).to(gl.float32)
    cos_high = gl.load(cos_ptr + at + half_size, mask=mask).to(gl.float32)
    sin_low = gl.load(sin_ptr + at, mask=mask).to(gl.float32)
    sin_high = gl.load(sin_ptr + at + half_size, mask=mask).to(gl.float32)
    gl.store(y_ptr + head + at, (low * cos_low - high * sin_low).to(gl.bfloat16), mask=mask)
    gl.store(y_ptr + head + at + half_size, (high * cos_high + low * sin_high).to(gl.bfloat16), mask=mask)


def rope(q, cos, sin):
    batch, heads, positions, width = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(positions, 32), batch * heads)
    rope_kernel[grid](q, cos, sin, y, positions, d_size=width, step_count=32, num_warps=4)
    return y
