"""Gluon for Hopper: four pieces ahead, so that the two groups that multiply may drift apart; results leave in quarters.

One warp loads by the copy engine, two groups of four warps multiply, each half of a tile's rows. While one group stores
its half, the other one has pieces left to multiply. Results take a quarter of a tile's width of shared memory at a
time, in two places by turns. As many programs as multiprocessors walk over the tiles. Where rows are not aligned for
the copy engine, a kernel in Triton takes over.
"""

import torch
import triton
import triton.experimental.gluon as gluon
import triton.experimental.gluon.language as gl
import triton.experimental.gluon.language.nvidia.hopper as hopper
import triton.experimental.gluon.nvidia.hopper as host
import triton.language as tl

barrier = getattr(gl, "barrier", None) or gl.thread_barrier
load_tile = getattr(hopper.tma, "async_load", None) or hopper.tma.async_copy_global_to_shared
store_tile = getattr(hopper.tma, "async_store", None) or hopper.tma.async_copy_shared_to_global


@gluon.jit
def place_of(tile, down, across, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, GROUP_M: gl.constexpr):
    """The first row and column of a tile: down a few tiles, then to the right."""
    band = tile // (GROUP_M * across)
    height = gl.minimum(down - band * GROUP_M, GROUP_M)
    within = tile % (GROUP_M * across)
    return (band * GROUP_M + within % height) * BLOCK_M, within // height * BLOCK_N


