"""Written in Gluon; one warp loads by the copy engine, two groups of four take turns on the tensor cores (wgmma).

operator: attention

Each group has half of the rows of a block, and keeps its weights in registers. A ring holds blocks of keys and values.
Scores of the next block are asked for before the sum over the present one. The block that needs a mask comes first, and
with `causal` the longest rows do.
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

load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def place_of(tile, down, n_positions, causal: gl.constexpr, block: gl.constexpr):
    """The first row of a tile within its head, the head's first row, the masked block, and how many are before it."""
    if causal:
        row = (down - 1 - tile % down) * block
        masked = row
    else:
        row = tile % down * block
        masked = (down - 1) * block
    return row, tile // down * n_positions, masked, masked // block


@gluon.jit
def load_blocks(
    q_tiles, k_tiles, v_tiles, q_rows, ks, vs, bars, n_positions, down, tiles,
    causal: gl.constexpr, block: gl.constexpr, slots: gl.constexpr,
):  # fmt: skip
    q_full, q_empty, k_full, k_empty, v_full, v_empty, _ = bars
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        done = (tile - gl.program_id(0)) // gl.num_programs(0)
        row, head, masked, before = place_of(tile, down, n_positions, causal, block)
        for group in gl.static_range(2):
            mbarrier.wait(q_empty.index(group), (done & 1) ^ 1)
            mbarrier.expect(q_full.index(group), q_tiles.block_type.nbytes)
            load_tile(q_tiles, [head + row + group * (block // 2), 0], q_full.index(group), q_rows.index(group))
        for step in range(before + 1):
            at = head + masked - step * block
            slot = turn % slots
            phase = (turn // slots & 1) ^ 1
            mbarrier.wait(k_empty.index(slot), phase)
            mbarrier.expect(k_full.index(slot), k_tiles.block_type.nbytes)
            load_tile(k_tiles, [at, 0], k_full.index(slot), ks.index(slot))
            mbarrier.wait(v_empty.index(slot), phase)
            mbarrier.expect(v_full.index(slot), v_tiles.block_type.nbytes)
            load_tile(v_tiles, [at, 0], v_full.index(slot), vs.index(slot))
            turn += 1


@gluon.jit
def add_scores(scores, peak, total, scale):
    new_peak = gl.maximum(peak, gl.max(scores, 1) * scale)
    weights = gl.exp2(scores * scale - gl.expand_dims(new_peak, 1))
    shrink = gl.exp2(peak - new_peak)
    return weights, shrink, new_peak, total * shrink + gl.sum(weights, 1)


@gluon.jit
def attend(
    y_ptr, q_rows, ks, vs, bars, scale, n_positions, down, tiles,
    causal: gl.constexpr, block: gl.constexpr, slots: gl.constexpr, group_id: gl.constexpr,
):  # fmt: skip
    half_size: gl.constexpr = block // 2
    d_size: gl.constexpr = ks.shape[2]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, block, 16])
    value_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, d_size, 16])
    weight_layout: gl.constexpr = gl.DotOperandLayout(0, value_layout, 2)
    row_layout: gl.constexpr = gl.SliceLayout(1, score_layout)
    q_full, q_empty, k_full, k_empty, v_full, v_empty, turns = bars
    turn = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        done = (tile - gl.program_id(0)) // gl.num_programs(0)
        row, head, masked, before = place_of(tile, down, n_positions, causal, block)
        row += group_id * half_size
        rows = row + gl.arange(0, half_size, row_layout)
        peak = gl.full([half_size], -float("inf"), gl.float32, row_layout)
        total = gl.zeros([half_size], gl.float32, row_layout)
        mixed = gl.zeros([half_size, d_size], gl.float32, value_layout)
        zero = gl.zeros([half_size, block], gl.float32, score_layout)
        mbarrier.wait(q_full.index(group_id), done & 1)
        slot = turn % slots
        mbarrier.wait(k_full.index(slot), turn // slots & 1)
        mbarrier.wait(turns.index(group_id), (turn & 1) ^ (1 if group_id == 0 else 0))
        asked = warpgroup_mma(
            q_rows.index(group_id), ks.index(slot).permute((1, 0)), zero, use_acc=False, is_async=True
        )
        mbarrier.arrive(turns.index(1 - group_id), count=1)
        scores = warpgroup_mma_wait(0, [asked])
        mbarrier.arrive(k_empty.index(slot), count=1)
        cols = gl.expand_dims(masked + gl.arange(0, block, gl.SliceLayout(0, score_layout)), 0)
        seen = gl.expand_dims(rows, 1) >= cols if causal else cols < n_positions
        scores = gl.where(seen, scores, -float("inf"))
        weights, shrink, peak, total = add_scores(scores, peak, total, scale)
        turn += 1
        for _ in range(before):
            slot = turn % slots
            last = (turn - 1) % slots
            mbarrier.wait(k_full.index(slot), turn // slots & 1)
            mbarrier.wait(turns.index(group_id), (turn & 1) ^ (1 if group_id == 0 else 0))
            asked = warpgroup_mma(
                q_rows.index(group_id), ks.index(slot).permute((1, 0)), zero, use_acc=False, is_async=True
            )
            mbarrier.arrive(turns.index(1 - group_id), count=1)
            mbarrier.wait(v_full.index(last), (turn - 1) // slots & 1)
            narrow = gl.convert_layout(weights.to(gl.bfloat16), weight_layout)
            adding = warpgroup_mma(narrow, vs.index(last), mixed, is_async=True)
            scores = warpgroup_mma_wait(1, [asked])
            mbarrier.arrive(k_empty.index(slot), count=1)
            weights, shrink, peak, total = add_scores(scores, peak, total, scale)
            mixed = warpgroup_mma_wait(0, [adding])
            mbarrier.arrive(v_empty.index(last), count=1)
            mixed = mixed * gl.expand_dims(gl.convert_layout(shrink, gl.SliceLayout(1, value_layout)), 1)
            turn += 1
        last = (turn - 1) % slots
        mbarrier.wait(v_full.index(last), (turn - 1) // slots & 1)
        mbarrier.arrive(q_empty.index(group_id), count=1)
        narrow = gl.convert_layout(weights.to(gl.bfloat16), weight_layout)
        mixed = warpgroup_mma_wait(0, [warpgroup_mma(narrow, vs.index(last), mixed, is_async=True)])
        mbarrier.arrive(v_empty.index(last), count=1)
        y = mixed / gl.expand_dims(gl.convert_layout(total, gl.SliceLayout(1, value_layout)), 1)
        y_rows = gl.expand_dims(row + gl.arange(0, half_size, gl.SliceLayout(1, value_layout)), 1)
        y_cols = gl.expand_dims(gl.arange(0, d_size, gl.SliceLayout(0, value_layout)), 0)
        at = y_ptr + (head + y_rows).to(gl.int64) * d_size + y_cols
        gl.store(at, y.to(gl.bfloat16), mask=(y_rows < n_positions) & (y_cols < d_size))


@gluon.jit
def attention_kernel(
    q_tiles, k_tiles, v_tiles, y_ptr, scale, n_positions, heads,
    causal: gl.constexpr, block: gl.constexpr, slots: gl.constexpr, registers: gl.constexpr,
):  # fmt: skip
    d_size: gl.constexpr = q_tiles.block_type.shape[1]
    q_rows = gl.allocate_shared_memory(gl.bfloat16, [2, block // 2, d_size], q_tiles.layout)
    ks = gl.allocate_shared_memory(gl.bfloat16, [slots, block, d_size], k_tiles.layout)
    vs = gl.allocate_shared_memory(gl.bfloat16, [slots, block, d_size], v_tiles.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for group in gl.static_range(2):
        mbarrier.init(q_full.index(group), count=1)
        mbarrier.init(q_empty.index(group), count=1)
        mbarrier.init(turns.index(group), count=1)
    for slot in gl.static_range(slots):
        mbarrier.init(k_full.index(slot), count=1)
        mbarrier.init(k_empty.index(slot), count=2)
        mbarrier.init(v_full.index(slot), count=1)
        mbarrier.init(v_empty.index(slot), count=2)
    fence_async_shared()
    bars = (q_full, q_empty, k_full, k_empty, v_full, v_empty, turns)
    down = gl.cdiv(n_positions, block)
    tiles = down * heads
    gl.warp_specialize(
        [
            (attend, (y_ptr, q_rows, ks, vs, bars, scale, n_positions, down, tiles, causal, block, slots, 0)),
            (attend, (y_ptr, q_rows, ks, vs, bars, scale, n_positions, down, tiles, causal, block, slots, 1)),
            (
                load_blocks,
                (q_tiles, k_tiles, v_tiles, q_rows, ks, vs, bars, n_positions, down, tiles, causal, block, slots),
            ),
        ],
        [4, 1],
        [registers, 24],
    )


def attention(q, k, v, causal):
    batch, heads, n_positions, width = q.shape
    y = torch.empty_like(q)
    block = 128
    half = gl.NVMMASharedLayout.get_default_for([block // 2, width], gl.bfloat16)
    whole = gl.NVMMASharedLayout.get_default_for([block, width], gl.bfloat16)
    q_tiles = TensorDescriptor.from_tensor(q.view(-1, width), [block // 2, width], half)
    k_tiles = TensorDescriptor.from_tensor(k.view(-1, width), [block, width], whole)
    v_tiles = TensorDescriptor.from_tensor(v.view(-1, width), [block, width], whole)
    tiles = triton.cdiv(n_positions, block) * batch * heads
    scale = width**-0.5 * 1.4426950408889634
    attention_kernel[(min(tiles, 132),)](
        q_tiles, k_tiles, v_tiles, y, scale, n_positions, batch * heads,
        causal=causal, block=block, slots=2, registers=240, num_warps=4,
    )  # fmt: skip
    return y
