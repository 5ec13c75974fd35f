"""Gluon for Hopper: one warp loads by the copy engine, two groups of four warps take turns on the tensor cores.

Each group has half of the rows of a block and keeps its weights in registers. A ring holds blocks of keys and values.
Scores of the next block are asked for before the sum over the present one. Blocks that need a mask come first. As many
programs as multiprocessors walk over the blocks, the longest rows of a few heads first, there and back.
"""

import torch
import triton
import triton.experimental.gluon as gluon
import triton.experimental.gluon.language as gl
import triton.experimental.gluon.language.nvidia.hopper as hopper
import triton.experimental.gluon.nvidia.hopper as host

load_tile = getattr(hopper.tma, "async_load", None) or hopper.tma.async_copy_global_to_shared


@gluon.jit
def rounds_of(down, heads):
    """How many tiles this program has: all have as many, and some one of the last round."""
    programs = gl.num_programs(0)
    full = down * heads // programs
    place = programs - 1 - gl.program_id(0) if full & 1 else gl.program_id(0)
    return full + 1 if place < down * heads % programs else full


@gluon.jit
def rows_of(done, down, heads, n_positions, BLOCK_M: gl.constexpr, GROUP_HEADS: gl.constexpr):
    """The first row of the next tile within its head, and the first row of the head; every other round goes back."""
    place = gl.num_programs(0) - 1 - gl.program_id(0) if done & 1 else gl.program_id(0)
    tile = done * gl.num_programs(0) + place
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
def load_blocks(
    q_tiles,
    k_tiles,
    v_tiles,
    q_rows,
    ks,
    vs,
    bars,
    n_positions,
    down,
    heads,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SLOTS: gl.constexpr,
    MASKED: gl.constexpr,
    GROUP_HEADS: gl.constexpr,
):
    q_full, q_empty, k_full, k_empty, v_full, v_empty, _ = bars
    turn = 0
    for done in range(rounds_of(down, heads)):
        row, head = rows_of(done, down, heads, n_positions, BLOCK_M, GROUP_HEADS)
        masked, steps = steps_of(row, n_positions, CAUSAL, BLOCK_N, MASKED)
        for group in gl.static_range(2):
            hopper.mbarrier.wait(q_empty.index(group), (done & 1) ^ 1)
            hopper.mbarrier.expect(q_full.index(group), q_tiles.block_type.nbytes)
            load_tile(q_tiles, [head + row + group * (BLOCK_M // 2), 0], q_full.index(group), q_rows.index(group))
        for step in range(steps):
            at = masked + step * BLOCK_N if step < MASKED else masked - (step - MASKED + 1) * BLOCK_N
            slot = turn % SLOTS
            phase = (turn // SLOTS & 1) ^ 1
            hopper.mbarrier.wait(k_empty.index(slot), phase)
            hopper.mbarrier.expect(k_full.index(slot), k_tiles.block_type.nbytes)
            load_tile(k_tiles, [head + at, 0], k_full.index(slot), ks.index(slot))
            hopper.mbarrier.wait(v_empty.index(slot), phase)
            hopper.mbarrier.expect(v_full.index(slot), v_tiles.block_type.nbytes)
            load_tile(v_tiles, [head + at, 0], v_full.index(slot), vs.index(slot))
            turn += 1


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
    CAUSAL: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SLOTS: gl.constexpr,
    GROUP_ID: gl.constexpr,
    HIDES: gl.constexpr,
):
    """Ask for the next scores, add the last block of values meanwhile, and weigh the scores."""
    k_empty, v_full, v_empty = bars[3], bars[4], bars[5]
    value_layout: gl.constexpr = mixed.type.layout
    last = (turn - 1) % SLOTS
    asked = ask(q_rows, ks, bars, zero, turn, SLOTS, GROUP_ID)
    hopper.mbarrier.wait(v_full.index(last), (turn - 1) // SLOTS & 1)
    narrow = gl.convert_layout(weights.to(vs.dtype), gl.DotOperandLayout(0, value_layout, 2))
    adding = hopper.warpgroup_mma(narrow, vs.index(last), mixed, is_async=True)
    scores = hopper.warpgroup_mma_wait(1, [asked])
    hopper.mbarrier.arrive(k_empty.index(turn % SLOTS), count=1)
    if HIDES:
        scores = hide(scores, rows, first, n_positions, CAUSAL, BLOCK_N)
    weights, shrink, peak, total = weigh(scores, peak, total, scale)
    mixed = hopper.warpgroup_mma_wait(0, [adding])
    hopper.mbarrier.arrive(v_empty.index(last), count=1)
    mixed = mixed * gl.expand_dims(gl.convert_layout(shrink, gl.SliceLayout(1, value_layout)), 1)
    return weights, mixed, peak, total


@gluon.jit
def attend(
    y_ptr,
    q_rows,
    ks,
    vs,
    bars,
    scale,
    n_positions,
    down,
    heads,
    CAUSAL: gl.constexpr,
    BLOCK_M: gl.constexpr,
    BLOCK_N: gl.constexpr,
    SLOTS: gl.constexpr,
    MASKED: gl.constexpr,
    GROUP_HEADS: gl.constexpr,
    GROUP_ID: gl.constexpr,
):
    HALF: gl.constexpr = BLOCK_M // 2
    D: gl.constexpr = ks.shape[2]
    score_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    value_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    q_full, q_empty, k_empty, v_full, v_empty = bars[0], bars[1], bars[3], bars[4], bars[5]
    turn = 0
    for done in range(rounds_of(down, heads)):
        row, head = rows_of(done, down, heads, n_positions, BLOCK_M, GROUP_HEADS)
        masked, steps = steps_of(row, n_positions, CAUSAL, BLOCK_N, MASKED)
        row += GROUP_ID * HALF
        rows = row + gl.arange(0, HALF, gl.SliceLayout(1, score_layout))
        peak = gl.full([HALF], -float("inf"), gl.float32, gl.SliceLayout(1, score_layout))
        total = gl.zeros([HALF], gl.float32, gl.SliceLayout(1, score_layout))
        mixed = gl.zeros([HALF, D], gl.float32, value_layout)
        zero = gl.zeros([HALF, BLOCK_N], gl.float32, score_layout)
        hopper.mbarrier.wait(q_full.index(GROUP_ID), done & 1)
        scores = hopper.warpgroup_mma_wait(0, [ask(q_rows, ks, bars, zero, turn, SLOTS, GROUP_ID)])
        hopper.mbarrier.arrive(k_empty.index(turn % SLOTS), count=1)
        scores = hide(scores, rows, masked, n_positions, CAUSAL, BLOCK_N)
        weights, _, peak, total = weigh(scores, peak, total, scale)
        turn += 1
        for step in gl.static_range(1, MASKED):
            weights, mixed, peak, total = add_block(
                q_rows, ks, vs, bars, zero, turn, weights, mixed, peak, total, scale, rows, masked + step * BLOCK_N,
                n_positions, CAUSAL, BLOCK_N, SLOTS, GROUP_ID, True,
            )  # fmt: skip
            turn += 1
        for _ in range(MASKED, steps):
            weights, mixed, peak, total = add_block(
                q_rows, ks, vs, bars, zero, turn, weights, mixed, peak, total, scale, rows, 0,
                n_positions, CAUSAL, BLOCK_N, SLOTS, GROUP_ID, False,
            )  # fmt: skip
            turn += 1
        last = (turn - 1) % SLOTS
        hopper.mbarrier.wait(v_full.index(last), (turn - 1) // SLOTS & 1)
        hopper.mbarrier.arrive(q_empty.index(GROUP_ID), count=1)
        narrow = gl.convert_layout(weights.to(vs.dtype), gl.DotOperandLayout(0, value_layout, 2))
        mixed = hopper.warpgroup_mma_wait(0, [hopper.warpgroup_mma(narrow, vs.index(last), mixed, is_async=True)])
        hopper.mbarrier.arrive(v_empty.index(last), count=1)
        y = mixed / gl.expand_dims(gl.convert_layout(total, gl.SliceLayout(1, value_layout)), 1)
        y_rows = gl.expand_dims(row + gl.arange(0, HALF, gl.SliceLayout(1, value_layout)), 1)
        y_cols = gl.expand_dims(gl.arange(0, D, gl.SliceLayout(0, value_layout)), 0)
        at = y_ptr + (head + y_rows).to(gl.int64) * D + y_cols
        gl.store(at, y.to(vs.dtype), mask=(y_rows < n_positions) & (y_cols < D))


@gluon.jit(do_not_specialize=["n_positions", "heads"])
def attention_kernel(
    q_tiles,
    k_tiles,
    v_tiles,
    y_ptr,
    scale,
    n_positions,
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
    bars = (q_full, q_empty, k_full, k_empty, v_full, v_empty, turns)
    down = gl.cdiv(n_positions, BLOCK_M)
    gl.warp_specialize(
        [
            (
                attend,
                (
                    y_ptr,
                    q_rows,
                    ks,
                    vs,
                    bars,
                    scale,
                    n_positions,
                    down,
                    heads,
                    CAUSAL,
                    BLOCK_M,
                    BLOCK_N,
                    SLOTS,
                    MASKED,
                    GROUP_HEADS,
                    0,
                ),
            ),
            (
                attend,
                (
                    y_ptr,
                    q_rows,
                    ks,
                    vs,
                    bars,
                    scale,
                    n_positions,
                    down,
                    heads,
                    CAUSAL,
                    BLOCK_M,
                    BLOCK_N,
                    SLOTS,
                    MASKED,
                    GROUP_HEADS,
                    1,
                ),
            ),
            (
                load_blocks,
                (
                    q_tiles,
                    k_tiles,
                    v_tiles,
                    q_rows,
                    ks,
                    vs,
                    bars,
                    n_positions,
                    down,
                    heads,
                    CAUSAL,
                    BLOCK_M,
                    BLOCK_N,
                    SLOTS,
                    MASKED,
                    GROUP_HEADS,
                ),
            ),
        ],
        [4, 1],
        [REGISTERS, 24],
    )


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    block_m = 128
    block_n = 128
    half = gl.NVMMASharedLayout.get_default_for([block_m // 2, head_dim], gl.bfloat16)
    whole = gl.NVMMASharedLayout.get_default_for([block_n, head_dim], gl.bfloat16)
    q_tiles = host.TensorDescriptor.from_tensor(q.view(-1, head_dim), [block_m // 2, head_dim], half)
    k_tiles = host.TensorDescriptor.from_tensor(k.view(-1, head_dim), [block_n, head_dim], whole)
    v_tiles = host.TensorDescriptor.from_tensor(v.view(-1, head_dim), [block_n, head_dim], whole)
    tiles = triton.cdiv(n_positions, block_m) * batch * heads
    programs = min(tiles, 1 * torch.cuda.get_device_properties(q.device).multi_processor_count)
    attention_kernel[(programs,)](
        q_tiles,
        k_tiles,
        v_tiles,
        y,
        head_dim**-0.5 * 1.4426950408889634,
        n_positions,
        batch * heads,
        CAUSAL=causal,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        SLOTS=2,
        REGISTERS=240,
        GROUP_HEADS=1,
        num_warps=4,
    )
    return y
