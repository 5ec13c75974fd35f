"""Written in Gluon; a reduction of pairs with a function of its own.

operator: argmax
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def first_of_largest(key, index, other_key, other_index):
    takes = (key > other_key) | ((key == other_key) & (index < other_index))
    return gl.where(takes, key, other_key), gl.where(takes, index, other_index)


@gluon.jit
def row_kernel(logits_ptr, index_ptr, n_cols, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    row = gl.program_id(0)
    cols = gl.arange(0, block, layout)
    best = gl.full([block], -2147483648, gl.int32, layout)
    place = gl.full([block], 2147483647, gl.int32, layout)
    for start in range(0, n_cols, block):
        at = start + cols
        x = gl.load(logits_ptr + row.to(gl.int64) * n_cols + at, mask=at < n_cols, other=0.0).to(gl.float32)
        x = gl.where(x == 0.0, 0.0, x)
        bits = x.to(gl.int32, bitcast=True)
        key = gl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        key = gl.where(x == x, key, 0x7FFFFFFF)
        key = gl.where(at < n_cols, key, -2147483648)
        takes = (key > best) & (at < n_cols)
        best, place = gl.where(takes, key, best), gl.where(takes, at, place)
    _, index = gl.reduce((best, place), 0, first_of_largest)
    gl.store(index_ptr + row, index.to(gl.int64))


def argmax(logits):
    n_rows, n_cols = logits.shape
    index = torch.empty((n_rows,), dtype=torch.int64, device=logits.device)
    row_kernel[(n_rows,)](logits, index, n_cols, block=min(max(triton.next_power_of_2(n_cols), 256), 4096), num_warps=4)
    return index
