"""Gluon: programs walk over rows, whose pieces come to a ring in shared memory ahead of the arithmetic (cp.async).

A row is read from memory once: mean, variance and result are made from its pieces, whose places then take those of
later rows. Weights and biases lie beside the ring. A kernel in Triton takes rows whose length 16 does not divide.
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
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    lanes = gl.arange(0, PIECE, layout)
    weights = gl.allocate_shared_memory(gl.bfloat16, [COUNT, PIECE], plain)
    biases = gl.allocate_shared_memory(gl.bfloat16, [COUNT, PIECE], plain)
    ring = gl.allocate_shared_memory(gl.bfloat16, [SLOTS, PIECE], plain)
    step = gl.num_programs(0)
    first = gl.program_id(0)
    for slot in gl.static_range(SLOTS):
        cols = (slot % COUNT) * PIECE + lanes
        fetch(x_ptr, ring.index(slot), first + (slot // COUNT) * step, n_rows, cols, N)
    for piece in gl.static_range(COUNT):
        cols = piece * PIECE + lanes
        weights.index(piece).store(gl.load(weight_ptr + cols, mask=cols < N, other=0.0))
        biases.index(piece).store(gl.load(bias_ptr + cols, mask=cols < N, other=0.0))
    turn = 0
    for row in range(first, n_rows, step):
        sums = gl.zeros([PIECE], gl.float32, layout)
        for piece in gl.static_range(COUNT):
            async_copy.wait_group(SLOTS - 1 - piece)
            barrier()
            x = ring.index((turn + piece) % SLOTS).load(layout).to(gl.float32)
            sums += gl.where(piece * PIECE + lanes < N, x, 0.0)
        mean = gl.sum(sums, 0) / N
        squares = gl.zeros([PIECE], gl.float32, layout)
        for piece in gl.static_range(COUNT):
            x = ring.index((turn + piece) % SLOTS).load(layout).to(gl.float32)
            centred = gl.where(piece * PIECE + lanes < N, x - mean, 0.0)
            squares += centred * centred
        scale = gl.rsqrt(gl.sum(squares, 0) / N + 1e-5)
        to_ptr = y_ptr + row.to(gl.int64) * N
        for piece in gl.static_range(COUNT):
            cols = piece * PIECE + lanes
            place = ring.index((turn + piece) % SLOTS)
            y = (place.load(layout).to(gl.float32) - mean) * scale * weights.index(piece).load(layout).to(gl.float32)
            y += biases.index(piece).load(layout).to(gl.float32)
            gl.store(to_ptr + cols, y.to(gl.bfloat16), mask=cols < N)
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
        pieces = triton.cdiv(n_cols, 8192)
        ring_kernel[(min(n_rows, 132),)](
            x, weight, bias, y, n_rows, N=n_cols, PIECE=8192, COUNT=pieces, SLOTS=5, num_warps=16
        )
    else:
        block = max(triton.next_power_of_2(n_cols), 2048)
        programs = 396 if n_cols > 4096 else 528  # As many as run at once.
        ring_kernel[(min(n_rows, programs),)](
            x, weight, bias, y, n_rows, N=n_cols, PIECE=block, COUNT=1, SLOTS=2, num_warps=8
        )
    return y
