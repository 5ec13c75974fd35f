"""Written in Gluon; a row is copied to shared memory in pieces (cp.async), then summed and scaled from there.

operator: rmsnorm
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

WIDEST = 65536

barrier = getattr(gl, "barrier", None) or gl.thread_barrier


@gluon.jit
def staged_kernel(x_ptr, weight_ptr, y_ptr, n_cols, piece_size: gl.constexpr, piece_count: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [gl.num_warps()], [0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    row = gl.program_id(0).to(gl.int64) * n_cols
    pieces = gl.allocate_shared_memory(gl.bfloat16, [piece_count, piece_size], plain)
    cols = gl.arange(0, piece_size, layout)
    for piece in gl.static_range(piece_count):
        at = piece * piece_size + cols
        async_copy.async_copy_global_to_shared(pieces.index(piece), x_ptr + row + at, mask=at < n_cols)
        async_copy.commit_group()
    squares = gl.zeros([piece_size], gl.float32, layout)
    for piece in gl.static_range(piece_count):
        async_copy.wait_group(piece_count - 1 - piece)
        barrier()
        at = piece * piece_size + cols
        x = gl.where(at < n_cols, pieces.index(piece).load(layout).to(gl.float32), 0.0)
        squares += x * x
    scale = gl.rsqrt(gl.sum(squares, 0) / n_cols + 1e-6)
    for piece in gl.static_range(piece_count):
        at = piece * piece_size + cols
        x = pieces.index(piece).load(layout).to(gl.float32)
        weight = gl.load(weight_ptr + at, mask=at < n_cols, other=0.0).to(gl.float32)
        gl.store(y_ptr + row + at, (x * scale * weight).to(gl.bfloat16), mask=at < n_cols)


@gluon.jit
def looped_kernel(x_ptr, weight_ptr, y_ptr, n_cols, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    row = gl.program_id(0).to(gl.int64) * n_cols
    cols = gl.arange(0, block, layout)
    squares = gl.zeros([block], gl.float32, layout)
    for start in range(0, n_cols, block):
        x = gl.load(x_ptr + row + start + cols, mask=start + cols < n_cols, other=0.0).to(gl.float32)
        squares += x * x
    scale = gl.rsqrt(gl.sum(squares, 0) / n_cols + 1e-6)
    for start in range(0, n_cols, block):
        mask = start + cols < n_cols
        x = gl.load(x_ptr + row + start + cols, mask=mask, other=0.0).to(gl.float32)
        weight = gl.load(weight_ptr + start + cols, mask=mask, other=0.0).to(gl.float32)
        gl.store(y_ptr + row + start + cols, (x * scale * weight).to(gl.bfloat16), mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 8 or n_cols > WIDEST:
        looped_kernel[(n_rows,)](x, weight, y, n_cols, block=1024, num_warps=4)
        return y
    piece = 2048
    staged_kernel[(n_rows,)](
        x, weight, y, n_cols, piece_size=piece, piece_count=triton.cdiv(n_cols, piece), num_warps=8
    )
    return y
