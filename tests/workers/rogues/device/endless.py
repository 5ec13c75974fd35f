"""Waits for a flag that nobody raises.

operator: gelu
on a card: hang
at: check
stopped by: the deadline of a run: the runner is killed, and a spare takes over
on model: not_interpretable
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, flag_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    while tl.load(flag_ptr, volatile=True) != 42:
        x = x + 0.0
    y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    tl.store(y_ptr + offsets, y, mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    flag = torch.zeros((), dtype=torch.int32, device=x.device)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 1024),)](x, y, flag, n_elements, BLOCK=1024, num_warps=4)
    return y
