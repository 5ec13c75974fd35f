"""Losses of rows added to a cleared mean by float32 atomics.

operator: cross_entropy
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(logits_ptr, target_ptr, mean_ptr, n_rows, n_cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start_ptr = logits_ptr + row * n_cols
    peak = -float("inf")
    total = 0.0
    for start in tl.range(0, n_cols, block, num_stages=3):
        cols = start + tl.arange(0, block)
        x = tl.load(start_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(x - shift), axis=0)
        peak = new_peak
    chosen = tl.load(start_ptr + tl.load(target_ptr + row)).to(tl.float32)
    tl.atomic_add(mean_ptr, (tl.log(total) + (peak - chosen)) / n_rows)


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    mean = torch.zeros((), dtype=torch.float32, device=logits.device)
    kernel[(n_rows,)](logits, target, mean, n_rows, n_cols, block=4096, num_warps=8)
    return mean
