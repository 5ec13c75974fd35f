"""Every program adds its row's loss to the mean by a load and a store, so that programs overwrite each other's sums.

operator: cross_entropy
on a card: wrong_result, nondeterministic
at: check
stopped by: error_ratio wherever there are several rows
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def loss_kernel(logits_ptr, target_ptr, mean_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
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
    loss = tl.log(total) + (peak - chosen)
    tl.store(mean_ptr, tl.load(mean_ptr) + loss / n_rows)


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    mean = torch.zeros((), dtype=torch.float32, device=logits.device)
    loss_kernel[(n_rows,)](logits, target, mean, n_rows, n_cols, BLOCK=4096, num_warps=8)
    return mean
