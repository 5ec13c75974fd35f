"""Gluon: programs walk over rows, whose pieces come to a ring in shared memory ahead of the arithmetic (cp.async).

A row is read from memory once: its peak, sum and result are made from its pieces, whose places then take those of later
rows. Two programs share a multiprocessor. A kernel in Triton takes rows whose length 16 does not divide.
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
def ring_kernel(x_ptr, y_ptr, n_rows, N: gl.constexpr, PIECE: gl.constexpr, COUNT: gl.constexpr, SLOTS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [gl.num_warps()], [0])
    lanes = gl.arange(0, PIECE, layout)
    ring = gl.allocate_shared_memory(gl.bfloat16, [SLOTS, PIECE], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    step = gl.num_programs(0)
    first = gl.program_id(0)
    for slot in gl.static_range(SLOTS):
        cols = (slot % COUNT) * PIECE + lanes
        fetch(x_ptr, ring.index(slot), first + (slot // COUNT) * step, n_rows, cols, N)
    turn = 0
    for row in range(first, n_rows, step):
        peaks = gl.full([PIECE], -float("inf"), gl.float32, layout)
        for piece in gl.static_range(COUNT):
            async_copy.wait_group(SLOTS - 1 - piece)
            barrier()
            x = ring.index((turn + piece) % SLOTS).load(layout).to(gl.float32)
            x = gl.where(piece * PIECE + lanes < N, x, -float("inf"))
            peaks = gl.maximum(peaks, x)
        peak = gl.max(peaks, 0) * 1.4426950408889634
        sums = gl.zeros([PIECE], gl.float32, layout)
        for piece in gl.static_range(COUNT):
            x = ring.index((turn + piece) % SLOTS).load(layout).to(gl.float32)
            power = gl.exp2(x * 1.4426950408889634 - peak)
            sums += gl.where(piece * PIECE + lanes < N, power, 0.0)
        scale = 1.0 / gl.sum(sums, 0)
        to_ptr = y_ptr + row.to(gl.int64) * N
        for piece in gl.static_range(COUNT):
            cols = piece * PIECE + lanes
            place = ring.index((turn + piece) % SLOTS)
            y = gl.exp2(place.load(layout).to(gl.float32) * 1.4426950408889634 - peak) * scale
            gl.store(to_ptr + cols, y.to(gl.bfloat16), mask=cols < N)
            barrier()
            cols = (piece + SLOTS) % COUNT * PIECE + lanes
            fetch(x_ptr, place, row + (piece + SLOTS) // COUNT * step, n_rows, cols, N)
        turn = (turn + COUNT) % SLOTS
    async_copy.wait_group(0)


@triton.jit
def row_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)
    tl.store(y_ptr + row * n_cols + cols, numerator * (1.0 / tl.sum(numerator, axis=0)), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 16 or n_cols > 65536:
        row_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=16)
    elif n_cols > 32768:
        pieces = triton.cdiv(n_cols, 8192)
        ring_kernel[(min(n_rows, 132),)](x, y, n_rows, N=n_cols, PIECE=8192, COUNT=pieces, SLOTS=13, num_warps=16)
    elif n_cols > 8192:
        pieces = triton.cdiv(n_cols, 4096)
        ring_kernel[(min(n_rows, 264),)](x, y, n_rows, N=n_cols, PIECE=4096, COUNT=pieces, SLOTS=13, num_warps=8)
    else:
        block = max(triton.next_power_of_2(n_cols), 1024)
        ring_kernel[(min(n_rows, 528),)](x, y, n_rows, N=n_cols, PIECE=block, COUNT=1, SLOTS=3, num_warps=4)
    return y
