"""Written in Gluon; products without tensor cores (fma), tiles by shared memory of a layout of their own.

operator: matmul
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

barrier = getattr(gl, "barrier", None) or gl.thread_barrier


@gluon.jit
def fma_kernel(
    a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block_m: gl.constexpr, block_n: gl.constexpr, block_k: gl.constexpr
):
    layout: gl.constexpr = gl.BlockedLayout([1, 2], [4, 8], [gl.num_warps(), 1], [1, 0])
    product: gl.constexpr = gl.BlockedLayout([8, 4], [4, 8], [2, 2], [1, 0])
    row = gl.program_id(0) * block_m
    col = gl.program_id(1) * block_n
    a_rows = gl.expand_dims(row + gl.arange(0, block_m, gl.SliceLayout(1, layout)), 1)
    a_cols = gl.expand_dims(gl.arange(0, block_k, gl.SliceLayout(0, layout)), 0)
    b_rows = gl.expand_dims(gl.arange(0, block_k, gl.SliceLayout(1, layout)), 1)
    b_cols = gl.expand_dims(col + gl.arange(0, block_n, gl.SliceLayout(0, layout)), 0)
    a_tile = gl.allocate_shared_memory(
        gl.float32,
        [block_m, block_k],
        gl.PaddedSharedLayout.with_identity_for([[block_k, 4]], [block_m, block_k], [1, 0]),
    )
    b_tile = gl.allocate_shared_memory(gl.float32, [block_k, block_n], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    total = gl.zeros([block_m, block_n], gl.float32, product)
    for k in range(0, k_size, block_k):
        a_mask = (a_rows < m_size) & (k + a_cols < k_size)
        b_mask = (k + b_rows < k_size) & (b_cols < n_size)
        a = gl.load(a_ptr + a_rows.to(gl.int64) * k_size + k + a_cols, mask=a_mask, other=0.0)
        b = gl.load(b_ptr + (k + b_rows).to(gl.int64) * n_size + b_cols, mask=b_mask, other=0.0)
        barrier()
        a_tile.store(a.to(gl.float32))
        b_tile.store(b.to(gl.float32))
        barrier()
        a_part = a_tile.load(gl.DotOperandLayout(0, product, 0))
        b_part = b_tile.load(gl.DotOperandLayout(1, product, 0))
        total = gl.dot_fma(a_part, b_part, total)
    rows = gl.expand_dims(row + gl.arange(0, block_m, gl.SliceLayout(1, product)), 1)
    cols = gl.expand_dims(col + gl.arange(0, block_n, gl.SliceLayout(0, product)), 0)
    at = c_ptr + rows.to(gl.int64) * n_size + cols
    gl.store(at, total.to(gl.bfloat16), mask=(rows < m_size) & (cols < n_size))


def matmul(a, b):
    (m_size, k_size), n_size = a.shape, b.shape[1]
    c = torch.empty((m_size, n_size), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m_size, 64), triton.cdiv(n_size, 64))
    fma_kernel[grid](a, b, c, m_size, n_size, k_size, 64, 64, 16, num_warps=4)
    return c
