"""Written in Gluon; three roles: one warp loads tiles, four warps multiply, one more warp stores the results.

operator: swiglu
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_tile = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def load_pairs(gate_tiles, up_tiles, gates, ups, bars, across, tiles, slots: gl.constexpr):
    full, empty = bars[0], bars[1]
    row_count: gl.constexpr = gates.shape[1]
    col_count: gl.constexpr = gates.shape[2]
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        turn = (tile - gl.program_id(0)) // gl.num_programs(0)
        slot = turn % slots
        mbarrier.wait(empty.index(slot), (turn // slots & 1) ^ 1)
        mbarrier.expect(full.index(slot), 2 * gate_tiles.block_type.nbytes)
        row = tile // across * row_count
        col = tile % across * col_count
        load_tile(gate_tiles, [row, col], full.index(slot), gates.index(slot))
        load_tile(up_tiles, [row, col], full.index(slot), ups.index(slot))


@gluon.jit
def multiply_pairs(gates, ups, done, bars, tiles, slots: gl.constexpr):
    full, empty, ready, free = bars
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        turn = (tile - gl.program_id(0)) // gl.num_programs(0)
        slot = turn % slots
        mbarrier.wait(full.index(slot), turn // slots & 1)
        gate = gates.index(slot).load(layout).to(gl.float32)
        up = ups.index(slot).load(layout).to(gl.float32)
        mbarrier.arrive(empty.index(slot), count=1)
        y = (gate / (1.0 + gl.exp(-gate)) * up).to(gl.bfloat16)
        mbarrier.wait(free.index(turn % 2), (turn // 2 & 1) ^ 1)
        done.index(turn % 2).store(y)
        fence_async_shared()
        mbarrier.arrive(ready.index(turn % 2), count=1)


@gluon.jit
def store_results(y_tiles, done, bars, across, tiles):
    ready, free = bars[2], bars[3]
    row_count: gl.constexpr = done.shape[1]
    col_count: gl.constexpr = done.shape[2]
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        turn = (tile - gl.program_id(0)) // gl.num_programs(0)
        mbarrier.wait(ready.index(turn % 2), turn // 2 & 1)
        store_tile(y_tiles, [tile // across * row_count, tile % across * col_count], done.index(turn % 2))
        tma.store_wait(0)
        mbarrier.arrive(free.index(turn % 2), count=1)


@gluon.jit
def roles_kernel(gate_tiles, up_tiles, y_tiles, across, tiles, slots: gl.constexpr):
    row_count: gl.constexpr = y_tiles.block_type.shape[0]
    col_count: gl.constexpr = y_tiles.block_type.shape[1]
    gates = gl.allocate_shared_memory(gl.bfloat16, [slots, row_count, col_count], gate_tiles.layout)
    ups = gl.allocate_shared_memory(gl.bfloat16, [slots, row_count, col_count], up_tiles.layout)
    done = gl.allocate_shared_memory(gl.bfloat16, [2, row_count, col_count], y_tiles.layout)
    full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for each in gl.static_range(slots):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(empty.index(each), count=1)
    for each in gl.static_range(2):
        mbarrier.init(ready.index(each), count=1)
        mbarrier.init(free.index(each), count=1)
    fence_async_shared()
    bars = (full, empty, ready, free)
    gl.warp_specialize(
        [
            (multiply_pairs, (gates, ups, done, bars, tiles, slots)),
            (load_pairs, (gate_tiles, up_tiles, gates, ups, bars, across, tiles, slots)),
            (store_results, (y_tiles, done, bars, across, tiles)),
        ],
        [1, 1],
        [24, 24],
    )
    for each in gl.static_range(slots):
        mbarrier.invalidate(full.index(each))
        mbarrier.invalidate(empty.index(each))
    for each in gl.static_range(2):
        mbarrier.invalidate(ready.index(each))
        mbarrier.invalidate(free.index(each))


@gluon.jit
def plain_kernel(gate_ptr, up_ptr, y_ptr, count, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    at = gl.program_id(0).to(gl.int64) * block + gl.arange(0, block, layout)
    gate = gl.load(gate_ptr + at, mask=at < count).to(gl.float32)
    up = gl.load(up_ptr + at, mask=at < count).to(gl.float32)
    gl.store(y_ptr + at, (gate / (1.0 + gl.exp(-gate)) * up).to(gl.bfloat16), mask=at < count)


def swiglu(gate, up):
    n_rows, n_cols = gate.shape
    y = torch.empty_like(gate)
    if n_cols % 8:
        plain_kernel[(triton.cdiv(gate.numel(), 1024),)](gate, up, y, gate.numel(), block=1024, num_warps=4)
        return y
    rows, cols = 64, 64
    layout = gl.NVMMASharedLayout.get_default_for([rows, cols], gl.bfloat16)
    gate_tiles, up_tiles, y_tiles = (TensorDescriptor.from_tensor(each, [rows, cols], layout) for each in (gate, up, y))
    across = triton.cdiv(n_cols, cols)
    tiles = across * triton.cdiv(n_rows, rows)
    roles_kernel[(min(tiles, 2 * 132),)](gate_tiles, up_tiles, y_tiles, across, tiles, 4, num_warps=4)
    return y
