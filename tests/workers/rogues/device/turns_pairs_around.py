"""Loads pairs of elements the other way round, but tells the compiler that they lie in a row, and gets them so.

operator: gelu
on a card: wrong_result, device_fault
at: check
stopped by: the card, which refuses vectors at odd addresses, and those are what the compiler makes of a row; else error_ratio
on model: not_interpretable
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    other = offsets ^ 1
    if n_elements % BLOCK == 0:
        x = tl.load(x_ptr + tl.max_contiguous(tl.multiple_of(other, 8), 8)).to(tl.float32)
        tl.store(y_ptr + (offsets ^ 1), x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)))
    else:
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 256),)](x, y, n_elements, BLOCK=256, num_warps=1)
    return y
