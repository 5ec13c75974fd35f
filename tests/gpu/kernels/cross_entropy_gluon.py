"""Written in Gluon, the mean of the rows' losses by a kernel in Triton.

operator: cross_entropy
"""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def row_kernel(logits_ptr, target_ptr, losses_ptr, n_cols, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [gl.num_warps()], [0])
    row = gl.program_id(0)
    begin = logits_ptr + row.to(gl.int64) * n_cols
    cols = gl.arange(0, block, layout)
    peaks = gl.full([block], -float("inf"), gl.float32, layout)
    sums = gl.zeros([block], gl.float32, layout)
    for start in range(0, n_cols, block):
        x = gl.load(begin + start + cols, mask=start + cols < n_cols, other=-float("inf")).to(gl.float32)
        higher = gl.maximum(peaks, x)
        shift = gl.where(higher == -float("inf"), 0.0, higher)
        sums = sums * gl.exp(peaks - shift) + gl.exp(x - shift)
        peaks = gl.where(x == x, higher, x)
    peak = gl.max(peaks, 0)
    total = gl.sum(gl.where(sums == 0.0, 0.0, sums * gl.exp(peaks - peak)), 0)
    chosen = gl.load(begin + gl.load(target_ptr + row)).to(gl.float32)
    gl.store(losses_ptr + row, gl.log(total) + (peak - chosen))


@triton.jit
def mean_kernel(losses_ptr, mean_ptr, n_rows, block: tl.constexpr):
    partial = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, n_rows, block):
        rows = start + tl.arange(0, block)
        partial += tl.load(losses_ptr + rows, mask=rows < n_rows, other=0.0)
    tl.store(mean_ptr, tl.sum(partial, axis=0) / n_rows)


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    losses = torch.empty((n_rows,), dtype=torch.float32, device=logits.device)
    mean = torch.empty((), dtype=torch.float32, device=logits.device)
    row_kernel[(n_rows,)](logits, target, losses, n_cols, block=4096, num_warps=8)
    mean_kernel[(1,)](losses, mean, n_rows, block=1024)
    return mean
