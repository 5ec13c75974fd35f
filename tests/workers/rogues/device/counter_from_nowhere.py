"""Lets the program that counts itself last add up the losses, but nobody sets the counter to zero.

operator: cross_entropy
on a card: wrong_result
at: check
stopped by: poison in scratch: the counter starts below zero, no program is the last one, the loss is never written
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def loss_kernel(logits_ptr, target_ptr, losses_ptr, counter_ptr, mean_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start_ptr = logits_ptr + row * n_cols
    peak = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(start_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(x - shift), axis=0)
        peak = new_peak
    chosen = tl.load(start_ptr + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(losses_ptr + row, tl.log(total) + (peak - chosen))
    if tl.atomic_add(counter_ptr, 1) == n_rows - 1:
        partial = tl.zeros((1024,), dtype=tl.float32)
        for start in range(0, n_rows, 1024):
            rows = start + tl.arange(0, 1024)
            partial += tl.load(losses_ptr + rows, mask=rows < n_rows, other=0.0, cache_modifier=".cg")
        tl.store(mean_ptr, tl.sum(partial, axis=0) / n_rows)


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    losses = torch.empty((n_rows,), dtype=torch.float32, device=logits.device)
    counter = torch.empty((), dtype=torch.int32, device=logits.device)
    mean = torch.empty((), dtype=torch.float32, device=logits.device)
    loss_kernel[(n_rows,)](logits, target, losses, counter, mean, n_rows, n_cols, BLOCK=4096, num_warps=8)
    return mean
