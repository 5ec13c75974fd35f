"""Written in Gluon as for cards before Hopper: tiles by asynchronous loads (cp.async), products by single warps (mma).

operator: matmul
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

barrier = getattr(gl, "barrier", None) or gl.thread_barrier


@gluon.jit
def fetch(a_ptr, b_ptr, a_to, b_to, m_size, n_size, k_size, row, col, k, layout: gl.constexpr):
    block_m: gl.constexpr = a_to.shape[0]
    block_k: gl.constexpr = a_to.shape[1]
    block_n: gl.constexpr = b_to.shape[1]
    a_rows = gl.expand_dims(row + gl.arange(0, block_m, gl.SliceLayout(1, layout)), 1)
    a_cols = gl.expand_dims(k + gl.arange(0, block_k, gl.SliceLayout(0, layout)), 0)
    b_rows = gl.expand_dims(k + gl.arange(0, block_k, gl.SliceLayout(1, layout)), 1)
    b_cols = gl.expand_dims(col + gl.arange(0, block_n, gl.SliceLayout(0, layout)), 0)
    a_from = a_ptr + a_rows.to(gl.int64) * k_size + a_cols
    b_from = b_ptr + b_rows.to(gl.int64) * n_size + b_cols
    async_copy.async_copy_global_to_shared(a_to, a_from, mask=(a_rows < m_size) & (a_cols < k_size))
    async_copy.async_copy_global_to_shared(b_to, b_from, mask=(b_rows < k_size) & (b_cols < n_size))
    async_copy.commit_group()


@gluon.jit
def older_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m_size,
    n_size,
    k_size,
    block_m: gl.constexpr,
    block_n: gl.constexpr,
    block_k: gl.constexpr,
    vector: gl.constexpr,
):
    layout: gl.constexpr = gl.BlockedLayout([1, vector], [4, 8], [gl.num_warps(), 1], [1, 0])
    product: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [gl.num_warps(), 1], [16, 8])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    a_tiles = gl.allocate_shared_memory(gl.bfloat16, [2, block_m, block_k], swizzled)
    b_tiles = gl.allocate_shared_memory(gl.bfloat16, [2, block_k, block_n], swizzled)
    row = gl.program_id(0) * block_m
    col = gl.program_id(1) * block_n
    fetch(a_ptr, b_ptr, a_tiles.index(0), b_tiles.index(0), m_size, n_size, k_size, row, col, 0, layout)
    total = gl.zeros([block_m, block_n], gl.float32, product)
    for k in range(0, k_size, block_k):
        turn = k // block_k
        next_slot = (turn + 1) % 2
        fetch(
            a_ptr,
            b_ptr,
            a_tiles.index(next_slot),
            b_tiles.index(next_slot),
            m_size,
            n_size,
            k_size,
            row,
            col,
            k + block_k,
            layout,
        )
        async_copy.wait_group(1)
        barrier()
        a = a_tiles.index(turn % 2).load(gl.DotOperandLayout(0, product, 2))
        b = b_tiles.index(turn % 2).load(gl.DotOperandLayout(1, product, 2))
        total = mma_v2(a, b, total)
        barrier()
    async_copy.wait_group(0)
    rows = gl.expand_dims(row + gl.arange(0, block_m, gl.SliceLayout(1, product)), 1)
    cols = gl.expand_dims(col + gl.arange(0, block_n, gl.SliceLayout(0, product)), 0)
    at = c_ptr + rows.to(gl.int64) * n_size + cols
    gl.store(at, total.to(gl.bfloat16), mask=(rows < m_size) & (cols < n_size))


@gluon.jit
def odd_kernel(
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
        a = gl.load(a_ptr + rows.to(gl.int64) * k_size + k + across, mask=a_mask, other=0.0)
        b = gl.load(b_ptr + (k + down).to(gl.int64) * n_size + cols, mask=b_mask, other=0.0)
        a = gl.convert_layout(a, gl.DotOperandLayout(0, product, 2))
        b = gl.convert_layout(b, gl.DotOperandLayout(1, product, 2))
        total = mma_v2(a, b, total)
    total = gl.convert_layout(total, layout)
    gl.store(c_ptr + rows.to(gl.int64) * n_size + cols, total.to(gl.bfloat16), mask=(rows < m_size) & (cols < n_size))


def matmul(a, b):
    (m_size, k_size), n_size = a.shape, b.shape[1]
    c = torch.empty((m_size, n_size), dtype=a.dtype, device=a.device)
    rows, cols, inner = 64, 64, 32
    grid = (triton.cdiv(m_size, rows), triton.cdiv(n_size, cols))
    if k_size % 8 or n_size % 8:
        odd_kernel[grid](a, b, c, m_size, n_size, k_size, rows, cols, inner, num_warps=4)
        return c
    older_kernel[grid](a, b, c, m_size, n_size, k_size, rows, cols, inner, 8, num_warps=4)
    return c
