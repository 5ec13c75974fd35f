"""Gluon for Hopper: programs take the next block of rows from a counter, and results leave by the copy engine.

One warp takes blocks and loads their tiles ahead; two groups of four warps take turns on the tensor cores. It passes
the rows of a block to both with the queries, and loads the first keys before them. A group gives its queries back
when its last scores are there. The longest rows of a few heads come first, so all programs end at about one time.
"""

import torch
import triton
import triton.experimental.gluon as gluon
import triton.experimental.gluon.language as gl
import triton.experimental.gluon.language.nvidia.hopper as hopper
import triton.experimental.gluon.nvidia.hopper as host

barrier = getattr(gl, "barrier", None) or gl.thread_barrier
load_tile = getattr(hopper.tma, "async_load", None) or hopper.tma.async_copy_global_to_shared
store_tile = getattr(hopper.tma, "async_store", None) or hopper.tma.async_copy_shared_to_global


@gluon.jit
def rows_of(tile, sizes, BLOCK_M: gl.constexpr, GROUP_HEADS: gl.constexpr):
    """The first row of a tile within its head, and the first row of the head."""
    n_positions, down, heads = sizes
    band = tile // (GROUP_HEADS * down)
    within = tile % (GROUP_HEADS * down)
    held = gl.minimum(heads - band * GROUP_HEADS, GROUP_HEADS)
    return (down - 1 - within // held) * BLOCK_M, (band * GROUP_HEADS + within % held) * n_positions


@gluon.jit
def steps_of(row, n_positions, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr, MASKED: gl.constexpr):
    """The first key that needs a mask, and how many blocks of keys there are."""
    masked = row if CAUSAL else (n_positions - 1) // BLOCK_N * BLOCK_N
    return masked, MASKED + masked // BLOCK_N


@gluon.jit
def pass_on(taken, row, head, group: gl.constexpr):
    """Tell a group which rows come next: the first one within its head, and the first one of the head."""
    one: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    taken.index(2 * group).store(gl.full([1], row, gl.int32, one))
    taken.index(2 * group + 1).store(gl.full([1], head, gl.int32, one))
    barrier()


@gluon.jit
def load_blocks(
    inputs,
    counter,
    rings,
    bars,
    sizes,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SLOTS: gl.constexpr,
    MASKED: gl.constexpr,
    GROUP_HEADS: gl.constexpr,
):
    q_tiles, k_tiles, v_tiles = inputs
    q_rows, ks, vs, taken = rings
    q_full, q_empty, k_full, k_empty, v_full, v_empty, _ = bars
    n_positions, down, heads = sizes
    tile = gl.program_id(0)
    done = 0
    turn = 0
    while tile < down * heads:
        row, head = rows_of(tile, sizes, BLOCK_M, GROUP_HEADS)
        masked, steps = steps_of(row, n_positions, CAUSAL, BLOCK_N, MASKED)
        for step in range(steps):
            at = masked + step * BLOCK_N if step < MASKED else masked - (step - MASKED + 1) * BLOCK_N
            slot = turn % SLOTS
            phase = (turn // SLOTS & 1) ^ 1
            hopper.mbarrier.wait(k_empty.index(slot), phase)
            hopper.mbarrier.expect(k_full.index(slot), k_tiles.block_type.nbytes)
            load_tile(k_tiles, [head + at, 0], k_full.index(slot), ks.index(slot))
            if step == 0:
                for group in gl.static_range(2):
                    hopper.mbarrier.wait(q_empty.index(group), (done & 1) ^ 1)
                    pass_on(taken, row + group * (BLOCK_M // 2), head, group)
                    hopper.mbarrier.expect(q_full.index(group), q_tiles.block_type.nbytes)
                    load_tile(
                        q_tiles, [head + row + group * (BLOCK_M // 2), 0], q_full.index(group), q_rows.index(group)
                    )
            hopper.mbarrier.wait(v_empty.index(slot), phase)
            hopper.mbarrier.expect(v_full.index(slot), v_tiles.block_type.nbytes)
            load_tile(v_tiles, [head + at, 0], v_full.index(slot), vs.index(slot))
            turn += 1
        tile = gl.num_programs(0) + gl.atomic_add(counter, 1)
        done += 1
    for group in gl.static_range(2):
        hopper.mbarrier.wait(q_empty.index(group), (done & 1) ^ 1)
        pass_on(taken, -1, 0, group)
        hopper.mbarrier.arrive(q_full.index(group), count=1)


@gluon.jit
def next_rows(taken, q_full, done, GROUP_ID: gl.constexpr):
    """Wait for a group's queries, and return their place; the row is -1 if there is no more."""
    one: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    hopper.mbarrier.wait(q_full.index(GROUP_ID), done & 1)
    return gl.max(taken.index(2 * GROUP_ID).load(one), 0), gl.max(taken.index(2 * GROUP_ID + 1).load(one), 0)


@gluon.jit
def ask(q_rows, ks, bars, zero, turn, SLOTS: gl.constexpr, GROUP_ID: gl.constexpr):
    """Start the scores of a block when it has come and it is this group's turn."""
    k_full, turns = bars[2], bars[6]
    slot = turn % SLOTS
    hopper.mbarrier.wait(k_full.index(slot), turn // SLOTS & 1)
    hopper.mbarrier.wait(turns.index(GROUP_ID), (turn & 1) ^ (1 if GROUP_ID == 0 else 0))
    keys = ks.index(slot).permute((1, 0))
    asked = hopper.warpgroup_mma(q_rows.index(GROUP_ID), keys, zero, use_acc=False, is_async=True)
    hopper.mbarrier.arrive(turns.index(1 - GROUP_ID), count=1)
    return asked


@gluon.jit
def hide(scores, rows, first, n_positions, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    cols = gl.expand_dims(first + gl.arange(0, BLOCK_N, gl.SliceLayout(0, scores.type.layout)), 0)
    seen = gl.expand_dims(rows, 1) >= cols if CAUSAL else cols < n_positions
    return gl.where(seen, scores, -float("inf"))


@gluon.jit
def weigh(scores, peak, total, scale):
    new_peak = gl.maximum(peak, gl.max(scores, 1) * scale)
    weights = gl.exp2(scores * scale - gl.expand_dims(new_peak, 1))
    shrink = gl.exp2(peak - new_peak)
    return weights, shrink, new_peak, total * shrink + gl.sum(weights, 1)


@gluon.jit
def add_block(
    q_rows,
    ks,
    vs,
    bars,
    zero,
    turn,
    weights,
    mixed,
    peak,
    total,
    scale,
    rows,
    first,
    n_positions,
    is_last,
    CAUSAL: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SLOTS: gl.constexpr,
    GROUP_ID: gl.constexpr,
    HIDES: gl.constexpr,
):
    """Ask for the next scores, add the last block of values meanwhile, and weigh the scores."""
    q_empty, k_empty, v_full, v_empty = bars[1], bars[3], bars[4], bars[5]
    value_layout: gl.constexpr = mixed.type.layout
    last = (turn - 1) % SLOTS
    asked = ask(q_rows, ks, bars, zero, turn, SLOTS, GROUP_ID)
    hopper.mbarrier.wait(v_full.index(last), (turn - 1) // SLOTS & 1)
    narrow = gl.convert_layout(weights.to(vs.dtype), gl.DotOperandLayout(0, value_layout, 2))
    adding = hopper.warpgroup_mma(narrow, vs.index(last), mixed, is_async=True)
    scores = hopper.warpgroup_mma_wait(1, [asked])
    hopper.mbarrier.arrive(k_empty.index(turn % SLOTS), count=1)
    hopper.mbarrier.arrive(q_empty.index(GROUP_ID), count=1, pred=is_last)
    if HIDES:
        scores = hide(scores, rows, first, n_positions, CAUSAL, BLOCK_N)
    weights, shrink, peak, total = weigh(scores, peak, total, scale)
    mixed = hopper.warpgroup_mma_wait(0, [adding])
    hopper.mbarrier.arrive(v_empty.index(last), count=1)
    mixed = mixed * gl.expand_dims(gl.convert_layout(shrink, gl.SliceLayout(1, value_layout)), 1)
    return weights, mixed, peak, total


@gluon.jit
def attend(
    y_tiles,
    y_ptr,
    rings,
    bars,
    ready,
    n_positions,
    scale,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SLOTS: gl.constexpr,
    MASKED: gl.constexpr,
    GROUP_ID: gl.constexpr,
):
    q_rows, ks, vs, taken = rings
    q_full, q_empty, k_empty, v_full, v_empty = bars[0], bars[1], bars[3], bars[4], bars[5]
    HALF: gl.constexpr = BLOCK_M // 2
    D: gl.constexpr = ks.shape[2]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    value_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    turn = 0
    done = 0
    row, head = next_rows(taken, q_full, done, GROUP_ID)
    while row >= 0:
        masked, steps = steps_of(row - GROUP_ID * HALF, n_positions, CAUSAL, BLOCK_N, MASKED)
        rows = row + gl.arange(0, HALF, gl.SliceLayout(1, score_layout))
        peak = gl.full([HALF], -float("inf"), gl.float32, gl.SliceLayout(1, score_layout))
        total = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, score_layout))
        mixed = gl.zeros([HALF, D], gl.float32, value_layout)
        zero = gl.zeros([HALF, BLOCK_N], gl.float32, score_layout)
        scores = hopper.warpgroup_mma_wait(0, [ask(q_rows, ks, bars, zero, turn, SLOTS, GROUP_ID)])
        hopper.mbarrier.arrive(k_empty.index(turn % SLOTS), count=1)
        hopper.mbarrier.arrive(q_empty.index(GROUP_ID), count=1, pred=steps == 1)
        scores = hide(scores, rows, masked, n_positions, CAUSAL, BLOCK_N)
        weights, _, peak, total = weigh(scores, peak, total, scale)
        turn += 1
        for step in gl.static_range(1, MASKED):
            weights, mixed, peak, total = add_block(
                q_rows, ks, vs, bars, zero, turn, weights, mixed, peak, total, scale, rows, masked + step * BLOCK_N,
                n_positions, steps == step + 1, CAUSAL, BLOCK_N, SLOTS, GROUP_ID, True,
            )  # fmt: skip
            turn += 1
        for step in range(MASKED, steps):
            weights, mixed, peak, total = add_block(
                q_rows, ks, vs, bars, zero, turn, weights, mixed, peak, total, scale, rows, 0,
                n_positions, steps == step + 1, CAUSAL, BLOCK_N, SLOTS, GROUP_ID, False,
            )  # fmt: skip
            turn += 1
        last = (turn - 1) % SLOTS
        hopper.mbarrier.wait(v_full.index(last), (turn - 1) // SLOTS & 1)
        narrow = gl.convert_layout(weights.to(vs.dtype), gl.DotOperandLayout(0, value_layout, 2))
        mixed = hopper.warpgroup_mma_wait(0, [hopper.warpgroup_mma(narrow, vs.index(last), mixed, is_async=True)])
        hopper.mbarrier.arrive(v_empty.index(last), count=1)
        y = mixed * gl.expand_dims(gl.convert_layout(1.0 / total, gl.SliceLayout(1, value_layout)), 1)
        if row + HALF <= n_positions:
            hopper.tma.store_wait(0)
            barrier()
            ready.index(GROUP_ID).store(y.to(vs.dtype))
            hopper.fence_async_shared()
            barrier()
            store_tile(y_tiles, [head + row, 0], ready.index(GROUP_ID))
        else:
            y_rows = gl.expand_dims(row + gl.arange(0, HALF, gl.SliceLayout(1, value_layout)), 1)
            y_cols = gl.expand_dims(gl.arange(0, D, gl.SliceLayout(0, value_layout)), 0)
            at = y_ptr + (head + y_rows).to(gl.int64) * D + y_cols
            gl.store(at, y.to(vs.dtype), mask=(y_rows < n_positions) & (y_cols < D))
        done += 1
        row, head = next_rows(taken, q_full, done, GROUP_ID)
    hopper.tma.store_wait(0)


@gluon.jit(do_not_specialize=["n_positions", "down", "heads"])
def attention_kernel(
    q_tiles,
    k_tiles,
    v_tiles,
    y_tiles,
    y_ptr,
    counter,
    scale,
    n_positions,
    down,
    heads,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SLOTS: gl.constexpr,
    REGISTERS: gl.constexpr,
    GROUP_HEADS: gl.constexpr,
):
    D: gl.constexpr = q_tiles.block_type.shape[1]
    MASKED: gl.constexpr = BLOCK_M // BLOCK_N if CAUSAL else 1
    gl.static_assert(BLOCK_M % BLOCK_N == 0, "a block of rows needs whole blocks of keys")
    q_rows = gl.allocate_shared_memory(q_tiles.dtype, [2, BLOCK_M // 2, D], q_tiles.layout)
    ks = gl.allocate_shared_memory(k_tiles.dtype, [SLOTS, BLOCK_N, D], k_tiles.layout)
    vs = gl.allocate_shared_memory(v_tiles.dtype, [SLOTS, BLOCK_N, D], v_tiles.layout)
    ready = gl.allocate_shared_memory(y_tiles.dtype, [2, BLOCK_M // 2, D], y_tiles.layout)
    taken = gl.allocate_shared_memory(gl.int32, [4, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    q_full = gl.allocate_shared_memory(gl.int64, [2, 1], hopper.mbarrier.MBarrierLayout())
    q_empty = gl.allocate_shared_memory(gl.int64, [2, 1], hopper.mbarrier.MBarrierLayout())
    k_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    k_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    v_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    v_empty = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], hopper.mbarrier.MBarrierLayout())
    for group in gl.static_range(2):
        hopper.mbarrier.init(q_full.index(group), count=1)
        hopper.mbarrier.init(q_empty.index(group), count=1)
        hopper.mbarrier.init(turns.index(group), count=1)
    for slot in gl.static_range(SLOTS):
        hopper.mbarrier.init(k_full.index(slot), count=1)
        hopper.mbarrier.init(k_empty.index(slot), count=2)
        hopper.mbarrier.init(v_full.index(slot), count=1)
        hopper.mbarrier.init(v_empty.index(slot), count=2)
    hopper.fence_async_shared()
    inputs = (q_tiles, k_tiles, v_tiles)
    rings = (q_rows, ks, vs, taken)
    bars = (q_full, q_empty, k_full, k_empty, v_full, v_empty, turns)
    sizes = (n_positions, down, heads)
    gl.warp_specialize(
        [
            (
                attend,
                (y_tiles, y_ptr, rings, bars, ready, n_positions, scale,
                 CAUSAL, BLOCK_M, BLOCK_N, SLOTS, MASKED, 0),
            ),
            (
                attend,
                (y_tiles, y_ptr, rings, bars, ready, n_positions, scale,
                 CAUSAL, BLOCK_M, BLOCK_N, SLOTS, MASKED, 1),
            ),
            (
                load_blocks,
                (inputs, counter, rings, bars, sizes, CAUSAL, BLOCK_M, BLOCK_N, SLOTS, MASKED, GROUP_HEADS),
            ),
        ],
        [4, 1],
        [REGISTERS, 24],
    )  # fmt: skip
    for group in gl.static_range(2):
        hopper.mbarrier.invalidate(q_full.index(group))
        hopper.mbarrier.invalidate(q_empty.index(group))
        hopper.mbarrier.invalidate(turns.index(group))
    for slot in gl.static_range(SLOTS):
        hopper.mbarrier.invalidate(k_full.index(slot))
        hopper.mbarrier.invalidate(k_empty.index(slot))
        hopper.mbarrier.invalidate(v_full.index(slot))
        hopper.mbarrier.invalidate(v_empty.index(slot))


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    block_m = 128
    block_n = 128
    half = gl.NVMMASharedLayout.get_default_for([block_m // 2, head_dim], gl.bfloat16)
    whole = gl.NVMMASharedLayout.get_default_for([block_n, head_dim], gl.bfloat16)
    q_tiles = host.TensorDescriptor.from_tensor(q.view(-1, head_dim), [block_m // 2, head_dim], half)
    k_tiles = host.TensorDescriptor.from_tensor(k.view(-1, head_dim), [block_n, head_dim], whole)
    v_tiles = host.TensorDescriptor.from_tensor(v.view(-1, head_dim), [block_n, head_dim], whole)
    y_tiles = host.TensorDescriptor.from_tensor(y.view(-1, head_dim), [block_m // 2, head_dim], half)
    down = triton.cdiv(n_positions, block_m)
    programs = min(down * batch * heads, 1 * torch.cuda.get_device_properties(q.device).multi_processor_count)
    attention_kernel[(programs,)](
        q_tiles,
        k_tiles,
        v_tiles,
        y_tiles,
        y,
        counter,
        head_dim**-0.5 * 1.4426950408889634,
        n_positions,
        down,
        batch * heads,
        CAUSAL=causal,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        SLOTS=2,
        REGISTERS=240,
        GROUP_HEADS=8,
        num_warps=4,
    )
    return y
