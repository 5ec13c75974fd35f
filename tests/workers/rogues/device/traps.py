"""Stops the device where there are many programs, to cost the judge its process.

operator: gelu
on a card: device_fault
at: check
stopped by: a runner of its own for every context: a spare takes over, and the outcome is the candidate's
on model: correct, not_interpretable
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if tl.program_id(0) > 200:
        tl.inline_asm_elementwise("trap; mov.b32 $0, 0;", "=r,r", [tl.full((1,), 0, tl.int32)], tl.int32, False, 1)
    tl.store(y_ptr + offsets, x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 1024),)](x, y, n_elements, BLOCK=1024, num_warps=4)
    return y
