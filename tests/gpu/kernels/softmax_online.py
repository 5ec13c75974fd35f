"""An online softmax: maximum and sum in one pass over chunks of the row, results in a second.

operator: softmax
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    peak = tl.full((block,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((block,), dtype=tl.float32)
    for start in range(0, n_cols, block):
        cols = start + tl.arange(0, block)
        x = tl.load(x_ptr + row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_peak = tl.maximum(peak, x, propagate_nan=tl.PropagateNan.ALL)
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        total = total * tl.exp2((peak - shift) * 1.4426950408889634) + tl.exp2((x - shift) * 1.4426950408889634)
        peak = new_peak
    top = tl.max(peak, axis=0)
    sums = tl.where(peak == -float("inf"), 0.0, total * tl.exp2((peak - top) * 1.4426950408889634))
    total_of_row = tl.sum(sums, axis=0)
    for start in range(0, n_cols, block):
        cols = start + tl.arange(0, block)
        mask = cols < n_cols
        x = tl.load(x_ptr + row + cols, mask=mask, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + row + cols, tl.exp2((x - top) * 1.4426950408889634) / total_of_row, mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    kernel[(n_rows,)](x, y, n_cols, block=1024, num_warps=4)
    return y
