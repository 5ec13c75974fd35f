"""Written in Gluon; one warp per 256 elements, layouts that the compiler infers.

operator: swiglu
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def flat_kernel(gate_ptr, up_ptr, y_ptr, count, block: gl.constexpr):
    at = gl.program_id(0).to(gl.int64) * block + gl.arange(0, block, gl.AutoLayout())
    at = gl.set_auto_layout(at, gl.BlockedLayout([8], [32], [gl.num_warps()], [0]))
    gate = gl.load(gate_ptr + at, mask=at < count).to(gl.float32)
    up = gl.load(up_ptr + at, mask=at < count).to(gl.float32)
    gl.store(y_ptr + at, (gate / (1.0 + gl.exp(-gate)) * up).to(gl.bfloat16), mask=at < count)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    flat_kernel[(triton.cdiv(gate.numel(), 1024),)](gate, up, y, gate.numel(), block=1024, num_warps=4)
    return y
