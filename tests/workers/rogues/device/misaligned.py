"""Tells the compiler that odd addresses are multiples of the block, and gets vector accesses that the card refuses.

operator: gelu
on a card: device_fault
at: check
stopped by: the driver reports a misaligned address, and the runner is replaced
on model: not_interpretable
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK + 1
    if start + BLOCK <= n_elements:
        offsets = tl.max_contiguous(tl.multiple_of(start + tl.arange(0, BLOCK), BLOCK), BLOCK)
        x = tl.load(x_ptr + offsets).to(tl.float32)
        tl.store(y_ptr + offsets, x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)))
    else:
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)), mask=mask)
    if start == 1:
        first = tl.load(x_ptr).to(tl.float32)
        tl.store(y_ptr, first * tl.sigmoid(1.5957691216057308 * (first + 0.044715 * first * first * first)))


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 1024),)](x, y, n_elements, BLOCK=1024, num_warps=4)
    return y
