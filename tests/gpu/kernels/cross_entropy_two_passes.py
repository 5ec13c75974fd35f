"""The maximum of a row first, then the sum around it.

operator: cross_entropy
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(logits_ptr, target_ptr, losses_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0)
    start_ptr = logits_ptr + row.to(tl.int64) * n_cols
    peaks = tl.full((block,), -float("inf"), dtype=tl.float32)
    for start in range(0, n_cols, block):
        cols = start + tl.arange(0, block)
        x = tl.load(start_ptr + cols, mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_last")
        peaks = tl.maximum(peaks, x.to(tl.float32), propagate_nan=tl.PropagateNan.ALL)
    peak = tl.max(peaks, axis=0)
    sums = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, n_cols, block):
        cols = start + tl.arange(0, block)
        x = tl.load(start_ptr + cols, mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_first")
        sums += tl.exp(x.to(tl.float32) - peak)
    chosen = tl.load(start_ptr + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(losses_ptr + row, tl.log(tl.sum(sums, axis=0)) + (peak - chosen))


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
    kernel[(n_rows,)](logits, target, losses, n_cols, block=2048, num_warps=8)
    mean_kernel[(1,)](losses, mean, n_rows, block=1024, num_warps=4)
    return mean
