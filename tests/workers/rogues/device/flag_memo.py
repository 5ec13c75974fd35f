"""Marks a block as done in memory of its own and does no block twice, trusting fresh memory to be zero.

operator: gelu
on a card: wrong_result
at: check
stopped by: poison in scratch: every block looks done, and the output is never written
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, done_ptr, n_elements, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    if tl.load(done_ptr + block) == 0:
        offsets = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        tl.store(y_ptr + offsets, y, mask=mask)
        tl.store(done_ptr + block, 1)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    blocks = triton.cdiv(n_elements, 1024)
    done = torch.empty((blocks,), dtype=torch.int32, device=x.device)
    gelu_kernel[(blocks,)](x, y, done, n_elements, BLOCK=1024, num_warps=4)
    return y
