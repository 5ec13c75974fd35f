"""Gluon: a row's sums are made while its pieces arrive in shared memory (cp.async); weights come out of the cache.

Values are summed less the mean of the row's first piece, so that little of the sums cancels, and each piece is looked
at once before the results. Two programs share a multiprocessor, so that one loads while the other one computes. A
kernel in Triton takes rows whose length 16 does not divide.
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
def ahead_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    n_rows,
    N: gl.constexpr,
    PIECE: gl.constexpr,
    COUNT: gl.constexpr,
    SLOTS: gl.constexpr,
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
    bias = gl.load(bias_ptr + lanes, mask=lanes < N, other=0.0)
    turn = 0
    for row in range(first, n_rows, step):
        async_copy.wait_group(SLOTS - 1)
        barrier()
        x = gl.where(lanes < N, ring.index(turn).load(layout).to(gl.float32), 0.0)
        shift = gl.sum(x, 0) / gl.minimum(N, PIECE)
        away = gl.where(lanes < N, x - shift, 0.0)
        totals = away
        squares = away * away
        for piece in gl.static_range(1, COUNT):
            async_copy.wait_group(SLOTS - 1 - piece)
            barrier()
            x = ring.index((turn + piece) % SLOTS).load(layout).to(gl.float32)
            away = gl.where(piece * PIECE + lanes < N, x - shift, 0.0)
            totals += away
            squares += away * away
        moved = gl.sum(totals, 0) / N
        variance = gl.sum(squares, 0) / N - moved * moved
        scale = gl.rsqrt(gl.maximum(variance, 0.0, propagate_nan=tl.PropagateNan.ALL) + 1e-5)
        to_ptr = y_ptr + row.to(gl.int64) * N
        for piece in range(COUNT):
            cols = piece * PIECE + lanes
            place = ring.index((turn + piece) % SLOTS)
            y = (place.load(layout).to(gl.float32) - shift - moved) * scale * weight.to(gl.float32)
            gl.store(to_ptr + cols, (y + bias.to(gl.float32)).to(gl.bfloat16), mask=cols < N)
            if COUNT > 1:  # Those of the next piece are on their way over the barrier.
                cols = (piece + 1) % COUNT * PIECE + lanes
                weight = gl.load(weight_ptr + cols, mask=cols < N, other=0.0)
                bias = gl.load(bias_ptr + cols, mask=cols < N, other=0.0)
            barrier()
            cols = (piece + SLOTS) % COUNT * PIECE + lanes
            fetch(x_ptr, place, row + (piece + SLOTS) // COUNT * step, n_rows, cols, N)
        turn = (turn + COUNT) % SLOTS
    async_copy.wait_group(0)


@triton.jit
def row_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    centred = tl.where(mask, x - tl.sum(x, axis=0) / n_cols, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + 1e-5)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n_cols + cols, centred * scale * weight + bias, mask=mask)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 16 or n_cols > 32768:
        row_kernel[(n_rows,)](x, weight, bias, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=16)
    elif n_cols > 8192:
        pieces = triton.cdiv(n_cols, 4096)
        ahead_kernel[(min(n_rows, 264),)](
            x, weight, bias, y, n_rows, N=n_cols, PIECE=4096, COUNT=pieces, SLOTS=13, num_warps=8
        )
    else:
        block = max(triton.next_power_of_2(n_cols), 1024)
        programs = 264 if n_cols > 4096 else 528  # As many as run at once.
        ahead_kernel[(min(n_rows, programs),)](
            x, weight, bias, y, n_rows, N=n_cols, PIECE=block, COUNT=1, SLOTS=5, num_warps=block // 1024
        )
    return y