@gluon.jit
def load_tiles(
    a_tiles,
    b_tiles,
    rings,
    bars,
    sizes,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
    GROUP_M: gl.constexpr,
):
    a_ring, b_ring = rings
    full, empty = bars
    k_size, down, across = sizes
    HALF: gl.constexpr = BLOCK_M // 2
    turn = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        row, col = place_of(tile, down, across, BLOCK_M, BLOCK_N, GROUP_M)
        for k in range(0, k_size, BLOCK_K):
            slot = turn % SLOTS
            hopper.mbarrier.wait(empty.index(slot), (turn // SLOTS & 1) ^ 1)
            bytes_ahead: gl.constexpr = 2 * a_tiles.block_type.nbytes + b_tiles.block_type.nbytes
            hopper.mbarrier.expect(full.index(slot), bytes_ahead)
            load_tile(a_tiles, [row, k], full.index(slot), a_ring.index(2 * slot))
            load_tile(a_tiles, [row + HALF, k], full.index(slot), a_ring.index(2 * slot + 1))
            load_tile(b_tiles, [k, col], full.index(slot), b_ring.index(slot))
            turn += 1


@gluon.jit
def halves(part):
    """The left and the right half of a tile's columns."""
    return part.reshape([part.shape[0], 2, part.shape[1] // 2]).permute(0, 2, 1).split()


@gluon.jit
def leave(c_tiles, part, place, row, col):
    """Store a part of a tile by the copy engine; the part before it may still be on its way, out of the other place."""
    hopper.tma.store_wait(1)
    barrier()
    place.store(part.to(c_tiles.dtype))
    hopper.fence_async_shared()
    barrier()
    store_tile(c_tiles, [row, col], place)


@gluon.jit
def multiply(
    c_tiles,
    rings,
    done,
    bars,
    sizes,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
    GROUP_M: gl.constexpr,
    GROUP_ID: gl.constexpr,
):
    a_ring, b_ring = rings
    full, empty = bars
    k_size, down, across = sizes
    HALF: gl.constexpr = BLOCK_M // 2
    product: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    turn = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        row, col = place_of(tile, down, across, BLOCK_M, BLOCK_N, GROUP_M)
        total = gl.zeros([HALF, BLOCK_N], gl.float32, product)
        for k in range(0, k_size, BLOCK_K):
            slot = turn % SLOTS
            hopper.mbarrier.wait(full.index(slot), turn // SLOTS & 1)
            a, b = a_ring.index(2 * slot + GROUP_ID), b_ring.index(slot)
            total = hopper.warpgroup_mma(a, b, total, is_async=True)
            total = hopper.warpgroup_mma_wait(1, [total, a, b])[0]
            hopper.mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1, pred=k > 0)
            turn += 1
        total = hopper.warpgroup_mma_wait(0, [total])
        hopper.mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1)
        left, right = halves(total)
        first, second = halves(left)
        third, fourth = halves(right)
        QUARTER: gl.constexpr = BLOCK_N // 4
        leave(c_tiles, first, done.index(2 * GROUP_ID), row + GROUP_ID * HALF, col)
        leave(c_tiles, second, done.index(2 * GROUP_ID + 1), row + GROUP_ID * HALF, col + QUARTER)
        leave(c_tiles, third, done.index(2 * GROUP_ID), row + GROUP_ID * HALF, col + 2 * QUARTER)
        leave(c_tiles, fourth, done.index(2 * GROUP_ID + 1), row + GROUP_ID * HALF, col + 3 * QUARTER)
    hopper.tma.store_wait(0)


@gluon.jit(do_not_specialize=["k_size", "down", "across"])
def matmul_kernel(
    a_tiles,
    b_tiles,
    c_tiles,
    k_size,
    down,
    across,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
    GROUP_M: gl.constexpr,
    REGISTERS: gl.constexpr,
):
    HALF: gl.constexpr = BLOCK_M // 2
    a_ring = gl.allocate_shared_memory(a_tiles.dtype, [2 * SLOTS, HALF, BLOCK_K], a_tiles.layout)
    b_ring = gl.allocate_shared_memory(b_tiles.dtype, [SLOTS, BLOCK_K, BLOCK_N], b_tiles.layout)
    done = gl.allocate_shared_memory(c_tiles.dtype, [4, HALF, BLOCK_N // 4], c_tiles.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        hopper.mbarrier.init(full.index(slot), count=1)
        hopper.mbarrier.init(empty.index(slot), count=2)
    hopper.fence_async_shared()
    rings = (a_ring, b_ring)
    bars = (full, empty)
    sizes = (k_size, down, across)
    gl.warp_specialize(
        [
            (multiply, (c_tiles, rings, done, bars, sizes, BLOCK_M, BLOCK_N, BLOCK_K, SLOTS, GROUP_M, 0)),
            (multiply, (c_tiles, rings, done, bars, sizes, BLOCK_M, BLOCK_N, BLOCK_K, SLOTS, GROUP_M, 1)),
            (load_tiles, (a_tiles, b_tiles, rings, bars, sizes, BLOCK_M, BLOCK_N, BLOCK_K, SLOTS, GROUP_M)),
        ],
        [4, 1],
        [REGISTERS, 24],
    )
    for slot in gl.static_range(SLOTS):
        hopper.mbarrier.invalidate(full.index(slot))
        hopper.mbarrier.invalidate(empty.index(slot))


@triton.jit(do_not_specialize=["M"])
def plain_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None].to(tl.int64) * K + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None].to(tl.int64) * N + cols[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None].to(tl.int64) * N + cols[None, :], total, mask=mask)


def matmul(a, b):
    (n_rows, k_size), n_cols = a.shape, b.shape[1]
    c = torch.empty((n_rows, n_cols), dtype=a.dtype, device=a.device)
    if k_size % 8 or n_cols % 8:
        grid = (triton.cdiv(n_rows, 64), triton.cdiv(n_cols, 64))
        plain_kernel[grid](a, b, c, n_rows, n_cols, k_size, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4)
        return c
    block_m = 128
    block_n = 256
    block_k = 64
    half = block_m // 2
    a_layout = gl.NVMMASharedLayout.get_default_for([half, block_k], gl.bfloat16)
    b_layout = gl.NVMMASharedLayout.get_default_for([block_k, block_n], gl.bfloat16)
    c_layout = gl.NVMMASharedLayout.get_default_for([half, block_n // 4], gl.bfloat16)
    a_tiles = host.TensorDescriptor.from_tensor(a, [half, block_k], a_layout)
    b_tiles = host.TensorDescriptor.from_tensor(b, [block_k, block_n], b_layout)
    c_tiles = host.TensorDescriptor.from_tensor(c, [half, block_n // 4], c_layout)
    down, across = triton.cdiv(n_rows, block_m), triton.cdiv(n_cols, block_n)
    programs = min(down * across, 1 * torch.cuda.get_device_properties(a.device).multi_processor_count)
    matmul_kernel[(programs,)](
        a_tiles,
        b_tiles,
        c_tiles,
        k_size,
        down,
        across,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        SLOTS=4,
        GROUP_M=8,
        REGISTERS=240,
        num_warps=4,
    )
    return c
