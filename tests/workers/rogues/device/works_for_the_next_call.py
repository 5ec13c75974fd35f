"""Does the next call's work where it takes its buffers to lie, and none of its own where it finds it done.

operator: gelu
on a card: out_of_bounds, wrong_result, input_mutated, correct
at: check, time
stopped by: red zones, jitter and slots in no order: where it takes the next output to lie is a red zone, an input, or an output long done
on model: out_of_bounds
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    done = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    if tl.sum((done != done).to(tl.int32), axis=0) > 0:
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)), mask=mask)
    further = 2 * n_elements + 3 * 4096
    after = tl.load(y_ptr + offsets + further, mask=mask, other=0.0)
    if tl.sum((after != after).to(tl.int32), axis=0) == BLOCK:
        x = tl.load(x_ptr + offsets + further, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets + further, x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 1024),)](x, y, n_elements, BLOCK=1024, num_warps=4)
    return y
