"""Written in Gluon; as many programs as the card holds walk over the elements.

operator: gelu
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def gelu_of(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x / (1.0 + gl.exp(-2.0 * inner))


@gluon.jit
def walking_kernel(x_ptr, y_ptr, count, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [gl.num_warps()], [0])
    for number in range(gl.program_id(0), gl.cdiv(count, block), gl.num_programs(0)):
        at = number.to(gl.int64) * block + gl.arange(0, block, layout)
        x = gl.load(x_ptr + at, mask=at < count).to(gl.float32)
        gl.store(y_ptr + at, gelu_of(x).to(gl.bfloat16), mask=at < count)


def gelu(x):
    y = torch.empty_like(x)
    programs = min(triton.cdiv(x.numel(), 2048), 4 * 132)
    walking_kernel[(programs,)](x, y, x.numel(), block=2048, num_warps=4)
    return y
