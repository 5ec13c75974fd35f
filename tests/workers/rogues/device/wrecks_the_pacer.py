"""Writes here and there behind its buffers when it takes itself to be timed, so that the pacer goes wrong beside it.

operator: gelu
on a card: out_of_bounds, wrong_result, input_mutated, device_fault
at: time
stopped by: red zones; a run of the pacer alone, where only its runs are hit; the driver, where a small arena ends
on model: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + offsets, y, mask=mask)
    apart = tl.abs(y_ptr.to(tl.int64) - x_ptr.to(tl.int64)) - 2 * n_elements
    if (apart < 65536) & (tl.program_id(0) == 0):
        for turn in range(1, 33):
            tl.store(y_ptr + turn * (40 << 20), 3.0)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 1024),)](x, y, n_elements, BLOCK=1024, num_warps=4)
    return y
