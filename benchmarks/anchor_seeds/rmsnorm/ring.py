"""Gluon: programs walk over rows, whose pieces come to a ring in shared memory ahead of the arithmetic (cp.async).

A row is read from memory once: its squares are summed as pieces arrive, and its result is made from the same pieces.
Their places then take pieces of later rows. Rows whose length 16 does not divide are read twice by a kernel in Triton.
"""

import torch
import triton
import triton.experimental.gluon as gluon
import triton.experimental.gluon.language as gl
import triton.experimental.gluon.language.nvidia.ampere.async_copy as async_copy
import triton.language as tl

barrier = getattr(gl, "barrier", None) or gl.thread_barrier


@gluon.jit
def fetch(x_ptr, place, row, n_rows, cols, N: gl.constexpr):
    """Begin to copy a piece of a row, if there is such a row; a group of copies in any case."""
    if row < n_rows:
        from_ptr = x_ptr + row.to(gl.int64) * N
        async_copy.async_copy_global_to_shared(place, from_ptr + cols, mask=cols < N)
    async_copy.commit_group()


@gluon.jit
def ring_kernel(
    x_ptr, weight_ptr, y_ptr, n_rows, N: gl.constexpr, PIECE: gl.constexpr, COUNT: gl.constexpr, SLOTS: gl.constexpr
):
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [gl.num_warps()], [0])
    lanes = gl.arange(0, PIECE, layout)
    ring = gl.allocate_shared_memory(gl.bfloat16, [SLOTS, PIECE], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    step = gl.num_programs(0)
    first = gl.program_id(0)
    for slot in gl.static_range(SLOTS):
        cols = (slot % COUNT) * PIECE + lanes
        fetch(x_ptr, ring.index(slot), first + (slot // COUNT) * step, n_rows, cols, N)
    weight = gl.load(weight_ptr + lanes, mask=lanes < N, other=0.0)
    turn = 0
    for row in range(first, n_rows, step):
        squares = gl.zeros([PIECE], gl.float32, layout)
        for piece in gl.static_range(COUNT):
            async_copy.wait_group(SLOTS - 1 - piece)
            barrier()
            x = ring.index((turn + piece) % SLOTS).load(layout).to(gl.float32)
            x = gl.where(piece * PIECE + lanes < N, x, 0.0)
            squares += x * x
        scale = gl.rsqrt(gl.sum(squares, 0) / N + 1e-6)
        to_ptr = y_ptr + row.to(gl.int64) * N
        for piece in gl.static_range(COUNT):
            cols = piece * PIECE + lanes
            place = ring.index((turn + piece) % SLOTS)
            y = place.load(layout).to(gl.float32) * scale * weight.to(gl.float32)
            gl.store(to_ptr + cols, y.to(gl.bfloat16), mask=cols < N)
            if COUNT > 1:  # Those of the next piece are on their way over the barrier.
                cols = (piece + 1) % COUNT * PIECE + lanes
                weight = gl.load(weight_ptr + cols, mask=cols < N, other=0.0)
            barrier()
            cols = (piece + SLOTS) % COUNT * PIECE + lanes
            fetch(x_ptr, place, row + (piece + SLOTS) // COUNT * step, n_rows, cols, N)
        turn = (turn + COUNT) % SLOTS
    async_copy.wait_group(0)


@triton.jit
def pieces_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * n_cols
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + begin + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + 1e-6)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(y_ptr + begin + cols, x * scale * weight, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 16 or n_cols > 65536:
        pieces_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=4096, num_warps=8)
    elif n_cols > 8192:
        pieces = triton.cdiv(n_cols, 8192)
        ring_kernel[(min(n_rows, 132),)](
            x, weight, y, n_rows, N=n_cols, PIECE=8192, COUNT=pieces, SLOTS=13, num_warps=16
        )
    elif n_cols > 2048:
        block = triton.next_power_of_2(n_cols)
        programs = 264 if n_cols > 4096 else 528  # As many as run at once.
        ring_kernel[(min(n_rows, programs),)](
            x, weight, y, n_rows, N=n_cols, PIECE=block, COUNT=1, SLOTS=4, num_warps=8
        )
    else:
        block = max(triton.next_power_of_2(n_cols), 512)
        ring_kernel[(min(n_rows, 2112),)](x, weight, y, n_rows, N=n_cols, PIECE=block, COUNT=1, SLOTS=4, num_warps=2)
    return y
