"""Written in Gluon; one warp takes tiles from a counter and loads them, four warps are told which ones these are.

operator: gelu
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

barrier = getattr(gl, "barrier", None) or gl.thread_barrier
load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def gelu_of(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x / (1.0 + gl.exp(-2.0 * inner))


@gluon.jit
def take_tiles(x_tiles, counter, ring, taken, bars, sizes, slots: gl.constexpr):
    full, empty = bars
    across, tiles = sizes
    one: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    row_count: gl.constexpr = ring.shape[1]
    col_count: gl.constexpr = ring.shape[2]
    tile = gl.program_id(0)
    turn = 0
    while tile < tiles:
        slot = turn % slots
        mbarrier.wait(empty.index(slot), (turn // slots & 1) ^ 1)
        taken.index(slot).store(gl.full([1], tile, gl.int32, one))
        barrier()
        mbarrier.expect(full.index(slot), x_tiles.block_type.nbytes)
        load_tile(x_tiles, [tile // across * row_count, tile % across * col_count], full.index(slot), ring.index(slot))
        tile = gl.num_programs(0) + gl.atomic_add(counter, 1)
        turn += 1
    mbarrier.wait(empty.index(turn % slots), (turn // slots & 1) ^ 1)
    taken.index(turn % slots).store(gl.full([1], tile, gl.int32, one))
    barrier()
    mbarrier.arrive(full.index(turn % slots), count=1)


@gluon.jit
def tile_of(taken, full, turn, slots: gl.constexpr):
    mbarrier.wait(full.index(turn % slots), turn // slots & 1)
    return gl.max(taken.index(turn % slots).load(gl.BlockedLayout([1], [32], [4], [0])), 0)


@gluon.jit
def apply(y_ptr, ring, taken, bars, sizes, n_rows, n_cols, slots: gl.constexpr):
    full, empty = bars
    across, tiles = sizes
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    row_count: gl.constexpr = ring.shape[1]
    col_count: gl.constexpr = ring.shape[2]
    turn = 0
    tile = tile_of(taken, full, turn, slots)
    while tile < tiles:
        x = ring.index(turn % slots).load(layout).to(gl.float32)
        mbarrier.arrive(empty.index(turn % slots), count=1)
        rows = gl.expand_dims(tile // across * row_count + gl.arange(0, row_count, gl.SliceLayout(1, layout)), 1)
        cols = gl.expand_dims(tile % across * col_count + gl.arange(0, col_count, gl.SliceLayout(0, layout)), 0)
        at = y_ptr + rows.to(gl.int64) * n_cols + cols
        gl.store(at, gelu_of(x).to(gl.bfloat16), mask=(rows < n_rows) & (cols < n_cols))
        turn += 1
        tile = tile_of(taken, full, turn, slots)


@gluon.jit
def ticket_kernel(x_tiles, y_ptr, counter, across, tiles, n_rows, n_cols, slots: gl.constexpr):
    row_count: gl.constexpr = x_tiles.block_type.shape[0]
    col_count: gl.constexpr = x_tiles.block_type.shape[1]
    ring = gl.allocate_shared_memory(gl.bfloat16, [slots, row_count, col_count], x_tiles.layout)
    taken = gl.allocate_shared_memory(gl.int32, [slots, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    for each in gl.static_range(slots):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=1)
    fence_async_shared()
    bars = (full, empty)
    sizes = (across, tiles)
    gl.warp_specialize(
        [
            (apply, (y_ptr, ring, taken, bars, sizes, n_rows, n_cols, slots)),
            (take_tiles, (x_tiles, counter, ring, taken, bars, sizes, slots)),
        ],
        [1],
        [24],
    )
    for each in gl.static_range(slots):
        mbarrier.invalidate(full.index(each))
        mbarrier.invalidate(empty.index(each))


@gluon.jit
def plain_kernel(x_ptr, y_ptr, count, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    at = gl.program_id(0).to(gl.int64) * block + gl.arange(0, block, layout)
    x = gl.load(x_ptr + at, mask=at < count).to(gl.float32)
    gl.store(y_ptr + at, gelu_of(x).to(gl.bfloat16), mask=at < count)


def gelu(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 8:
        plain_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), block=1024, num_warps=4)
        return y
    rows, cols = 64, 64
    counter = torch.zeros(1, dtype=torch.int32, device=x.device)
    layout = gl.NVMMASharedLayout.get_default_for([rows, cols], gl.bfloat16)
    x_tiles = TensorDescriptor.from_tensor(x, [rows, cols], layout)
    across = triton.cdiv(n_cols, cols)
    tiles = across * triton.cdiv(n_rows, rows)
    ticket_kernel[(min(tiles, 3 * 132),)](x_tiles, y, counter, across, tiles, n_rows, n_cols, 4, num_warps=4)
    return y
