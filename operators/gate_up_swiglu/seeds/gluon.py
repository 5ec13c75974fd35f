"""Gluon for Hopper: one warp loads by the copy engine, two groups of four warps multiply by both weights.

As many programs as multiprocessors walk over the tiles. A group has half of a tile's rows, and stores them by the copy
engine while the next tile is multiplied. Neighbouring tiles share what they read. Where rows are not aligned for the
copy engine, a kernel in Triton takes over.
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
    inputs,
    rings,
    bars,
    sizes,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    BLOCK_K: gl.constexpr,
    SLOTS: gl.constexpr,
    GROUP_M: gl.constexpr,
):
    x_tiles, w_gate_tiles, w_up_tiles = inputs
    x_ring, gate_ring, up_ring = rings
    full, empty = bars
    k_size, down, across = sizes
    HALF: gl.constexpr = BLOCK_M // 2
    turn = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        row, col = place_of(tile, down, across, BLOCK_M, BLOCK_N, GROUP_M)
        for k in range(0, k_size, BLOCK_K):
            slot = turn % SLOTS
            hopper.mbarrier.wait(empty.index(slot), (turn // SLOTS & 1) ^ 1)
            bytes_ahead: gl.constexpr = 2 * (x_tiles.block_type.nbytes + w_up_tiles.block_type.nbytes)
            hopper.mbarrier.expect(full.index(slot), bytes_ahead)
            load_tile(x_tiles, [row, k], full.index(slot), x_ring.index(2 * slot))
            load_tile(x_tiles, [row + HALF, k], full.index(slot), x_ring.index(2 * slot + 1))
            load_tile(w_gate_tiles, [col, k], full.index(slot), gate_ring.index(slot))
            load_tile(w_up_tiles, [col, k], full.index(slot), up_ring.index(slot))
            turn += 1


@gluon.jit
def multiply(
    y_tiles,
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
    x_ring, gate_ring, up_ring = rings
    full, empty = bars
    k_size, down, across = sizes
    HALF: gl.constexpr = BLOCK_M // 2
    product: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    turn = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        row, col = place_of(tile, down, across, BLOCK_M, BLOCK_N, GROUP_M)
        gate = gl.zeros([HALF, BLOCK_N], gl.float32, product)
        up = gl.zeros([HALF, BLOCK_N], gl.float32, product)
        for k in range(0, k_size, BLOCK_K):
            slot = turn % SLOTS
            hopper.mbarrier.wait(full.index(slot), turn // SLOTS & 1)
            x = x_ring.index(2 * slot + GROUP_ID)
            gate_weights = gate_ring.index(slot).permute((1, 0))
            up_weights = up_ring.index(slot).permute((1, 0))
            gate = hopper.warpgroup_mma(x, gate_weights, gate, is_async=True)
            up = hopper.warpgroup_mma(x, up_weights, up, is_async=True)
            gate, up = hopper.warpgroup_mma_wait(2, [gate, up, x, gate_weights, up_weights])[:2]
            hopper.mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1, pred=k > 0)
            turn += 1
        gate, up = hopper.warpgroup_mma_wait(0, [gate, up])
        hopper.mbarrier.arrive(empty.index((turn + SLOTS - 1) % SLOTS), count=1)
        hopper.tma.store_wait(0)
        barrier()
        y = gate / (1.0 + gl.exp(-gate)) * up
        done.index(GROUP_ID).store(y.to(y_tiles.dtype))
        hopper.fence_async_shared()
        barrier()
        store_tile(y_tiles, [row + GROUP_ID * HALF, col], done.index(GROUP_ID))
    hopper.tma.store_wait(0)


@gluon.jit(do_not_specialize=["k_size", "down", "across"])
def gate_up_swiglu_kernel(
    x_tiles,
    w_gate_tiles,
    w_up_tiles,
    y_tiles,
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
    x_ring = gl.allocate_shared_memory(x_tiles.dtype, [2 * SLOTS, HALF, BLOCK_K], x_tiles.layout)
    gate_ring = gl.allocate_shared_memory(w_gate_tiles.dtype, [SLOTS, BLOCK_N, BLOCK_K], w_gate_tiles.layout)
    up_ring = gl.allocate_shared_memory(w_up_tiles.dtype, [SLOTS, BLOCK_N, BLOCK_K], w_up_tiles.layout)
    done = gl.allocate_shared_memory(y_tiles.dtype, [2, HALF, BLOCK_N], y_tiles.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        hopper.mbarrier.init(full.index(slot), count=1)
        hopper.mbarrier.init(empty.index(slot), count=2)
    hopper.fence_async_shared()
    rings = (x_ring, gate_ring, up_ring)
    bars = (full, empty)
    sizes = (k_size, down, across)
    inputs = (x_tiles, w_gate_tiles, w_up_tiles)
    gl.warp_specialize(
        [
            (multiply, (y_tiles, rings, done, bars, sizes, BLOCK_M, BLOCK_N, BLOCK_K, SLOTS, GROUP_M, 0)),
            (multiply, (y_tiles, rings, done, bars, sizes, BLOCK_M, BLOCK_N, BLOCK_K, SLOTS, GROUP_M, 1)),
            (load_tiles, (inputs, rings, bars, sizes, BLOCK_M, BLOCK_N, BLOCK_K, SLOTS, GROUP_M)),
        ],
        [4, 1],
        [REGISTERS, 24],
    )
    for slot in gl.static_range(SLOTS):
        hopper.mbarrier.invalidate(full.index(slot))
        hopper.mbarrier.invalidate(empty.index(slot))


@triton.jit(do_not_specialize=["M"])
def plain_kernel(
    x_ptr,
    w_gate_ptr,
    w_up_ptr,
    y_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (inner[:, None] < K) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * K + inner[None, :], mask=x_mask, other=0.0)
        place = cols[None, :].to(tl.int64) * K + inner[:, None]
        gate = tl.dot(x, tl.load(w_gate_ptr + place, mask=w_mask, other=0.0), gate)
        up = tl.dot(x, tl.load(w_up_ptr + place, mask=w_mask, other=0.0), up)
    y = gate * tl.sigmoid(gate) * up
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(y_ptr + rows[:, None].to(tl.int64) * N + cols[None, :], y, mask=mask)


def gate_up_swiglu(x, w_gate, w_up):
    (n_rows, k_size), n_cols = x.shape, w_gate.shape[0]
    y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
    if k_size % 8 or n_cols % 8:
        plain_kernel[(triton.cdiv(n_rows, 64), triton.cdiv(n_cols, 64))](
            x, w_gate, w_up, y, n_rows, n_cols, k_size, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4
        )
        return y
    block_m = 128
    block_n = 128
    block_k = 64
    half = block_m // 2
    x_layout = gl.NVMMASharedLayout.get_default_for([half, block_k], gl.bfloat16)
    w_layout = gl.NVMMASharedLayout.get_default_for([block_n, block_k], gl.bfloat16)
    y_layout = gl.NVMMASharedLayout.get_default_for([half, block_n], gl.bfloat16)
    x_tiles = host.TensorDescriptor.from_tensor(x, [half, block_k], x_layout)
    w_gate_tiles = host.TensorDescriptor.from_tensor(w_gate, [block_n, block_k], w_layout)
    w_up_tiles = host.TensorDescriptor.from_tensor(w_up, [block_n, block_k], w_layout)
    y_tiles = host.TensorDescriptor.from_tensor(y, [half, block_n], y_layout)
    down, across = triton.cdiv(n_rows, block_m), triton.cdiv(n_cols, block_n)
    programs = min(down * across, 1 * torch.cuda.get_device_properties(x.device).multi_processor_count)
    gate_up_swiglu_kernel[(programs,)](
        x_tiles,
        w_gate_tiles,
        w_up_tiles,
        y_tiles,
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
    return y
