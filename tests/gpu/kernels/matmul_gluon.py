"""Written in Gluon; tiles by the copy engine into two buffers, products by warp groups (wgmma), one step behind.

operator: matmul
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

barrier = getattr(gl, "barrier", None) or gl.thread_barrier
load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_tile = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def bulk_kernel(
    a_tiles,
    b_tiles,
    c_tiles,
    k_size,
    block_m: gl.constexpr,
    block_n: gl.constexpr,
    block_k: gl.constexpr,
    slots: gl.constexpr,
):
    product: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, block_n, 16])
    a_ring = gl.allocate_shared_memory(gl.bfloat16, [slots, block_m, block_k], a_tiles.layout)
    b_ring = gl.allocate_shared_memory(gl.bfloat16, [slots, block_k, block_n], b_tiles.layout)
    ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    for each in gl.static_range(slots):
        mbarrier.init(ready.index(each), count=1)
    fence_async_shared()
    row = gl.program_id(0) * block_m
    col = gl.program_id(1) * block_n
    steps = gl.cdiv(k_size, block_k)
    for ahead in gl.static_range(slots - 1):
        if ahead < steps:
            mbarrier.expect(ready.index(ahead), a_tiles.block_type.nbytes + b_tiles.block_type.nbytes)
            load_tile(a_tiles, [row, ahead * block_k], ready.index(ahead), a_ring.index(ahead))
            load_tile(b_tiles, [ahead * block_k, col], ready.index(ahead), b_ring.index(ahead))
    total = gl.zeros([block_m, block_n], gl.float32, product)
    for step in range(steps):
        slot = step % slots
        mbarrier.wait(ready.index(slot), step // slots & 1)
        total = warpgroup_mma(a_ring.index(slot), b_ring.index(slot), total, is_async=True)
        total = warpgroup_mma_wait(0, [total, a_ring.index(slot), b_ring.index(slot)])[0]
        later = step + slots - 1
        barrier()
        if later < steps:
            free = later % slots
            mbarrier.expect(ready.index(free), a_tiles.block_type.nbytes + b_tiles.block_type.nbytes)
            load_tile(a_tiles, [row, later * block_k], ready.index(free), a_ring.index(free))
            load_tile(b_tiles, [later * block_k, col], ready.index(free), b_ring.index(free))
    done = gl.allocate_shared_memory(gl.bfloat16, [block_m, block_n], c_tiles.layout)
    done.store(total.to(gl.bfloat16))
    fence_async_shared()
    barrier()
    store_tile(c_tiles, [row, col], done)
    tma.store_wait(0)


@gluon.jit
def plain_kernel(a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [gl.num_warps(), 1], [1, 0])
    rows = gl.program_id(0) * block + gl.arange(0, block, gl.SliceLayout(1, layout))
    cols = gl.program_id(1) * block + gl.arange(0, block, gl.SliceLayout(0, layout))
    a_at = a_ptr + rows.to(gl.int64) * k_size
    b_at = b_ptr + cols
    total = gl.zeros([block, block], gl.float32, layout)
    for k in range(k_size):
        a = gl.load(a_at + k, mask=rows < m_size, other=0.0).to(gl.float32)
        b = gl.load(b_at + gl.cast(k, gl.int64) * n_size, mask=cols < n_size, other=0.0).to(gl.float32)
        total += gl.expand_dims(a, 1) * gl.expand_dims(b, 0)
    at = gl.expand_dims(rows.to(gl.int64) * n_size, 1) + gl.expand_dims(cols, 0)
    mask = gl.expand_dims(rows < m_size, 1) & gl.expand_dims(cols < n_size, 0)
    gl.store(c_ptr + at, total.to(gl.bfloat16), mask=mask)


def matmul(a, b):
    (m_size, k_size), n_size = a.shape, b.shape[1]
    c = torch.empty((m_size, n_size), dtype=a.dtype, device=a.device)
    if k_size % 8 or n_size % 8:
        grid = (triton.cdiv(m_size, 32), triton.cdiv(n_size, 32))
        plain_kernel[grid](a, b, c, m_size, n_size, k_size, block=32, num_warps=4)
        return c
    rows, cols, inner = 128, 128, 64
    shapes = ((a, (rows, inner)), (b, (inner, cols)), (c, (rows, cols)))
    tiles = [
        TensorDescriptor.from_tensor(x, list(block), gl.NVMMASharedLayout.get_default_for(list(block), gl.bfloat16))
        for x, block in shapes
    ]
    grid = (triton.cdiv(m_size, rows), triton.cdiv(n_size, cols))
    bulk_kernel[grid](*tiles, k_size, rows, cols, inner, 3, num_warps=4)
    return c
