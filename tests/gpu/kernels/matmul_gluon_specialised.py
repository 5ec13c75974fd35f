"""Written in Gluon; one warp loads, four multiply, both walk over the tiles. A kernel in Triton where rows are odd.

operator: matmul
"""

import torch
import triton
import triton.language as tl
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
def load_tiles(a_tiles, b_tiles, a_ring, b_ring, full, empty, k_size, down, tiles, slots: gl.constexpr):
    block_m: gl.constexpr = a_tiles.block_type.shape[0]
    block_k: gl.constexpr = a_tiles.block_type.shape[1]
    block_n: gl.constexpr = b_tiles.block_type.shape[1]
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row = tile % down * block_m
        col = tile // down * block_n
        for k in range(0, k_size, block_k):
            slot = turn % slots
            mbarrier.wait(empty.index(slot), (turn // slots & 1) ^ 1)
            mbarrier.expect(full.index(slot), a_tiles.block_type.nbytes + b_tiles.block_type.nbytes)
            load_tile(a_tiles, [row, k], full.index(slot), a_ring.index(slot))
            load_tile(b_tiles, [k, col], full.index(slot), b_ring.index(slot))
            turn += 1


@gluon.jit
def multiply(c_tiles, a_ring, b_ring, done, full, empty, k_size, down, tiles, slots: gl.constexpr):
    block_m: gl.constexpr = c_tiles.block_type.shape[0]
    block_n: gl.constexpr = c_tiles.block_type.shape[1]
    block_k: gl.constexpr = a_ring.shape[2]
    product: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, block_n, 16])
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        total = gl.zeros([block_m, block_n], gl.float32, product)
        for _ in range(0, k_size, block_k):
            slot = turn % slots
            mbarrier.wait(full.index(slot), turn // slots & 1)
            total = warpgroup_mma(a_ring.index(slot), b_ring.index(slot), total, is_async=True)
            total = warpgroup_mma_wait(0, [total, a_ring.index(slot), b_ring.index(slot)])[0]
            mbarrier.arrive(empty.index(slot), count=1)
            turn += 1
        tma.store_wait(0)
        barrier()
        done.store(total.to(gl.bfloat16))
        fence_async_shared()
        barrier()
        store_tile(c_tiles, [tile % down * block_m, tile // down * block_n], done)
    tma.store_wait(0)


@gluon.jit
def specialised_kernel(a_tiles, b_tiles, c_tiles, k_size, down, tiles, slots: gl.constexpr):
    block_m: gl.constexpr = c_tiles.block_type.shape[0]
    block_n: gl.constexpr = c_tiles.block_type.shape[1]
    block_k: gl.constexpr = a_tiles.block_type.shape[1]
    a_ring = gl.allocate_shared_memory(gl.bfloat16, [slots, block_m, block_k], a_tiles.layout)
    b_ring = gl.allocate_shared_memory(gl.bfloat16, [slots, block_k, block_n], b_tiles.layout)
    done = gl.allocate_shared_memory(gl.bfloat16, c_tiles.block_type.shape, c_tiles.layout)
    full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    for each in gl.static_range(slots):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (multiply, (c_tiles, a_ring, b_ring, done, full, empty, k_size, down, tiles, slots)),
            (load_tiles, (a_tiles, b_tiles, a_ring, b_ring, full, empty, k_size, down, tiles, slots)),
        ],
        [1],
        [24],
    )
    for each in gl.static_range(slots):
        mbarrier.invalidate(full.index(each))
        mbarrier.invalidate(empty.index(each))


@triton.jit
def plain_kernel(a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block: tl.constexpr):
    rows = tl.program_id(0) * block + tl.arange(0, block)
    cols = tl.program_id(1) * block + tl.arange(0, block)
    lanes = tl.arange(0, block)
    total = tl.zeros((block, block), dtype=tl.float32)
    for start in range(0, k_size, block):
        k = start + lanes
        a_mask = (rows[:, None] < m_size) & (k[None, :] < k_size)
        b_mask = (k[:, None] < k_size) & (cols[None, :] < n_size)
        a = tl.load(a_ptr + rows[:, None].to(tl.int64) * k_size + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None].to(tl.int64) * n_size + cols[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    mask = (rows[:, None] < m_size) & (cols[None, :] < n_size)
    tl.store(c_ptr + rows[:, None].to(tl.int64) * n_size + cols[None, :], total.to(tl.bfloat16), mask=mask)


def matmul(a, b):
    (m_size, k_size), n_size = a.shape, b.shape[1]
    c = torch.empty((m_size, n_size), dtype=a.dtype, device=a.device)
    if k_size % 8 or n_size % 8:
        grid = (triton.cdiv(m_size, 64), triton.cdiv(n_size, 64))
        plain_kernel[grid](a, b, c, m_size, n_size, k_size, block=64, num_warps=4)
        return c
    rows, cols, inner = 64, 256, 64
    shapes = ((a, (rows, inner)), (b, (inner, cols)), (c, (rows, cols)))
    tiles = [
        TensorDescriptor.from_tensor(x, list(block), gl.NVMMASharedLayout.get_default_for(list(block), gl.bfloat16))
        for x, block in shapes
    ]
    down = triton.cdiv(m_size, rows)
    count = down * triton.cdiv(n_size, cols)
    specialised_kernel[(min(count, 132),)](*tiles, k_size, down, count, 4, num_warps=4)
    return c
