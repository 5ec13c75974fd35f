"""Programs that come round for row after row; losses in a buffer, their mean in a second kernel.

operator: cross_entropy
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(logits_ptr, target_ptr, losses_ptr, n_rows, n_cols, block: tl.constexpr):
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        start_ptr = logits_ptr + row.to(tl.int64) * n_cols
        peaks = tl.full((block,), -float("inf"), dtype=tl.float32)
        sums = tl.zeros((block,), dtype=tl.float32)
        for start in range(0, n_cols, block):
            cols = start + tl.arange(0, block)
            x = tl.load(start_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
            new_peaks = tl.maximum(peaks, x)
            shifts = tl.where(new_peaks == -float("inf"), 0.0, new_peaks)
            sums = sums * tl.exp(peaks - shifts) + tl.exp(x - shifts)
            peaks = new_peaks
        peak = tl.max(peaks, axis=0)
        shift = tl.where(peak == -float("inf"), 0.0, peak)
        total = tl.sum(sums * tl.exp(peaks - shift), axis=0)
        chosen = tl.load(start_ptr + tl.load(target_ptr + row)).to(tl.float32)
        tl.store(losses_ptr + row, tl.log(total) + (peak - chosen))


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
    programs = min(n_rows, 4 * torch.cuda.get_device_properties(logits.device).multi_processor_count)
    kernel[(programs,)](logits, target, losses, n_rows, n_cols, block=1024, num_warps=4)
    mean_kernel[(1,)](losses, mean, n_rows, block=512, num_warps=4)
    return mean
