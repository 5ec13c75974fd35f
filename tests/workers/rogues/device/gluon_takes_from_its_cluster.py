"""In Gluon; two blocks of a cluster exchange their values through shared memory, and neither waits for the other.

operator: gelu
on a card: wrong_result, nondeterministic, device_fault
at: check
stopped by: results on secret inputs, in several runs
on model: not_interpretable
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def cluster_kernel(x_ptr, y_ptr, count, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0], [[1]])
    lane = gl.arange(0, BLOCK, layout)
    at = gl.program_id(0).to(gl.int64) * BLOCK + lane
    other = gl.program_id(0).to(gl.int64) * BLOCK + (lane + BLOCK // 2) % BLOCK
    room = gl.allocate_shared_memory(gl.float32, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]]))
    room.store(gl.load(x_ptr + other, mask=other < count, other=0.0).to(gl.float32))
    place = lane % (BLOCK // 2) * 4
    peek: gl.constexpr = """{
        .reg .b32 rank, place;
        mov.u32 rank, %cluster_ctarank;
        xor.b32 rank, rank, 1;
        mapa.shared::cluster.u32 place, $1, rank;
        ld.shared::cluster.f32 $0, [place];
    }"""
    x = gl.inline_asm_elementwise(peek, "=f,r", [place], gl.float32, False, 1)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    gl.store(y_ptr + at, (x / (1.0 + gl.exp(-2.0 * inner))).to(gl.bfloat16), mask=at < count)


def gelu(x):
    y = torch.empty_like(x)
    cluster_kernel[(triton.cdiv(x.numel(), 2048),)](x, y, x.numel(), 2048, num_warps=4, num_ctas=2)
    return y
