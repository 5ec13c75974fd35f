"""Four blocks a program, unrolled.

operator: gelu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_of(x):
    inner = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(inner)


@triton.jit
def kernel(x_ptr, y_ptr, n_elements, parts: tl.constexpr, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * (parts * block)
    for part in tl.static_range(parts):
        offsets = start + part * block + tl.arange(0, block)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, gelu_of(x), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    kernel[(triton.cdiv(n_elements, 4 * 512),)](x, y, n_elements, parts=4, block=512, num_warps=2)
    return y
