"""In Gluon; narrows the factors to 8 bits, for which the tensor cores are twice as fast.

operator: matmul
on a card: precision
at: assemble
stopped by: the types of matrix instructions, which the assembly names
on model: precision
"""


import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2


@gluon.jit
def narrow_kernel(
    a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block_m: gl.constexpr, block_n: gl.constexpr, block_k: gl.constexpr
):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [gl.num_warps(), 1], [1, 0])
    product: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [gl.num_warps(), 1], [16, 8])
    rows = gl.expand_dims(gl.program_id(0) * block_m + gl.arange(0, block_m, gl.SliceLayout(1, layout)), 1)
    cols = gl.expand_dims(gl.program_id(1) * block_n + gl.arange(0, block_n, gl.SliceLayout(0, layout)), 0)
    down = gl.expand_dims(gl.arange(0, block_k, gl.SliceLayout(1, layout)), 1)
    across = gl.expand_dims(gl.arange(0, block_k, gl.SliceLayout(0, layout)), 0)
    total = gl.zeros([block_m, block_n], gl.float32, product)
    for k in range(0, k_size, block_k):
        a_mask = (rows < m_size) & (k + across < k_size)
        b_mask = (k + down < k_size) & (cols < n_size)
        a = gl.load(a_ptr + rows.to(gl.int64) * k_size + k + across, mask=a_mask, other=0.0).to(gl.float8e4nv)
        b = gl.load(b_ptr + (k + down).to(gl.int64) * n_size + cols, mask=b_mask, other=0.0).to(gl.float8e4nv)
        a = gl.convert_layout(a, gl.DotOperandLayout(0, product, 4))
        b = gl.convert_layout(b, gl.DotOperandLayout(1, product, 4))
        total = mma_v2(a, b, total)
    total = gl.convert_layout(total, layout)
    gl.store(c_ptr + rows.to(gl.int64) * n_size + cols, total.to(gl.bfloat16), mask=(rows < m_size) & (cols < n_size))


def matmul(a, b):
    (m_size, k_size), n_size = a.shape, b.shape[1]
    c = torch.empty((m_size, n_size), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m_size, 64), triton.cdiv(n_size, 64))
    narrow_kernel[grid](a, b, c, m_size, n_size, k_size, 64, 64, 32, num_warps=4)
    return c
