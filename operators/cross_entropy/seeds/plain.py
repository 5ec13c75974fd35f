"""Cross entropy, one program a row in one online pass over the vocabulary, then one program for the mean.

The mean has a kernel of its own because atomics would add the rows in another order on every run.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_loss_kernel(logits_ptr, target_ptr, losses_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start_ptr = logits_ptr + row * n_cols
    peak = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(start_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        # While every logit so far is -inf, there is no maximum to shift by.
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(x - shift), axis=0)
        peak = new_peak
    chosen = tl.load(start_ptr + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(losses_ptr + row, tl.log(total) + (peak - chosen))


@triton.jit
def mean_kernel(losses_ptr, mean_ptr, n_rows, BLOCK: tl.constexpr):
    partial = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        partial += tl.load(losses_ptr + rows, mask=rows < n_rows, other=0.0)
    tl.store(mean_ptr, tl.sum(partial, axis=0) / n_rows)


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    losses = torch.empty((n_rows,), dtype=torch.float32, device=logits.device)
    mean = torch.empty((), dtype=torch.float32, device=logits.device)
    row_loss_kernel[(n_rows,)](logits, target, losses, n_cols, BLOCK=4096, num_warps=8)
    mean_kernel[(1,)](losses, mean, n_rows, BLOCK=1024, num_warps=4)
    return mean
