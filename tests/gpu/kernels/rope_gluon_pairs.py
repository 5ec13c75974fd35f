"""Written in Gluon; whole heads are loaded, their halves split and joined in registers.

operator: rope
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def halves(x, layout: gl.constexpr):
    """The first and the second half of each row, element by element in one thread."""
    paired = gl.permute(gl.reshape(x, [x.shape[0], 2, x.shape[1] // 2]), (0, 2, 1))
    return gl.split(gl.convert_layout(paired, layout))


@gluon.jit
def pair_kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, positions, d_size: gl.constexpr, step_count: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    pairs: gl.constexpr = gl.BlockedLayout([1, 4, 2], [4, 8, 1], [gl.num_warps(), 1, 1], [2, 1, 0])
    step = gl.program_id(0) * step_count + gl.arange(0, step_count, gl.SliceLayout(1, rows))
    at = gl.expand_dims(step, 1) * d_size + gl.expand_dims(gl.arange(0, d_size, gl.SliceLayout(0, rows)), 0)
    head = gl.program_id(1).to(gl.int64) * positions * d_size
    mask = gl.expand_dims(step < positions, 1)
    low, high = halves(gl.load(q_ptr + head + at, mask=mask, other=0.0).to(gl.float32), pairs)
    cos_low, cos_high = halves(gl.load(cos_ptr + at, mask=mask, other=0.0).to(gl.float32), pairs)
    sin_low, sin_high = halves(gl.load(sin_ptr + at, mask=mask, other=0.0).to(gl.float32), pairs)
    joined = gl.join(low * cos_low - high * sin_low, high * cos_high + low * sin_high)
    y = gl.reshape(gl.permute(joined, (0, 2, 1)), [step_count, d_size])
    gl.store(y_ptr + head + at, gl.convert_layout(y.to(gl.bfloat16), rows), mask=mask)


def rope(q, cos, sin):
    batch, heads, positions, width = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(positions, 16), batch * heads)
    pair_kernel[grid](q, cos, sin, y, positions, d_size=width, step_count=16, num_warps=4)
    return y
