"""Gives rows away by an atomic counter, but stores as if programs had come in the order of their numbers.

operator: softmax
on a card: wrong_result, nondeterministic
at: check
stopped by: error_ratio wherever programs come in another order, and no two runs come in the same
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, counter_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.atomic_add(counter_ptr, 1).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    peak = tl.max(x, axis=0)
    raised = tl.exp(x - peak)
    tl.store(y_ptr + place * n_cols + cols, raised / tl.sum(raised, axis=0), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    counter = torch.zeros((1,), dtype=torch.int32, device=x.device)
    softmax_kernel[(n_rows,)](x, y, counter, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
