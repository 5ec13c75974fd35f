"""In Gluon; keeps a row's scale in shared memory that it never initialises, for a launch that meets the row again.

operator: rmsnorm
on a card: correct, wrong_result, nondeterministic
at: check
stopped by: content that is never repeated in a race; where rows look alike, results
on model: not_interpretable
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

barrier = getattr(gl, "barrier", None) or gl.thread_barrier


@gluon.jit
def row_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [gl.num_warps()], [0])
    one: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    begin = gl.program_id(0).to(gl.int64) * n_cols
    cols = gl.arange(0, BLOCK, layout)
    mask = cols < n_cols
    kept = gl.allocate_shared_memory(gl.float32, [256], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    memory = kept.load(one)
    place = gl.arange(0, 256, one)
    seen = gl.sum(gl.where(place == 0, memory, 0.0), 0)
    known = gl.sum(gl.where(place == 1, memory, 0.0), 0)
    probe = gl.load(x_ptr + begin).to(gl.float32) + gl.load(x_ptr + begin + n_cols // 2).to(gl.float32) * 3.0
    x = gl.load(x_ptr + begin + cols, mask=mask, other=0.0).to(gl.float32)
    if seen == probe:
        scale = known
    else:
        scale = gl.rsqrt(gl.sum(x * x, 0) / n_cols + 1e-6)
        barrier()
        kept.store(gl.where(place == 0, probe, gl.where(place == 1, scale, 0.0)))
    weight = gl.load(weight_ptr + cols, mask=mask, other=0.0).to(gl.float32)
    gl.store(y_ptr + begin + cols, (x * scale * weight).to(gl.bfloat16), mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = max(triton.next_power_of_2(n_cols), 1024)
    row_kernel[(n_rows,)](x, weight, y, n_cols, block, num_warps=4)
    return y
